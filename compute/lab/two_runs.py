"""Labs that can compute a second run: the same lab at another value of one parameter, with one clock.

`second_run={"r": 0.1}` adds a lab of the same class, `second`, equal to the first one except for this value. It begins
in the present state of the first run. From then on `advance` advances both: by the same number of steps or, in a lab
with a simulated time, to the same time within half a time step of the second run. Every changed value, action, undo,
checkpoint and restored snapshot applies to both; a new initial state starts both. Links, files, films and a restarted
engine therefore restore both runs, as they do everything else of a lab.

A frame of the first run contains the first picture of the second one as the raster SECOND, with the same colour limits,
and its profile, if any, as the curve SECOND_PROFILE. All other rasters, curves and facts, and files of data are those
of the first run.

The second run follows lazily: a lab calls `_prepare_second` before it uses its state. The attribute `run`, the id of
the lab's unbroken run of steps, shows whether its state has been replaced since then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import param

from compute.files.documents import short
from compute.lab.frames import Frame, Raster, View, freeze
from compute.lab.lab import Lab
from compute.lab.status import LabStatus
from compute.lab.undo import UndoHistory

SECOND = "second_run"  # the parameter, the raster of a frame and the entry of a snapshot
COMPARED = "compared"  # in the state of a second run in a snapshot: the name of the value that differs
PROFILE, SECOND_PROFILE = "profile", "second_profile"  # curves of a frame
MOST_STEPS = 100  # of the second run for a step of the first: more of them would block the device
BYTES_PER_SECOND = 100e6  # of both runs in the slowest plausible step, as in compute/engine/lab_host.py


def alone(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the first run without a second one, as for a measurement."""
    return {name: value for name, value in values.items() if name != SECOND}


class TwoRuns(Lab):
    """Base of labs with an optional second run. second: its lab, None without one."""

    COMPARED: ClassVar[Mapping[str, str]] = {}  # parameters in which the runs can differ, with short names
    CLOCK: ClassVar[str] = "the same number of steps"  # equal in both runs at any moment, as text

    second_run = param.Dict(
        default={}, label="Second run", doc="Its value of one parameter by name; empty: no second run."
    )

    run: str  # id of the unbroken run of steps that the state belongs to
    earlier: UndoHistory
    second: Self | None = None
    _second_values: Mapping[str, Any] = MappingProxyType({})  # of the second run, at the last call of `_prepare_second`
    _second_of: tuple[str, list[str]] = ("", [])  # the run that it belongs to, and the name of the other value
    _second_is_cold = False  # whether its next step may compile a kernel
    _second_steps = 1.0  # the number of its steps for a step of the first; the largest number after a change of values

    # -- values

    @classmethod
    def comparable(cls, values: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG003 - a lab's own
        """Return the parameters in which the runs can differ at these values."""
        return tuple(cls.COMPARED)

    @classmethod
    def value_words(cls, name: str, values: Mapping[str, Any]) -> str:
        """Return a compared value as text, for example "r = 0.2". A named number has its name."""
        value, named = values[name], {each.slot: each.name for each in cls.named_numbers(values)}
        shown = "automatic" if value is None else f"{value:.12g}" if isinstance(value, float) else value or "default"
        return f"{named.get(name, cls.COMPARED[name])} = {shown}"

    @staticmethod
    def values_of_second(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the second run."""
        return {**values, **values[SECOND], SECOND: {}}

    @classmethod
    def _second_bytes(cls, values: Mapping[str, Any]) -> int:
        """Return the bytes that `predicted_bytes` adds for a second run."""
        return cls.predicted_bytes(**cls.values_of_second(values)) if values.get(SECOND) else 0

    def update(self, **values: Any) -> None:
        """Set parameters as in Lab.update. The second run follows at once: each number type rounds its field."""
        super().update(**values)
        self._prepare_second()

    def _try(self, values: dict[str, Any]) -> None:
        """Raise ValueError unless these values are valid for both runs."""
        super()._try(values)
        now = {**self.values(), **values}
        if not now[SECOND]:
            return
        known = self.comparable(now)
        if len(now[SECOND]) > 1 or not now[SECOND].keys() <= set(known):
            given = short(", ".join(map(str, now[SECOND])))
            raise ValueError(f"{SECOND} must have a value of one of {', '.join(known)}, not of {given}")
        try:
            super()._try({**values, **now[SECOND], SECOND: {}})
        except ValueError as error:
            raise ValueError(f"{SECOND}: {error}") from error

    # -- called by the lab

    def _open_second(self) -> None:
        """Create the second run, if any, at the end of the constructor, and follow the parameter from then on."""
        self._require_second()
        self._prepare_second()
        self.param.watch(self._change_second, SECOND, precedence=2)  # after a new initial state

    def _require_second(self) -> None:
        if self.second_run:
            try:
                self.require(**{SECOND: self.second_run})
            except Exception:
                self.close()
                raise

    def _change_second(self, event: param.parameterized.Event) -> None:
        """Follow the parameter at once, so that an error refuses its change; note a start or an end at its step."""
        try:
            self.require(**{SECOND: event.new})
            self._prepare_second()
        except Exception:
            with param.parameterized.discard_events(self):
                self._put_back({SECOND: event.old})
            raise
        if event.new.keys() != event.old.keys():
            self.history.note(self.steps, {SECOND: event.new})

    def _prepare_second(self, state: Mapping[str, Any] | None = None) -> Self | None:
        """Return the second run, up to date: created, updated, in the state of the first one if that was replaced.

        state: a snapshot of the second run from which it continues instead.
        """
        if not self._values[SECOND]:
            self._close_second()
            return None
        values, belongs = self.values_of_second(self.values()), (self.run, list(self.second_run))
        second = self.second
        if second is None:
            second = self.second = type(self)(**values)
            self._second_is_cold = True
        elif values != self._second_values:
            self._second_is_cold |= any(values[name] != self._second_values[name] for name in self.STRUCTURAL)
            with second.earlier.resting():
                second.update(**values)
        if values != self._second_values:
            self._second_values, self._second_steps = values, MOST_STEPS
        if second.interim is not self.interim:
            second.set_interim(self.interim)
        if belongs != self._second_of:
            with second.earlier.resting():
                second.restore({**(state or self.snapshot()), "run": self.run})
            self._second_of = belongs
        return second

    def _close_second(self) -> None:
        if self.second is not None:
            self.second.close()
        self.second, self._second_of = None, ("", [])

    def close(self) -> None:
        """Release both runs."""
        self._close_second()
        super().close()

    def _second_snapshot(self) -> dict[str, Any]:
        """Return the entry of the second run in a snapshot; {} if it begins in the state of the first."""
        if self.second is None or self._second_of != (self.run, list(self.second_run)):
            return {}
        return {SECOND: {**self.second.snapshot(), "saved": None, COMPARED: list(self.second_run)}}

    def _resume_second(self, snapshot: Mapping[str, Any]) -> None:
        """Let the second run continue from the snapshot that the first one has restored, at once as in `update`."""
        state = snapshot.get(SECOND)
        self._second_of = "", []
        self.history.note(self.steps, {SECOND: self.second_run})
        self._prepare_second(state if state and state[COMPARED] == list(self.second_run) else None)

    def _advance_second(self, steps: int) -> None:
        """Advance the second run to the time of the first, which has done `steps` steps."""
        if self.second is None:
            return
        done = 0
        while more := self.second._steps_to(self._clock):  # noqa: SLF001 - of the same class
            done += more
            if done > MOST_STEPS * steps:
                raise ValueError(
                    f"{SECOND}: its time step is too small; at most {MOST_STEPS} of its steps are taken for one of the "
                    "first run"
                )
            self.second.advance(more)
        self._second_is_cold, self._second_steps = False, max(1, done / steps)

    @property
    def _clock(self) -> float:
        """The reading of the clock that is equal in both runs: the number of steps."""
        return self.steps

    def _steps_to(self, clock: float) -> int:
        """Return the steps to a reading of the clock, or a part of them; 0 at that reading."""
        return int(clock) - self.steps

    def _with_second(self, frame: Frame, view: View | None, pixels: tuple[int, int]) -> Frame:
        """Return the frame with the first picture of the second run, both with the same colour limits.

        These are the limits that are held or set, and otherwise contain the values of both runs.
        """
        if self.second is None:
            return frame
        other = self.second.frame(view, pixels)
        name = next(iter(frame.rasters))
        first, second = frame.rasters[name], other.rasters[name]
        limits = self._held_limits() or (min(first.low, second.low), max(first.high, second.high))
        if first.span != limits:
            first = self._first_raster(view, pixels, limits)
        if second.span != limits:
            second = self.second._first_raster(view, pixels, limits)  # noqa: SLF001 - of the same class
        (compared,) = self.second_run
        words = [self.value_words(compared, values) for values in (self.values(), self._second_values)]
        pictures = {
            name: replace(first, label=f"{first.label}, {words[0]}"),
            SECOND: replace(second, label=f"{second.label}, {words[1]}"),
        }
        lines = {SECOND_PROFILE: other.curves[PROFILE]} if PROFILE in other.curves else {}
        clocks = {f"second_{each}": other.facts[each] for each in ("step", "t") if each in other.facts}
        facts, notes = freeze({**frame.facts, **clocks}), freeze({**frame.notes, SECOND: words[1]})
        return replace(frame, parts={**frame.parts, **pictures, **lines}, facts=facts, notes=notes)

    def _status_of_both(self, status: LabStatus) -> LabStatus:
        """Return the status of the first run with the faults of the second one."""
        if self.second is None:
            return status
        other = self.second.status
        if status.healthy and not other.healthy:
            why = other.why or "its field holds values that are not finite (NaN or inf)"
            status = replace(status, healthy=False, why=f"second run: {why}")
        of_step = self.predicted_bytes(**self.values()) / BYTES_PER_SECOND
        longest = max(status.longest_call, of_step * self._second_steps)
        return replace(status, cold=status.cold or other.cold or self._second_is_cold, longest_call=longest)

    @abstractmethod
    def _held_limits(self) -> tuple[float, float] | None:
        """Return the colour limits of the first picture that are held or set; None if they follow the field."""

    @abstractmethod
    def _first_raster(self, view: View | None, pixels: tuple[int, int], limits: tuple[float, float]) -> Raster:
        """Return the first picture with these colour limits."""
