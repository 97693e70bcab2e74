"""What the server remembers of every lab on an engine, so that it survives the engine's process."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from compute.engine import messages
from compute.engine.channel import QueuedRequest
from compute.engine.process import WorkerExit
from compute.engine.shared_memory import IN_MESSAGE, MAX_PIXELS, FrameRing, NoSharedMemory, duplicate, read_blob, unpack
from compute.frames import View
from compute.loaded import is_complete

log = logging.getLogger(__name__)

CRASH_WINDOW = 60.0  # seconds
NO_DESCRIPTOR = "no file descriptor was left for it in this process (ulimit -n)"
TRIES = 2  # restarts that unanswered values get before they are given up as the possible cause


@dataclass
class RecordingState:
    """A recording that was asked for by `request`. begun: it is on disk; stopping: it is to end."""

    request: messages.Record
    begun: bool = False
    stopping: bool = False

    def reopening(self, offset: messages.RecordingOffset | None) -> messages.Record:
        """Return the request for a lab that goes on from a checkpoint with this recording offset."""
        if offset and offset[0] == self.request.folder:  # also of one that moved and has not reported since
            return replace(self.request, done=offset[1])
        if not self.begun and not self._on_disk():
            return self.request
        return replace(self.request, done=messages.LOST)

    def _on_disk(self) -> bool:
        """Whether it had begun when its engine died, which may not have come to say so.

        One that has come from another engine has frames already, and goes on with them.
        """
        folder = Path(self.request.folder)
        return self.request.done is None and folder.is_dir() and any(folder.iterdir())


@dataclass
class LabState:
    """Everything of a lab that outlives a worker. Guarded by the supervisor's lock.

    values: last known good ones; unapplied: updates sent but not yet answered, by serial; tries: restarts that these
    were given; frames: number of the last frame that came; frames_through: of the last one permitted; questions: not
    yet answered; absent: why and since when the process is away; crash_times: when it died at work for this lab;
    opened: whether this process has opened it; deaths: of processes that died while they opened it; lost_answer:
    whether the answer to a question has come without its memory.
    """

    number: int
    kind: str
    on_event: Callable[[messages.Event], None]
    values: Mapping[str, Any]
    pixels: tuple[int, int]
    view: View | None = None
    running: bool = False
    steps: int | None = 1
    frames: int = 0
    frames_through: int = 0
    serial: int = 0
    unapplied: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    tries: int = 0
    questions: list[messages.AnsweredRequest] = field(default_factory=list)
    crash_times: list[float] = field(default_factory=list)
    recording: RecordingState | None = None
    ring: FrameRing | None = None
    checkpoint: messages.Checkpoint | None = None
    closing: bool = False
    told_broken: bool = False
    absent: tuple[str, float] | None = None
    opened: bool = False
    deaths: int = 0
    lost_answer: bool = False

    def opening_requests(self) -> list[QueuedRequest]:
        """Return the requests that make this lab in a fresh worker as it was. Raises NoSharedMemory."""
        kept = self.checkpoint
        with ExitStack() as undo:  # one of them may not be had
            descriptors = [FrameRing.create(MAX_PIXELS)]
            undo.callback(os.close, descriptors[0])
            ring = FrameRing(duplicate(descriptors[0]))
            undo.callback(ring.close)
            if kept:
                descriptors.append(duplicate(kept.descriptor))
            undo.pop_all()
        self.close_ring()
        self.ring, self.opened = ring, False
        values = kept.values if kept else self.values
        opening = messages.OpenLab(self.number, self.kind, values, kept.payload if kept else None, self.frames)
        changed = {name: value for name, value in self.values.items() if name not in values or values[name] != value}
        requests: list[messages.Request] = [messages.Update(self.number, 0, changed)] * bool(changed)
        requests += [messages.Update(self.number, serial, update) for serial, update in self.unapplied]
        requests += [messages.SetView(self.number, self.view, self.pixels), messages.SetPace(self.number, self.steps)]
        if self.recording:
            requests.append(self.recording.reopening(kept.recording_offset if kept else None))
            requests += [messages.StopRecording(self.number)] * self.recording.stopping
        requests += [messages.Run(self.number)] * self.running
        requests.append(messages.FramesThrough(self.number, self.frames_through))
        return [QueuedRequest(opening, tuple(descriptors)), *map(QueuedRequest, requests)]

    def frame(self, message: messages.FrameMessage) -> messages.FrameReady:
        """Return a frame, copied out of the ring. On the supervising thread, which closes it."""
        assert self.ring is not None  # noqa: S101 - there since the lab was opened
        buffers = [] if message.slot == IN_MESSAGE else self.ring.take(message.slot, message.payload.sizes)
        frame = unpack(message.payload, buffers)
        self.frames = frame.number
        return messages.FrameReady(frame)

    @property
    def unanswered(self) -> bool:
        """Whether there is a value or a question that may be why the process dies."""
        return bool(self.unapplied or self.questions)

    def parameters_applied(self, serial: int, values: Mapping[str, Any]) -> None:
        """Note that the worker has answered all updates up to `serial`."""
        self.values = self.resolved(values)
        self.unapplied = [(other, update) for other, update in self.unapplied if other > serial]
        self.tries = 0

    def resolved(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `values` with the present value of each that refers to a loaded file which was replaced since."""
        return {
            name: value if is_complete(value) or name not in self.values else self.values[name]
            for name, value in values.items()
        }

    def answered(self, question: type[messages.AnsweredRequest]) -> None:
        """Note that the first open question of this class was answered or refused."""
        first = next((asked for asked in self.questions if isinstance(asked, question)), None)
        if first:
            self.questions.remove(first)
        if not self.unanswered:
            self.tries = 0

    def note_event(self, event: messages.Event) -> None:
        """Remember what an event of the worker changes."""
        match event:
            case messages.Paused():
                self.running = False
            case messages.RecordingProgress():
                if self.recording:
                    self.recording.begun = True
                if event.ended:
                    self.recording = None
            case messages.Refused(change=int(change)) if change != messages.OPENING:
                self.unapplied = [(serial, update) for serial, update in self.unapplied if serial != change]
                self.values = {**self.values, **self.resolved(event.kept)}

    def keep_checkpoint(self, checkpoint: messages.Checkpoint) -> None:
        """Replace the last good state."""
        self.checkpoint = checkpoint

    def give_up(self, reason: str) -> list[messages.Event]:
        """Forget the values and questions that may be why the process dies; return what their client is told."""
        text = f"it was given up when the engine died for the second time ({reason})"
        told: list[messages.Event] = []
        for serial, update in self.unapplied:
            kept = {name: self.values[name] for name in update if name in self.values}
            told.append(messages.Refused(text, change=serial, kept=kept))
        told += [messages.Refused(text, request=type(question)) for question in self.questions]
        self.unapplied, self.questions = [], []
        return told

    def record_crash(self, now: float) -> bool:
        """Note that the process died at work for this lab; True if it has before, and is paused for it."""
        self.crash_times = [moment for moment in self.crash_times if now - moment < CRASH_WINDOW] + [now]
        again = self.running and len(self.crash_times) > 1
        self.running = self.running and not again
        return again

    def died_while_opened(self, reason: str) -> list[messages.Event]:
        """Note that the process died while it opened this lab; return what its client is told.

        At the second death its state is given up, which may be why; at the next one, or without a state, the lab.
        """
        self.deaths += 1
        if self.deaths < TRIES:
            return []
        words = f"the engine died again while it opened this lab ({reason})"
        if self.checkpoint is not None:
            self.checkpoint = None
            return [messages.Refused(f"{words}: its state was given up, and it begins anew")]
        return [messages.Refused(words, change=messages.OPENING), messages.LabClosed()]

    def close_ring(self) -> None:
        """Unmap the frames' memory."""
        if self.ring:
            self.ring.close()
            self.ring = None

    def release(self) -> None:
        """Give back everything held for this lab."""
        self.checkpoint = None
        self.close_ring()


def reopening(lab: LabState) -> list[QueuedRequest]:
    """Return requests that open a lab, or open it again; without memory for its frames, those that refuse it."""
    try:
        return lab.opening_requests()
    except NoSharedMemory as error:
        refusal = messages.Refuse(lab.number, str(error), messages.OPENING)
        return [QueuedRequest(refusal), QueuedRequest(messages.CloseLab(lab.number))]


class LabRegistry:
    """The labs of one engine by their numbers, from 1. Guarded by the supervisor's lock."""

    def __init__(self) -> None:
        self._labs: dict[int, LabState] = {}
        self._numbers = count(1)

    def add(
        self,
        kind: str,
        values: Mapping[str, Any],
        on_event: Callable[[messages.Event], None],
        pixels: tuple[int, int],
        checkpoint: messages.Checkpoint | None = None,
        frames: int = 0,
    ) -> LabState:
        """Return a new lab, or one that goes on from `checkpoint` and has shown `frames` frames elsewhere."""
        lab = LabState(next(self._numbers), kind, on_event, dict(values), pixels, frames=frames, frames_through=frames)
        if checkpoint:
            lab.checkpoint = replace(checkpoint, descriptor=duplicate(checkpoint.descriptor), values=dict(values))
        self._labs[lab.number] = lab
        return lab

    def get(self, number: int) -> LabState | None:
        """Return lab number `number`, None if it is closed."""
        return self._labs.get(number)

    def all(self) -> list[LabState]:
        """Return every lab."""
        return list(self._labs.values())

    def reopening(self) -> list[QueuedRequest]:
        """Return the requests that open every lab, those that run first: somebody is looking at them."""
        waiting = sorted(self._labs.values(), key=lambda lab: not lab.running)
        return [item for lab in waiting for item in reopening(lab)]

    def after_waiting(self) -> list[QueuedRequest]:
        """Return what comes after the requests that waited for the process.

        All that was asked and not answered, and Run again for labs that run: a step among those requests pauses.
        """
        running: list[messages.Request] = [messages.Run(lab.number) for lab in self.all() if lab.running]
        return [QueuedRequest(item) for item in (*running, *(asked for lab in self.all() for asked in lab.questions))]

    def drop(self, lab: LabState) -> None:
        """Forget a lab and give back what is held for it."""
        self._labs.pop(lab.number, None)
        lab.closing = True
        lab.release()

    def drop_closing(self) -> list[LabState]:
        """Drop the labs that were to be closed when the process ended; returns them."""
        gone = [lab for lab in self.all() if lab.closing]
        for lab in gone:
            self.drop(lab)
        return gone

    def on_report(
        self, lab: LabState, report: messages.LabReport, descriptors: list[int], now: float
    ) -> messages.Event | None:
        """Note what a report changes; return the event that the client gets, if any. Takes descriptors it keeps."""
        match report:
            case messages.ParametersApplied():
                lab.parameters_applied(report.serial, report.values)
            case messages.BlobMessage() if not descriptors:
                log.warning("a state of lab %d was lost: %s", lab.number, NO_DESCRIPTOR)
                lab.lost_answer = not isinstance(report, messages.CheckpointMessage) or report.requested
            case messages.CheckpointMessage():
                offset = report.recording_offset
                values = lab.resolved(report.values)
                checkpoint = messages.Checkpoint(report.payload, descriptors.pop(), values, offset)
                if report.requested:
                    return messages.CheckpointTaken(checkpoint)
                lab.keep_checkpoint(checkpoint)
            case messages.BlobMessage():
                answer: messages.Event = read_blob(report.payload, descriptors[0])
                return answer
            case messages.Answered():
                lab.answered(report.question)
                lost, lab.lost_answer = lab.lost_answer, False
                return messages.Refused(NO_DESCRIPTOR, request=report.question) if lost else None
            case messages.Opened():
                absent, lab.absent = lab.absent, None
                lab.opened, lab.deaths = True, 0
                return messages.EngineRestarted(absent[0], now - absent[1]) if absent else None
            case messages.EventMessage():
                lab.note_event(report.event)
                if isinstance(report.event, messages.LabClosed):
                    self.drop(lab)
                return report.event
        return None

    def on_worker_exit(self, ended: WorkerExit) -> list[tuple[LabState, messages.Event]]:
        """Note for each lab since when its process is away, and give up values that may be the cause.

        The lab it was at work for may be the cause, and is paused at its second crash within CRASH_WINDOW, so that one
        lab does not take the others with it for ever; returns who is to be told.
        """
        told: list[tuple[LabState, messages.Event]] = []
        for lab in self.all():
            lab.absent = lab.absent or (ended.reason, ended.since)
            lab.tries = lab.tries + 1 if lab.unanswered else 0
            lab.lost_answer = False  # its question is asked again
            told.append((lab, messages.EngineRestarting(ended.reason)))
            if lab.tries >= TRIES:
                told += [(lab, event) for event in lab.give_up(ended.reason)]
            at_work = lab.ring is not None and lab.ring.died_at_work
            if not ended.natural or not (at_work or lab.number == ended.lab):
                continue
            if not lab.opened:
                events = lab.died_while_opened(ended.reason)
                told += [(lab, event) for event in events]
                if any(isinstance(event, messages.LabClosed) for event in events):
                    self.drop(lab)
            elif lab.record_crash(ended.since):
                told.append(
                    (lab, messages.Paused(f"the engine failed twice while it worked for this lab: {ended.reason}"))
                )
        return told

    def on_broken(self, reason: str) -> list[tuple[LabState, messages.Event]]:
        """Return whom to tell that the engine stays down, each lab once. Labs to be closed are dropped."""
        gone: list[tuple[LabState, messages.Event]] = [(lab, messages.LabClosed()) for lab in self.drop_closing()]
        new = [lab for lab in self.all() if not lab.told_broken]
        for lab in new:
            lab.told_broken = True
        return gone + [(lab, messages.EngineBroken(reason)) for lab in new]

    def on_retry(self) -> None:
        """Note that the engine is tried again."""
        for lab in self.all():
            lab.told_broken = False
