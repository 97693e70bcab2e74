"""One case of a bench run: open the arrays, check every way against the reference, sample those that may be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from compute.bench.measure import LEAST, interleave, steps_for
from compute.bench.rows import Row, with_speed_ups
from compute.bench.samples import Sample, taken
from compute.bench.workload import Rig, Way
from compute.timings import Measurement, Timing

PATIENCE = 2.0  # a way may take so many times its case's share of the budget before it is skipped


@dataclass
class Pace:
    """Seconds a cell that each way took last, by way and what the case says its pace depends on."""

    seconds: dict[Any, float] = field(default_factory=dict)

    def note(self, way: Way, case: Any, timing: Timing) -> None:
        """Remember a timing."""
        self.seconds[way.name, case.pace] = timing.step_seconds / case.cells

    def step_seconds(self, way: Way, case: Any) -> float:
        """Seconds a step of `case` should take; 0 if this way was never seen at such a case."""
        return self.seconds.get((way.name, case.pace), 0.0) * case.cells


class CaseRun:
    """Everything that is held while one case is timed.

    case: the lab's Case; right: its reference; share: seconds of sampling this case may take; listen: whether the parts
    of each sample are noted.
    """

    def __init__(self, work: ModuleType, case: Any, right: Any, share: float, pace: Pace, listen: bool = False) -> None:
        self._work, self._right, self._share, self._pace = work, right, share, pace
        self.case = self._case = case
        self._listen = listen
        self._rigs: dict[str, Rig] = {}
        self._checked: list[tuple[Way, Row, Sample]] = []
        self.rows: list[Row] = []

    def check(self, way: Way) -> None:
        """Compare the way's result with the reference; a row now unless it is to be sampled."""
        row = Row(way.backend.name, way.variant, self._case, "skipped", reference=self._right.name)
        reason = self._too_slow(self._pace.step_seconds(way, self._case))
        if reason:
            self.rows.append(replace(row, reason=reason))
            return
        try:
            self._compare(way, row)
        except Exception as error:  # noqa: BLE001  one broken way must not lose the figures of the others
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self.rows.append(replace(row, status="failed", reason=text))

    def sample(self, heard: Callable[[float], object] = lambda _: None) -> None:
        """Time the ways that were checked, in shuffled rounds, and add their rows; heard: as of `interleave`."""
        calls: dict[str, Callable[[], Sample]] = {}
        for way, _, _ in self._checked:
            self._pace.note(way, self._case, self._run(way))  # the first at length: it may tune itself
            self._pace.note(way, self._case, self._run(way))
            calls[way.name] = self._call(way, self._steps(way))
        found = interleave(calls, self._share, heard=heard)
        rows = []
        for way, row, first in self._checked:
            last = found[way.name][-1].timing
            self._pace.note(way, self._case, last)
            cold = replace(first, timing=replace(first.timing, first_call=True, cells=last.cells))
            samples = (cold, *found[way.name])
            measurement = Measurement.of([sample.timing for sample in samples])
            rows.append(replace(row, measurement=measurement, steps=last.steps, samples=samples))
        self.rows += with_speed_ups(rows)

    def close(self) -> None:
        """Give the devices' memory back."""
        devices = [rig.device for rig in self._rigs.values()]
        self._rigs.clear()
        for device in devices:
            device.close()

    def _compare(self, way: Way, row: Row) -> None:
        reason = self._open(way)
        if reason:
            self.rows.append(replace(row, reason=reason))
            return
        rig = self._rigs[way.backend.name]
        told: list[float] = []  # seconds a step, beside the timing

        def call() -> Timing:
            timing, seconds = rig.first(way)
            told.append(seconds)
            return timing

        first = taken(call, self._listen)
        row = replace(row, device=rig.device.name)
        reason = self._too_slow(told[0])
        if reason:
            self.rows.append(replace(row, reason=reason))
            return
        difference, largest, timing = rig.check(way)
        self._pace.note(way, self._case, timing)
        row = replace(row, difference=difference, largest=largest)
        if way.variant in self._work.WRONG:
            row = replace(row, status="wrong", reason=self._work.WRONG[way.variant])
        elif not difference <= self._case.tolerance:
            reason = self._work.differs(difference, self._case.tolerance)
            self.rows.append(replace(row, status="disagrees", reason=reason))
            return
        else:
            row = replace(row, status="measured")
        self._checked.append((way, row, first))

    def _open(self, way: Way) -> str:
        """Open the backend's arrays if they are not there yet; why not, or empty."""
        if way.backend.name in self._rigs:
            return ""
        device = way.backend.open_device()
        wanted, free = self._case.needed_bytes, device.free_bytes()
        if wanted > free:
            return f"needs {wanted / 2**30:.1f} GiB on {device.name}; {free / 2**30:.1f} GiB are free"
        self._rigs[way.backend.name] = self._work.Rig(device, self._case, self._right)
        return ""

    def _too_slow(self, step: float) -> str:
        """Why steps of so many seconds would take too long; empty if they would not."""
        seconds, allowed = step * (self._work.CHECK_STEPS + LEAST), PATIENCE * self._share
        if seconds <= allowed:
            return ""
        what = self._work.RATE.step
        return f"would take about {seconds:.0f} s ({step:.2g} s a {what}); {allowed:.0f} s are allowed for this case"

    def _steps(self, way: Way) -> int:
        return steps_for(self._pace.step_seconds(way, self._case), most=self._work.MOST_STEPS)

    def _run(self, way: Way) -> Timing:
        return self._rigs[way.backend.name].run(way, self._steps(way))

    def _call(self, way: Way, steps: int) -> Callable[[], Sample]:
        rig = self._rigs[way.backend.name]
        return lambda: taken(lambda: rig.run(way, steps), self._listen)
