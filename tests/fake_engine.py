"""An engine without a process: the requests and events of compute.engine, processed one by one on a test's call.

`Engines.turn()` processes one item of each engine: a request, a step, a frame, a checkpoint. Tests inject faults
between turns. The state of a lab is a step count and the marks painted into it, so that a test can detect losses: only
the work of a dead engine since its last checkpoint may be missing (`lost`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compute.engine import messages
from compute.lab.frames import Frame
from compute.measure.timing import Timing

TIMING = Timing("cpu_numpy", "", 0, 1)


@dataclass(frozen=True)
class Kept:
    """A checkpoint: values, step count, marks."""

    values: Mapping[str, Any]
    count: int
    marks: tuple[int, ...]


@dataclass
class FakeLab:
    """One lab of an engine, both its handle and the worker's side."""

    engine: FakeEngine
    on_event: Callable[[messages.Event], None]
    values_now: dict[str, Any]
    frames: int
    through: int
    checkpoint: Kept | None
    opened: bool = False
    closed: bool = False
    running: bool = False
    steps: int | None = 1
    view: Any = None
    count: int = 0
    marks: list[int] = field(default_factory=list)
    dirty: bool = True
    serial: int = 0
    updates: dict[int, dict[str, Any]] = field(default_factory=dict)  # unapplied, by serial number
    requests: deque[messages.Request] = field(default_factory=deque)
    recording: tuple[Any, ...] | None = None
    recorded: int = 0
    stopping: bool = False
    absent: str = ""  # reason for the engine's absence

    # -- the handle

    @property
    def values(self) -> dict[str, Any]:
        merged = dict(self.values_now)
        for update in self.updates.values():
            merged |= update
        return merged

    @property
    def last_checkpoint(self) -> Kept | None:
        return self.checkpoint

    def update(self, **values: Any) -> int:
        self.serial += 1
        self.updates[self.serial] = values
        self.requests.append(messages.Update(0, self.serial, values))
        return self.serial

    def act(self, name: str, **arguments: Any) -> None:
        self._send(messages.Act(0, name, arguments))

    def run(self) -> None:
        self.running = True

    def pause(self) -> None:
        self.running = False

    def step(self, n: int) -> None:
        self.running = False
        self._send(messages.Step(0, n))

    def pace(self, steps: int | None) -> None:
        self.steps = steps

    def set_view(self, view: Any, pixels: Any) -> None:
        self.view, self.dirty = (view, pixels), True

    def frames_through(self, number: int) -> None:
        self.through = number

    def snapshot(self) -> None:
        self._ask(messages.TakeSnapshot(0))

    def take_checkpoint(self) -> None:
        self._ask(messages.TakeCheckpoint(0))

    def record(self, *arguments: Any) -> None:
        if self.recording is not None:
            self.on_event(messages.Refused("this lab is being recorded already"))
        elif not self.closed:
            self.recording, self.recorded = arguments[:4], arguments[4] if len(arguments) > 4 else 0

    def stop_recording(self) -> None:
        if self.engine.broken:
            self.stopping = True  # on the next retry
        else:
            self._send(messages.StopRecording(0))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.engine.broken:  # its unread requests
                self.engine.lost |= self._unread()
            self.engine.labs.remove(self)

    def _unread(self) -> set[int]:
        """Return the marks in requests that the worker has not read."""
        return {request.arguments["mark"] for request in self.requests if isinstance(request, messages.Act)}

    def _send(self, request: messages.Request) -> None:
        if self.engine.broken and not self.closed:
            self.on_event(messages.Refused("the engine has stopped; nothing was done"))
            if isinstance(request, messages.Act) and request.name == "paint":
                self.engine.refused.append(request.arguments["mark"])
        elif not self.closed:
            self.requests.append(request)

    def _ask(self, request: messages.Request) -> None:
        """Send a request that a broken engine keeps until it is retried."""
        if not self.closed:
            self.requests.append(request)

    # -- the worker's side

    def turn(self) -> bool:
        """Process one item; return False if there is none."""
        if not self.opened:
            return self._open()
        if self.requests:
            self._handle(self.requests.popleft())
        elif self.dirty and self.frames < self.through:
            self._show()
        elif self.running and self.frames < self.through:
            self._advance(self.steps or 7)
        else:
            return False
        return True

    def _handle(self, request: messages.Request) -> None:
        match request:
            case messages.Update(serial=serial):
                self._update(serial)
            case messages.Act(name=name, arguments=arguments):
                if name == "paint":
                    self.marks.append(arguments["mark"])
                elif name == "reset":
                    self.count, self.marks = 0, []
                self.dirty = True
            case messages.Step(n=n):
                self._advance(n)
            case messages.TakeSnapshot():
                self.on_event(messages.SnapshotTaken({"count": self.count, "marks": tuple(self.marks)}))
            case messages.TakeCheckpoint():
                self._take_checkpoint()
            case messages.StopRecording():
                self._stop_recording()

    def _open(self) -> bool:
        self.opened = True
        if self.engine.refusals:
            text = self.engine.refusals.pop()
            self.engine.lost |= self._unread()
            self.on_event(messages.Refused(text, change=messages.OPENING))
            self.closed = True
            self.engine.labs.remove(self)
            self.on_event(messages.LabClosed())
            return True
        if self.checkpoint:
            self.count, self.marks = self.checkpoint.count, list(self.checkpoint.marks)
        self.dirty = True
        self.back()
        return True

    def back(self) -> None:
        """Report the engine's restart, if there was one."""
        if self.absent:
            self.on_event(messages.EngineRestarted(self.absent, 0.5))
            self.absent = ""
        if self.stopping:
            self.stopping = False
            self._stop_recording()

    def _advance(self, n: int) -> None:
        self.count += n
        self.recorded += n if self.recording else 0
        self.dirty = True

    def _show(self) -> None:
        self.frames, self.dirty = self.frames + 1, False
        facts = {"count": float(self.count), "level": self.values_now["level"]}
        self.on_event(messages.FrameReady(Frame({}, facts, TIMING, self.frames)))

    def _update(self, serial: int) -> None:
        update = self.updates.pop(serial)
        if not 0 <= update.get("level", 0) <= 1:
            kept = {name: self.values_now[name] for name in update}
            self.on_event(messages.Refused("level must be at most 1", change=serial, kept=kept))
            return
        self.values_now |= update
        self.dirty = True

    def _take_checkpoint(self) -> None:
        if self.engine.no_memory:
            self.engine.no_memory = False
            self.on_event(messages.Refused("no memory for a copy", request=messages.TakeCheckpoint))
        else:
            self.on_event(messages.CheckpointTaken(self.kept()))  # type: ignore[arg-type]

    def _stop_recording(self) -> None:
        if self.recording:
            self.recording = None
            self.on_event(messages.RecordingProgress(1, 1, self.recorded, messages.STOPPED))

    def kept(self) -> Kept:
        return Kept(dict(self.values_now), self.count, tuple(self.marks))


class FakeEngine:
    """A Supervisor without a process.

    lost: marks lost in a crash; refused: marks whose painting was refused; broken: the reason for giving up.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.labs: list[FakeLab] = []
        self.down, self.broken = "", ""
        self.refusals: list[str] = []
        self.no_memory = False
        self.lost: set[int] = set()
        self.refused: list[int] = []

    def open(
        self, kind: str, values: Any, on_event: Any, pixels: Any, checkpoint: Kept | None = None, frames: int = 0
    ) -> FakeLab:
        lab = FakeLab(self, on_event, dict(values), frames, frames, checkpoint)
        self.labs.append(lab)
        if self.broken:
            on_event(messages.EngineBroken(self.broken))
        return lab

    def retry(self) -> None:
        if self.broken:
            self.down, self.broken = self.broken, ""

    # -- actions of a test

    def turn(self) -> bool:
        """Process one item of one lab, or start the next process."""
        if self.broken:
            return False
        if self.down:
            self.revive()
            return True
        return any(lab.turn() for lab in list(self.labs))

    def keep(self) -> None:
        """Take a checkpoint of every lab."""
        for lab in self.labs:
            if lab.opened and not (self.down or self.broken):
                lab.checkpoint = lab.kept()

    def die(self, reason: str = "killed") -> None:
        """End the process: work since the last checkpoint is lost."""
        if self.down or self.broken:
            return
        self.down = reason
        for lab in list(self.labs):
            kept = lab.checkpoint.marks if lab.checkpoint else ()
            self.lost |= set(lab.marks) - set(kept)
            lab.absent = reason
            lab.on_event(messages.EngineRestarting(reason))

    def give_up(self, reason: str = "it failed repeatedly") -> None:
        """Die too often: the engine is broken."""
        self.die(reason)
        if not self.broken:
            self.down, self.broken = "", reason
            for lab in list(self.labs):
                lab.on_event(messages.EngineBroken(reason))

    def revive(self) -> None:
        """Open every lab from its checkpoint in the next process; unread requests are sent again."""
        self.down = ""
        for lab in list(self.labs):
            if lab.opened:
                kept = lab.checkpoint or Kept({}, 0, ())
                lab.count, lab.marks, lab.dirty = kept.count, list(kept.marks), True
                lab.back()


class Engines:
    """The engines of a server process, by name."""

    def __init__(self, *names: str) -> None:
        self.by_name = {name: FakeEngine(name) for name in names}

    def get(self, name: str) -> FakeEngine:
        return self.by_name[name]

    def turn(self) -> bool:
        """Process one item of each engine; return False if all are idle."""
        turns = [engine.turn() for engine in self.by_name.values()]
        return any(turns)

    @property
    def labs(self) -> list[FakeLab]:
        return [lab for engine in self.by_name.values() for lab in engine.labs]
