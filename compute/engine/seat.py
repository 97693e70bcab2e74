"""One lab in the worker: its values, its pace, and what it shows."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from compute.backends import backend
from compute.builds import watching
from compute.engine.filming import Filming
from compute.engine.keeper import Keeper
from compute.engine.memory import pack
from compute.engine.messages import Parcel, Paused, Picture, Refused, Settled, View
from compute.engine.pace import Pace
from compute.engine.port import LONG, Port
from compute.engine.ring import ELSEWHERE, Ring
from compute.frames import Frame
from compute.lab import Lab
from compute.spans import listening

BYTES_PER_SECOND = 100e6  # slowest plausible handling of a field: a preset computed in NumPy
NOTICEABLE = 0.2  # seconds of allowance from which it is announced: a loaded machine needs many times as long
NOT_FINITE = "the field holds values that are not finite (NaN or inf); reset it, or go back to a checkpoint"


def belongs(engine: str, values: Mapping[str, Any]) -> None:
    """Raise ValueError if the backend or the device number in `values` is not this engine's."""
    kind, _, index = engine.partition(":")
    if "backend" in values and backend(values["backend"]).device != kind:
        raise ValueError(f"backend {values['backend']!r} runs on another device than the engine {engine!r}")
    if index.isdigit() and str(values.get("device_index", index)) != index:
        raise ValueError(f"device_index {values['device_index']!r} is not the device of the engine {engine!r}")


class Seat:
    """Lab number `number` of the engine `engine`. Its methods are the orders of a LabHandle, by the same names."""

    def __init__(self, number: int, lab: Lab, port: Port, ring: Ring, engine: str) -> None:
        self.number, self.lab = number, lab
        self.pace, self.filming = Pace(), Filming(number, lab, port, self._patience)
        self.keeper = Keeper(number, lab, port, self.filming.mark)
        self.view: View | None = None
        self.pixels = (512, 512)
        self._shown: tuple[View | None, tuple[int, int]] = (None, self.pixels)
        self._port, self._ring, self._engine = port, ring, engine
        self._updates: list[tuple[int, Mapping[str, Any]]] = []
        self._sick = False
        self._measure()

    # -- orders

    def update(self, serial: int, values: Mapping[str, Any]) -> None:
        """Remember the values until the next turn; of equal ones the newest wins."""
        self._updates = [old for old in self._updates if not old[1].keys() <= values.keys()]
        self._updates.append((serial, values))

    def act(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Call one of the lab's actions, or `restore`, after the values that came before it."""
        self.settle()
        action = self.lab.restore if name == "restore" else partial(self.lab.act, name)
        with self._ring.at_work(), self._patience():
            action(**arguments)
        self._changed()
        self._port.say(Settled(self.number, 0, self.lab.values()))

    def run(self) -> None:
        """Start, or go on."""
        self.pace.running = True

    def pause(self) -> None:
        """Stop; what was computed of an unfinished frame is shown."""
        self.pace.stop()

    def step(self, n: int) -> None:
        """Pause and advance `n` steps, then show."""
        self.pace.restep(n)

    def set_pace(self, steps: int | None) -> None:
        """Steps per frame; None for as fast as it goes."""
        self.pace.steps = steps

    def look(self, view: View | None, pixels: tuple[int, int]) -> None:
        """Show another part, or at another size."""
        self.view, self.pixels, self.pace.dirty = view, pixels, True

    def frames_through(self, number: int) -> None:
        """Permit all frames up to `number`."""
        self.pace.permit(number, time.monotonic())

    def record(self, folder: str, done: int | None, **arguments: Any) -> None:
        """Record from now on, or go on with it."""
        self.settle()
        self.filming.begin(folder, done, **arguments)
        self.keeper.touch(by_hand=True)
        with self._ring.at_work():
            self._film()

    def stop_recording(self) -> None:
        """End the recording."""
        self.filming.end()

    # -- turns

    def wakes_at(self, now: float) -> float:
        """When this lab wants its next turn: 0 for at once, inf for not before an order comes."""
        shows = self._frame_due()
        ready = self._ring.free() is not None if shows else self._steps(now) > 0
        if ready or self._updates or self.filming.due(running=self.pace.running):
            return 0.0
        alone_at = self.pace.alone_at() if self.filming.on and not (shows or self.lab.resting) else inf
        return min(self.keeper.wakes_at(), self.filming.wakes_at(), alone_at if alone_at > now else inf)

    def turn(self, now: float) -> None:
        """Values, one slice, a frame if one is due, a piece of a deposit."""
        try:
            with self._ring.at_work():
                self._work(now)
        except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
            self.pace.fail()
            self._port.trouble(self.number, error, Paused)

    def _work(self, now: float) -> None:
        self.settle()
        if not self._frame_due() and (steps := self._steps(now)):
            self._compute(steps)
        self._film()
        slot = self._ring.free()
        if self._frame_due() and slot is not None:
            self._show(slot)
        if self.keeper.wakes_at() <= now:
            with self._patience():
                self.keeper.turn()

    def _frame_due(self) -> bool:
        """Whether to show the lab now; one that rests is shown once more if it changed, and left alone."""
        if self.lab.resting:
            self.pace.rest()
        return self.pace.frame_due(self.lab.resting)

    def _steps(self, now: float) -> int:
        if self.lab.resting:
            return 0
        return self.filming.limited(self.pace.next_steps(now, recorded=self.filming.on))

    def settle(self) -> None:
        """Apply the waiting values: each set as a whole or not at all."""
        if not self._updates:
            return
        updates, self._updates = self._updates, []
        for serial, values in updates:
            try:
                self._apply(values)
            except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
                kept = {name: value for name, value in self.lab.values().items() if name in values}
                self._port.trouble(self.number, error, partial(Refused, change=serial, kept=kept))
        self._port.say(Settled(self.number, updates[-1][0], self.lab.values()))

    def _apply(self, values: Mapping[str, Any]) -> None:
        belongs(self._engine, values)
        if values.keys() & set(self.lab.STRUCTURAL):
            with self._port.expecting(self.number, "rebuilding", LONG):
                self.lab.update(**values)
            self.pace.cost = 0.0
            self._measure()
        else:
            with self._patience():
                self.lab.update(**values)
        self._changed()

    def _compute(self, steps: int) -> None:
        by_hand = self.pace.owed > 0
        with self._patience("compute"), listening() as heard:
            start = time.perf_counter()
            timing = self.lab.advance(steps)
            self.pace.did(replace(timing, spans=heard.spans), time.perf_counter() - start)
            self.filming.did(timing.steps)
        self.keeper.touch(by_hand=by_hand)

    def _show(self, slot: int) -> None:
        with self._patience("show"), listening("levels") as heard, watching() as builds:
            frame = self._frame()
        if frame is None:
            return
        first_call = frame.timing.first_call or builds.count > 0
        timing = self.pace.shown().total(replace(frame.timing, spans=heard.spans, first_call=first_call))
        facts, notes = dict(frame.facts), dict(frame.notes)  # a read-only view cannot be pickled
        self._send(slot, replace(frame, number=self.pace.frames, timing=timing, facts=facts, notes=notes))
        self._examine()

    def _film(self) -> None:
        if self.filming.turn(running=self.pace.running):
            self._examine()

    def _examine(self) -> None:
        """Pause a lab whose last frame was seen to hold NaN or inf."""
        sick = not self.lab.healthy
        if sick and (self.pace.running or not self._sick):
            self.pace.stop()
            self._port.tell(self.number, Paused(NOT_FINITE))
        self._sick = sick

    def _frame(self) -> Frame | None:
        """What the lab shows; None, and another look next time, if it cannot show what was asked for.

        A client that asks for a view outside the grid is refused and keeps the view it had; a view that a new size of
        the grid has left outside becomes the whole.
        """
        look = self.view, self.pixels
        try:
            frame = self.lab.frame(*look)
        except ValueError as error:
            if self.view is None:
                raise
            self.view, self.pixels = self._shown if look != self._shown else (None, self.pixels)
            self.pace.dirty = True
            if look != self._shown:
                self._port.trouble(self.number, error, partial(Refused, request="look"))
            return None
        self._shown = look
        return frame

    def _send(self, slot: int, frame: Frame) -> None:
        parcel, buffers = pack(frame)
        if not self._ring.put(slot, buffers):
            slot, parcel = ELSEWHERE, Parcel(pickle.dumps(frame, protocol=5), ())
        self._port.say(Picture(self.number, slot, parcel))

    def _changed(self) -> None:
        self.pace.dirty = True
        self.filming.changed()
        self.keeper.touch(by_hand=True)

    @contextmanager
    def _patience(self, what: str = "") -> Iterator[None]:
        """Announce what may outlast the usual deadline: the first call of a kernel, or any work on a large field."""
        cold = what in self._cold or (bool(what) and self.lab.cold)
        seconds = LONG if cold else self._allowance
        if seconds < NOTICEABLE:
            yield
            return
        with self._port.expecting(self.number, "compiling" if cold else "", seconds):
            yield
        self._cold.discard(what)

    def _measure(self) -> None:
        self._cold = {"compute", "show"}
        self._allowance = self.lab.predicted_bytes(**self.lab.values()) / BYTES_PER_SECOND

    def close(self) -> None:
        """Give everything back."""
        self.keeper.close()
        self.lab.close()
        self._ring.close()
