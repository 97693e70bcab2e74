"""A lab inside the worker: handles requests, computes slices, shows frames, pauses on errors."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, assert_never

from compute.cli import settings
from compute.devices.backends import backend
from compute.devices.builds import watching
from compute.engine import messages
from compute.engine.checkpoints import Checkpointer
from compute.engine.compiling import KernelJobs, LabKernels
from compute.engine.pacing import FramePacer, Urgency
from compute.engine.recording import LabRecorder
from compute.engine.sending import COMPILING, EventSender
from compute.engine.shared_memory import IN_MESSAGE, FrameRing, pack
from compute.lab.frames import Frame, View
from compute.lab.lab import Lab
from compute.measure.timing import listening

BYTES_PER_SECOND = 100e6  # slowest plausible processing of a field: a preset computed in NumPy
NOTICEABLE = 0.2  # seconds from which an allowance is announced: a loaded machine needs many times as long
MOST_WAITING = 64  # requests of a lab that wait for its turn
NOT_FINITE = "the field holds values that are not finite (NaN or inf); reset it, or go back to a checkpoint"


def check_device(engine: str, values: Mapping[str, Any]) -> None:
    """Raise ValueError if the backend or the device number in `values` is not this engine's."""
    kind, _, index = engine.partition(":")
    if "backend" in values and backend(values["backend"]).device != kind:
        raise ValueError(f"backend {values['backend']!r} runs on another device than the engine {engine!r}")
    if index.isdigit() and str(values.get("device_index", index)) != index:
        raise ValueError(f"device_index {values['device_index']!r} is not the device of the engine {engine!r}")


@dataclass(frozen=True, eq=False)
class Deferred:
    """A request that waits for its lab's turn, and the function that carries it out."""

    request: messages.HostRequest | messages.WorkerRequest
    carry_out: Callable[[], object]


class LabHost:
    """Lab number `number` of the engine `engine`, with its pacer, its recorder and its checkpointer.

    jobs: compile the kernels that its values generate.
    """

    def __init__(
        self, number: int, lab: Lab, sender: EventSender, ring: FrameRing, engine: str, jobs: KernelJobs
    ) -> None:
        self.number, self.lab = number, lab
        self._kernels = LabKernels(lab, jobs)
        self._kernels.request()
        self.pacer, self.recorder = FramePacer(), LabRecorder(number, lab, sender, self._allow_time)
        self.checkpointer = Checkpointer(number, lab, sender, self.recorder.offset)
        self.view: View | None = None
        self.pixels = (512, 512)
        self._shown: tuple[View | None, tuple[int, int]] = (None, self.pixels)
        self._sender, self._ring, self._engine = sender, ring, engine
        self._waiting: deque[messages.Update | Deferred] = deque()
        self._sick = False
        self._seconds = 0.0  # of device time in all turns
        self._most_seconds = settings.current().device_seconds or inf
        self._cold = {"compute", "show"}  # operations that run for the first time and may compile
        self._allowance = self._expected_seconds()

    # -- requests

    def handle(self, request: messages.HostRequest) -> None:  # noqa: C901, PLR0912 - a case for each request
        """Handle a request; long ones, and requests that must follow a long one, wait for the lab's turn."""
        match request:
            case messages.Update():
                self._update(request)
            case messages.Act(name=name, arguments=arguments):
                self.defer(request, partial(self._act, partial(self.lab.act, name, **arguments)))
            case messages.Restore(snapshot=snapshot):
                self.defer(request, partial(self._act, partial(self.lab.restore, dict(snapshot))))
            case messages.Run():
                self.pacer.running = self._has_time()
            case messages.Pause():
                self.pacer.stop()
            case messages.Step(n=n):
                if self._has_time():
                    self.pacer.add_single_steps(n)
            case messages.SetPace(steps=steps):
                self.pacer.steps = steps
            case messages.SetView():
                self.view, self.pixels, self.pacer.dirty = request.view, request.pixels, True
            case messages.FramesThrough(number=number):
                self.pacer.permit(number, time.monotonic())
            case messages.Record():
                self._put_off(request, partial(self._record, request))
            case messages.StopRecording():
                self._put_off(request, self.recorder.end)
            case messages.TellHistory(number=number):
                self.defer(request, partial(self._tell_history, number))
            case _:
                assert_never(request)

    def at_work(self) -> AbstractContextManager[None]:
        """Return a context manager: if the process dies inside it, the death is charged to this lab."""
        return self._ring.at_work()

    def mark_resting(self, resting: bool) -> None:
        """Write into the ring whether the worker waits for messages. The worker reads the limits after that."""
        self._ring.rest(resting)

    def see_limit(self, now: float) -> None:
        """Apply the frame limit that the server wrote into the ring."""
        if (number := self._ring.frames_through) > self.pacer.frames_through:
            self.pacer.permit(number, now)

    def defer(self, request: messages.HostRequest | messages.WorkerRequest, carry_out: Callable[[], object]) -> None:
        """Carry `request` out in a turn of this lab, after the earlier ones, so that its time counts for this lab only.

        Raise ValueError if too many wait.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise ValueError(f"{MOST_WAITING} requests of this lab wait already; nothing was done")
        self._waiting.append(Deferred(request, carry_out))

    def _put_off(self, request: messages.Record | messages.StopRecording, carry_out: Callable[[], object]) -> None:
        """As `defer`, but never refuse, which would lose frames: at most one request of each class waits."""
        if not any(isinstance(one, Deferred) and type(one.request) is type(request) for one in self._waiting):
            self._waiting.append(Deferred(request, carry_out))

    def _update(self, update: messages.Update) -> None:
        """Queue values; they replace queued updates of the same values, back to the last request of another kind."""
        between: deque[messages.Update | Deferred] = deque()
        while self._waiting and isinstance(older := self._waiting[-1], messages.Update):
            self._waiting.pop()
            if not older.values.keys() <= update.values.keys():
                between.appendleft(older)
        self._waiting += [*between, update]

    def _tell_history(self, number: int) -> None:
        self._sender.send_event(self.number, messages.HistoryTold(self.lab.HISTORY.origin(self.lab), number))

    def _act(self, action: Callable[[], object]) -> None:
        """Run an action on the lab and report the resulting values."""
        with self._allow_time():
            self._follow(action)
        self._changed()
        self._sender.send(messages.ParametersApplied(self.number, 0, self.lab.values()))

    def count(self, seconds: float) -> None:
        """Add the device time of a turn; pause a lab that has used up the server's quota."""
        self._seconds += seconds
        if self._used_up and (self.pacer.running or self.pacer.single_steps):
            self.pacer.stop()
            self.recorder.end(self._out_of_time)
            self._sender.send_event(self.number, messages.Paused(self._out_of_time))

    @property
    def _out_of_time(self) -> str:
        allowed = f"{self._most_seconds:,.0f} s of the device"
        return f"this page has used the {allowed} that a lab may compute on this server (its setting device_seconds)"

    @property
    def _used_up(self) -> bool:
        """Whether the lab has used up the server's quota of device time."""
        return self._seconds >= self._most_seconds

    def _has_time(self) -> bool:
        """Return whether the lab may compute; if not, send Paused to its client, which considers it running."""
        if not self._used_up:
            return True
        self._sender.send_event(self.number, messages.Paused(self._out_of_time))
        return False

    def _record(self, request: messages.Record) -> None:
        if self._used_up:
            self._sender.send_event(self.number, messages.RecordingProgress(0, 0, 0, self._out_of_time))
            return
        self.recorder.begin(request)
        self.checkpointer.touch(by_hand=True)
        self._take_recorded_frame()

    # -- turns

    def wakes_at(self, now: float) -> float:
        """Return the time of the next turn: 0 for immediately, inf if the lab waits for a request."""
        shows = self._frame_due()
        ready = self._ring.free() is not None if shows else self._steps(now) > 0
        if ready or self._waiting or self.recorder.due(running=self.pacer.running):
            return 0.0
        unwatched_at = self.pacer.unwatched_at() if self.recorder.on and not (shows or self.lab.status.resting) else inf
        unwatched_at = unwatched_at if unwatched_at > now else inf
        return min(self.checkpointer.wakes_at(), self.recorder.wakes_at(), self._kernels.look_at, unwatched_at)

    def urgency(self) -> Urgency:
        """Return whether a client waits for this lab's next turn, for a frame or for the answer to a value.

        A recording continues without a client; a lab that only computes ahead of its permitted frames can wait.
        """
        if self._waiting or self.pacer.waited_for:
            return Urgency.AWAITED
        return Urgency.DUE if self.recorder.on or not self.pacer.running else Urgency.AHEAD

    def turn(self, now: float, seconds: float) -> None:
        """Carry out waiting requests; then compute a slice, show a due frame and write a piece of a checkpoint.

        Kernels that a job has compiled are loaded first. seconds: for a slice and a frame together.
        """
        self.pacer.turn = seconds
        try:
            with self._ring.at_work():
                if self._kernels.ended(now):
                    self._take_kernels()
                if self._carry_out(now + seconds):
                    self._work(now)
        except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
            self.pacer.fail()
            self._sender.report_error(self.number, error, messages.Paused)

    def _take_kernels(self) -> None:
        with self._sender.extended_deadline(self.number, "", COMPILING):
            self._kernels.take()
        self._begin_anew()
        self._changed()

    def _begin_anew(self) -> None:
        """Forget the times of the backend that computed before."""
        self.pacer.begin_anew()
        self._cold = {"compute", "show"}

    def _work(self, now: float) -> None:
        if not self._frame_due() and (steps := self._steps(now)):
            self._compute(steps)
        self._take_recorded_frame()
        slot = self._ring.free()
        if self._frame_due() and slot is not None:
            self._show(slot)
        if self.checkpointer.wakes_at() <= now:
            with self._allow_time():
                self.checkpointer.turn()

    def _frame_due(self) -> bool:
        """Return whether to show the lab now; a resting lab is shown only if it has changed."""
        resting = self.lab.status.resting
        if resting:
            self.pacer.rest()
        return self.pacer.frame_due(resting)

    def _steps(self, now: float) -> int:
        status = self.lab.status
        if status.resting:
            return 0
        steps = self.recorder.limited(self.pacer.next_steps(now, recorded=self.recorder.on))
        steps = min(steps, status.stops_after or steps)
        return 0 if steps and self.lab.blocked() else steps

    def _carry_out(self, until: float) -> bool:
        """Carry out waiting requests in order; return False if the turn's time ended before the last one."""
        while self._waiting:
            first = self._waiting.popleft()
            if isinstance(first, Deferred):
                try:
                    first.carry_out()
                except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
                    self._sender.report_refusal(self.number, first.request, error)
            else:
                updates = [first]
                while self._waiting and isinstance(update := self._waiting[0], messages.Update):
                    updates.append(update)
                    self._waiting.popleft()
                self._apply_all(updates)
            if time.monotonic() >= until:
                return not self._waiting
        return True

    def _apply_all(self, updates: Sequence[messages.Update]) -> None:
        """Apply updates, each as a whole or not at all."""
        for update in updates:
            try:
                self._apply(update.values)
            except Exception as error:  # noqa: BLE001 - reported to this lab's client and logged
                kept = {name: value for name, value in self.lab.values().items() if name in update.values}
                self._sender.report_error(
                    self.number, error, partial(messages.Refused, change=update.serial, kept=kept)
                )
        self._sender.send(messages.ParametersApplied(self.number, updates[-1].serial, self.lab.values()))

    def _apply(self, values: Mapping[str, Any]) -> None:
        check_device(self._engine, values)
        if values.keys() & set(self.lab.STRUCTURAL):
            with self._sender.extended_deadline(self.number, "rebuilding", COMPILING):
                self._follow(partial(self.lab.update, **values))
            self._begin_anew()
        else:
            with self._allow_time():
                self._follow(partial(self.lab.update, **values))
        self._changed()

    def _follow(self, change: Callable[[], object]) -> None:
        """Change the lab; load or compile the kernels of its new values, which an undo may change, too."""
        before, interim = self._generating, self.lab.interim
        change()
        if self._generating != before:
            self._kernels.request()
        if self.lab.interim != interim:
            self._begin_anew()

    @property
    def _generating(self) -> list[Any]:
        """The values that determine kernels and the memory of the state."""
        names = (*self.lab.COMPILED, *self.lab.STRUCTURAL) if self.lab.COMPILED else ()
        values = self.lab.values() if names else {}
        return [values[name] for name in names]

    def _compute(self, steps: int) -> None:
        by_hand, status = self.pacer.single_steps > 0, self.lab.status
        with self._allow_time("compute"), listening() as heard:
            start = time.perf_counter()
            timing = self.lab.advance(steps)
            self.pacer.slice_done(replace(timing, spans=heard.spans), time.perf_counter() - start)
            self.recorder.advanced(timing.steps)
        if steps == status.stops_after:
            self.pacer.stop()
            self._sender.send_event(self.number, messages.Paused(status.goal))
        self.checkpointer.touch(by_hand=by_hand)

    def _show(self, slot: int) -> None:
        start = time.perf_counter()
        with self._allow_time("show"), listening("levels") as heard, watching() as builds:
            frame = self._frame()
        if frame is None:
            return
        first_call = frame.timing.first_call or builds.count > 0
        tally = self.pacer.frame_shown(0.0 if first_call else time.perf_counter() - start)
        timing = tally.total(replace(frame.timing, spans=heard.spans, first_call=first_call))
        facts, notes = dict(frame.facts), dict(frame.notes)  # a read-only view cannot be pickled
        frame = replace(frame, number=self.pacer.frames, timing=timing, facts=facts, notes=notes)
        payload, buffers = pack(frame)
        if not self._ring.put(slot, buffers):
            slot, payload = IN_MESSAGE, messages.Payload(pickle.dumps(frame, protocol=5), ())
        self._sender.send(messages.FrameMessage(self.number, slot, payload))
        self._examine()

    def _take_recorded_frame(self) -> None:
        if self.recorder.turn(running=self.pacer.running):
            self._examine()

    def _examine(self) -> None:
        """Pause the lab if its last frame showed that its state is not healthy."""
        status = self.lab.status
        sick = not status.healthy
        if sick and (self.pacer.running or not self._sick):
            self.pacer.stop()
            self._sender.send_event(self.number, messages.Paused(status.why or NOT_FINITE))
        self._sick = sick

    def _frame(self) -> Frame | None:
        """Return a frame of the lab; None if the current view is invalid, and the next turn tries another one.

        A request for a view outside the grid is refused and the last valid view is restored; a view that lies outside
        after the grid was resized is reset to the whole grid.
        """
        look = self.view, self.pixels
        try:
            frame = self.lab.frame(*look)
        except ValueError as error:
            if self.view is None:
                raise
            self.view, self.pixels = self._shown if look != self._shown else (None, self.pixels)
            self.pacer.dirty = True
            if look != self._shown:
                self._sender.report_error(self.number, error, partial(messages.Refused, request=messages.SetView))
            return None
        self._shown = look
        return frame

    def _changed(self) -> None:
        self._allowance = self._expected_seconds()
        self.pacer.dirty = True
        self.recorder.changed()
        self.checkpointer.touch(by_hand=True)

    @contextmanager
    def _allow_time(self, what: str = "") -> Iterator[None]:
        """Announce work that may exceed the usual deadline: a kernel's first call, or any work on a large field."""
        status = self.lab.status
        cold = bool(what) and (what in self._cold or status.cold)
        seconds = COMPILING if cold else max(self._allowance, status.longest_call)
        if seconds < NOTICEABLE:
            yield
            return
        with self._sender.extended_deadline(self.number, "compiling" if cold else "", seconds):
            yield
        self._cold.discard(what)

    def _expected_seconds(self) -> float:
        """Return the seconds that one operation may take with the current values, without compiling."""
        return max(self.lab.predicted_bytes(**self.lab.values()) / BYTES_PER_SECOND, self.lab.status.longest_call)

    def close(self) -> None:
        """Release all resources."""
        with self._ring.at_work():
            self.checkpointer.close()
            self._kernels.close()
            self.lab.close()
        self._ring.close()
