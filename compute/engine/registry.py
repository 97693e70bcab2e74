"""The state of each lab of an engine, which outlives the engine's process.

If a process crashes or hangs while it works for a lab (in its turn, in a request, in a measurement, or while opening
it), the death is charged to that lab. The worker marks its work in the lab's FrameRing (FrameRing.at_work). At the
second charge within CRASH_WINDOW the lab is not reopened.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

from compute.engine import messages
from compute.engine.process import WorkerExit
from compute.engine.sending import QueuedRequest
from compute.engine.shared_memory import (
    IN_MESSAGE,
    MAX_PIXELS,
    NO_DESCRIPTOR,
    FrameRing,
    NoSharedMemory,
    duplicate,
    read_blob,
    unpack,
)
from compute.lab.frames import View
from compute.lab.loaded import is_complete

log = logging.getLogger(__name__)

CRASH_WINDOW = 600.0  # seconds in which deaths charged to a lab count
CHARGES = 2  # after which the lab is not reopened
TRIES = 2  # restarts that unanswered values survive before they are dropped as the possible cause
MOST_HELD = 64  # requests stored for a lab that is not open yet, as lab_host.MOST_WAITING for an open one
FIRST_RETRY, MOST_RETRY = 0.2, 10.0  # seconds between attempts to allocate a lab's FrameRing, doubled each time
WORK = messages.FrameMessage | messages.ParametersApplied | messages.BlobMessage  # reports of completed work


@dataclass
class RecordingState:
    """The recording requested by `request`. begun: it exists on disk; stopping: its end was requested."""

    request: messages.Record
    begun: bool = False
    stopping: bool = False

    def reopening(self, offset: messages.RecordingOffset | None) -> messages.Record:
        """Return the request for a lab that continues from a checkpoint with this recording offset."""
        if offset and offset[0] == self.request.folder:  # also if the lab has moved and not reported since
            return replace(self.request, done=offset[1])
        if not self.begun and not self._on_disk():
            return self.request
        return replace(self.request, done=messages.LOST)

    def _on_disk(self) -> bool:
        """Return whether the recording began before its engine died, possibly without a report of it.

        False for a recording moved from another engine: it has frames already and continues with them.
        """
        folder = Path(self.request.folder)
        return self.request.done is None and folder.is_dir() and any(folder.iterdir())


@dataclass
class LabState:
    """The part of a lab that outlives a worker. Guarded by the supervisor's lock.

    values: last known good ones; unapplied: updates sent but not yet answered, by serial; tries: restarts since these
    were sent; frames: number of the last frame received; frames_through: of the last one permitted; questions:
    unanswered requests; absent: reason and start of the process's absence; lost_answer: the answer to a question has
    arrived without its memory.

    sent: the opening requests were sent to the current process; opened: the current process has opened the lab; known:
    any process has opened it; held: requests stored until `sent`; worked_at: time of the last report of completed work;
    charge_times: times of the deaths charged to it; retry_at, retry_after: time of the next attempt to allocate its
    FrameRing, and the pause before that attempt; broken_reported, waiting_reported: the client was notified of the
    failure, of the delay.
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
    recording: RecordingState | None = None
    ring: FrameRing | None = None
    checkpoint: messages.Checkpoint | None = None
    closing: bool = False
    broken_reported: bool = False
    absent: tuple[str, float] | None = None
    lost_answer: bool = False
    sent: bool = False
    opened: bool = False
    known: bool = False
    held: list[QueuedRequest] = field(default_factory=list)
    worked_at: float = -inf
    charge_times: list[float] = field(default_factory=list)
    retry_at: float = -inf
    retry_after: float = 0.0
    waiting_reported: bool = False

    def opening_requests(self) -> list[QueuedRequest]:
        """Return the requests that recreate this lab in a fresh worker. Raises NoSharedMemory."""
        kept = self.checkpoint
        with ExitStack() as undo:  # any of these calls may fail
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
        opening = messages.CreateLab(self.number, self.kind, values, kept.payload if kept else None, self.frames)
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
        """Return a frame, copied out of the ring. Runs on the supervising thread, which also closes the ring."""
        assert self.ring is not None  # noqa: S101 - there since the lab was opened
        buffers = [] if message.slot == IN_MESSAGE else self.ring.take(message.slot, message.payload.sizes)
        frame = unpack(message.payload, buffers)
        self.frames = frame.number
        return messages.FrameReady(frame)

    @property
    def unanswered(self) -> bool:
        """Whether any value or request is unanswered, and may be the cause of a death."""
        return bool(self.unapplied or self.questions)

    def parameters_applied(self, serial: int, values: Mapping[str, Any]) -> None:
        """Record that the worker has answered all updates up to `serial`."""
        self.values = self.resolved(values)
        self.unapplied = [(other, update) for other, update in self.unapplied if other > serial]
        self.tries = 0

    def resolved(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `values`, with the present value in place of a reference to a loaded file that was replaced since."""
        return {
            name: value if is_complete(value) or name not in self.values else self.values[name]
            for name, value in values.items()
        }

    def answered(self, question: type[messages.AnsweredRequest]) -> None:
        """Remove the first open request of this class, which was answered or refused."""
        first = next((request for request in self.questions if isinstance(request, question)), None)
        if first:
            self.questions.remove(first)
        if not self.unanswered:
            self.tries = 0

    def note_event(self, event: messages.Event) -> None:
        """Update the state from an event of the worker."""
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
        """Drop the values and requests that may be the cause of the deaths; return the events for their client."""
        text = f"it was given up when the engine died for the second time ({reason})"
        events: list[messages.Event] = []
        for serial, update in self.unapplied:
            kept = {name: self.values[name] for name in update if name in self.values}
            events.append(messages.Refused(text, change=serial, kept=kept))
        events += [messages.Refused(text, request=type(question)) for question in self.questions]
        self.unapplied, self.questions = [], []
        return events

    @property
    def proven(self) -> bool:
        """Whether a process completed work for this lab since the last charge."""
        return self.worked_at > max(self.charge_times, default=-inf)

    def charge(self, now: float) -> bool:
        """Charge a death to this lab; return True if the lab must not be reopened."""
        self.charge_times = [moment for moment in self.charge_times if now - moment < CRASH_WINDOW] + [now]
        return len(self.charge_times) >= CHARGES

    def hold(self, item: QueuedRequest) -> bool:
        """Store a request until the lab is opened; return False and drop it if MOST_HELD are stored."""
        if len(self.held) >= MOST_HELD:
            item.drop()
            return False
        self.held.append(item)
        return True

    def postpone(self, now: float) -> None:
        """Schedule the next attempt to allocate memory, with a longer pause each time."""
        self.retry_after = min(2 * self.retry_after or FIRST_RETRY, MOST_RETRY)
        self.retry_at = now + self.retry_after

    def close_ring(self) -> None:
        """Unmap the frames' memory."""
        if self.ring:
            self.ring.close()
            self.ring = None

    def release(self) -> None:
        """Release all memory and descriptors of this lab."""
        self.checkpoint = None
        for item in self.held:
            item.drop()
        self.held = []
        self.close_ring()


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
        """Return a new lab, optionally one that continues from `checkpoint` and has shown `frames` frames elsewhere."""
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

    def due(self, now: float, unproven_from: float) -> list[LabState]:
        """Return the labs to open now: uncharged and running labs first.

        unproven_from: time from which unproven labs may be opened (CircuitBreaker.unproven_from).
        """
        found = [lab for lab in self._labs.values() if not lab.sent and not lab.closing and now >= lab.retry_at]
        found = [lab for lab in found if lab.proven or now >= unproven_from]
        return sorted(found, key=lambda lab: (len(lab.charge_times), not lab.running, lab.number))

    def waiting(self) -> list[LabState]:
        """Return the labs whose opening is delayed."""
        return [lab for lab in self._labs.values() if not lab.sent and not lab.closing]

    def opening(self, lab: LabState, now: float) -> list[QueuedRequest]:
        """Return the requests that open or reopen a lab.

        If its FrameRing cannot be allocated, a new lab is refused; a lab that was open before is retried later.
        """
        try:
            requests = lab.opening_requests()
        except NoSharedMemory as error:
            log.warning("lab %d cannot be opened: %s", lab.number, str(error))
            if lab.known:
                lab.postpone(now)
                return []
            lab.sent = True
            refusal = messages.Refuse(lab.number, str(error), messages.OPENING)
            return [QueuedRequest(refusal), QueuedRequest(messages.CloseLab(lab.number))]
        lab.sent, lab.retry_after, lab.waiting_reported = True, 0.0, False
        return requests

    @staticmethod
    def after_waiting(labs: Collection[LabState]) -> list[QueuedRequest]:
        """Return the requests to send after the stored ones.

        These are the unanswered requests, and Run for each running lab, because a stored Step would pause it.
        """
        running: list[messages.Request] = [messages.Run(lab.number) for lab in labs if lab.running]
        return [QueuedRequest(item) for item in (*running, *(request for lab in labs for request in lab.questions))]

    def others_worked(self, labs: Collection[int], since: float) -> bool:
        """Return whether any lab whose number is not in `labs` completed work after `since`."""
        return any(lab.worked_at > since for lab in self._labs.values() if lab.number not in labs)

    def drop(self, lab: LabState, keep: messages.Checkpoint | None = None) -> None:
        """Remove a lab and release its memory. keep: a checkpoint that the handle still returns."""
        self._labs.pop(lab.number, None)
        lab.closing = True
        lab.release()
        lab.checkpoint = keep

    def drop_closing(self) -> list[LabState]:
        """Drop and return the labs that were about to close when the process ended."""
        gone = [lab for lab in self.all() if lab.closing]
        for lab in gone:
            self.drop(lab)
        return gone

    def on_report(
        self, lab: LabState, report: messages.LabReport, descriptors: list[int], now: float
    ) -> messages.Event | None:
        """Apply a report; return the event for the client, if any. Remove stored descriptors from `descriptors`."""
        match report:
            case messages.ParametersApplied():
                lab.parameters_applied(report.serial, report.values)
            case messages.BlobMessage() if not descriptors:
                self._lost(lab, report)
            case messages.CheckpointMessage():
                offset = report.recording_offset
                values = lab.resolved(report.values)
                checkpoint = messages.Checkpoint(report.payload, descriptors.pop(), values, offset)
                if report.requested:
                    return messages.CheckpointTaken(checkpoint)
                lab.keep_checkpoint(checkpoint)
            case messages.BlobMessage():
                return self._answer(lab, report, descriptors[0])
            case messages.Answered():
                lab.answered(report.question)
                lost, lab.lost_answer = lab.lost_answer, False
                return messages.Refused(NO_DESCRIPTOR, request=report.question) if lost else None
            case messages.Opened():
                absent, lab.absent = lab.absent, None
                lab.opened = lab.known = True
                return messages.EngineRestarted(absent[0], now - absent[1]) if absent else None
            case messages.EventMessage():
                lab.note_event(report.event)
                if isinstance(report.event, messages.LabClosed):
                    self.drop(lab)
                return report.event
        return None

    def _answer(self, lab: LabState, report: messages.BlobMessage, descriptor: int) -> messages.Event | None:
        try:
            answer: messages.Event = read_blob(report.payload, descriptor)
        except NoSharedMemory:
            self._lost(lab, report)
            return None
        return answer

    @staticmethod
    def _lost(lab: LabState, report: messages.BlobMessage) -> None:
        log.warning("a state of lab %d was lost: %s", lab.number, NO_DESCRIPTOR)
        lab.lost_answer = not isinstance(report, messages.CheckpointMessage) or report.requested

    def culprit(self, ended: WorkerExit) -> LabState | None:
        """Return the lab to charge with a death; None if the process was idle or was killed from outside."""
        if not ended.natural:
            return None
        marked = (lab for lab in self.all() if lab.ring is not None and lab.ring.died_at_work)
        return self.get(ended.lab) or next(marked, None)

    def on_worker_exit(
        self, ended: WorkerExit, culprit: LabState | None = None
    ) -> list[tuple[LabState, messages.Event]]:
        """Record a death in every lab, and charge it to `culprit`; return the events for each lab.

        At its second charge the culprit is removed. Unanswered values and questions are dropped at the second death
        that they may have caused.
        """
        events: list[tuple[LabState, messages.Event]] = []
        for lab in self.all():
            lab.absent = lab.absent or (ended.reason, ended.since)
            lab.lost_answer = False  # its request is sent again
            failed = lab is culprit and lab.charge(time.monotonic())
            if not failed:
                events.append((lab, messages.EngineRestarting(ended.reason)))
            if not lab.unanswered:
                lab.tries = 0
            elif culprit in (None, lab):
                lab.tries += 1
                if lab.tries >= TRIES:
                    events += [(lab, event) for event in lab.give_up(ended.reason)]
            if failed:
                reason = f"the engine failed twice while it worked for this lab ({ended.reason})"
                events += [(lab, messages.LabFailed(reason)), (lab, messages.LabClosed())]
                self.drop(lab, keep=lab.checkpoint if lab.opened else None)
            lab.sent = lab.opened = lab.waiting_reported = False
            lab.close_ring()  # its mark belongs to the process that has ended
        return events

    def refuse_unknown(self, text: str) -> list[tuple[LabState, messages.Event]]:
        """Remove the labs that no process has opened yet; return the events for each."""
        refused = [lab for lab in self.all() if not lab.known]
        for lab in refused:
            self.drop(lab)
        return [
            (lab, event)
            for lab in refused
            for event in (messages.Refused(text, change=messages.OPENING), messages.LabClosed())
        ]

    def on_broken(self, reason: str) -> list[tuple[LabState, messages.Event]]:
        """Return the events that report the broken engine, once for each lab. Labs about to close are dropped."""
        gone: list[tuple[LabState, messages.Event]] = [(lab, messages.LabClosed()) for lab in self.drop_closing()]
        new = [lab for lab in self.all() if not lab.broken_reported]
        for lab in new:
            lab.broken_reported = True
        return gone + [(lab, messages.EngineBroken(reason)) for lab in new]

    def on_retry(self) -> None:
        """Record that the engine is started again."""
        for lab in self.all():
            lab.broken_reported = False
