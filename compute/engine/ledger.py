"""What the server remembers of every lab on an engine, so that it survives the engine's process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from compute.engine.memory import NoSharedMemory, duplicate, read, unpack
from compute.engine.messages import (
    OPENING,
    Answered,
    Broken,
    Checkpoint,
    CheckpointTaken,
    Closed,
    Delivery,
    Event,
    FrameReady,
    Notice,
    Opened,
    Order,
    Paused,
    Picture,
    Recorded,
    Refused,
    Report,
    Restarted,
    Restarting,
    Settled,
    View,
)
from compute.engine.outbox import Item
from compute.engine.recording import Recording
from compute.engine.ring import ELSEWHERE, LARGEST, Ring

SUSPICION = 60.0  # seconds
TRIES = 2  # restarts that unanswered values get before they are given up as the possible cause


@dataclass(frozen=True)
class Death:
    """The end of a process: why; since when it was not well; natural if nobody from outside ended it; lab: the number
    of the lab that it named as the cause, or 0.
    """

    reason: str
    since: float
    natural: bool = True
    lab: int = 0


@dataclass
class Record:
    """Everything that outlives a worker. Guarded by the supervisor's lock.

    values: last known good ones; unsettled: updates sent but not yet answered, by serial; tries: restarts that these
    were given; frames: number of the last frame that came; frames_through: of the last one permitted; questions: not
    yet answered; absent: why and since when the process is away; crimes: when it died at work for this lab.
    """

    number: int
    kind: str
    on_event: Callable[[Event], None]
    values: Mapping[str, Any]
    pixels: tuple[int, int]
    view: View | None = None
    running: bool = False
    steps: int | None = 1
    frames: int = 0
    frames_through: int = 0
    serial: int = 0
    unsettled: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    tries: int = 0
    questions: list[Order] = field(default_factory=list)
    crimes: list[float] = field(default_factory=list)
    recording: Recording | None = None
    ring: Ring | None = None
    checkpoint: Checkpoint | None = None
    opened: bool = False
    closing: bool = False
    told_broken: bool = False
    absent: tuple[str, float] | None = None

    def opening(self) -> list[Item]:
        """Orders that make this lab in a fresh worker as it was. Raises NoSharedMemory."""
        kept = self.checkpoint
        with ExitStack() as undo:  # one of them may not be had
            descriptors = [Ring.create(LARGEST)]
            undo.callback(os.close, descriptors[0])
            ring = Ring(duplicate(descriptors[0]))
            undo.callback(ring.close)
            if kept:
                descriptors.append(duplicate(kept.descriptor))
            undo.pop_all()
        self.close_ring()
        self.ring = ring
        values = kept.values if kept else self.values
        arguments = {
            "kind": self.kind,
            "values": values,
            "parcel": kept.parcel if kept else None,
            "frames": self.frames,
        }
        items = [Item(Order(self.number, "open_lab", arguments), tuple(descriptors))]
        newer = {name: value for name, value in self.values.items() if name not in values or values[name] != value}
        for serial, update in [(0, newer)] * bool(newer) + self.unsettled:
            items.append(self._item("update", serial=serial, values=update))
        items.append(self._item("look", view=self.view, pixels=self.pixels))
        items.append(self._item("set_pace", steps=self.steps))
        if self.recording:
            items.append(self._item("record", **self.recording.opening(kept.mark if kept else None)))
            items += [self._item("stop_recording")] * self.recording.stopping
        items += [self._item("run")] * self.running
        items.append(self._item("frames_through", number=self.frames_through))
        return items

    def _item(self, verb: str, **arguments: Any) -> Item:
        return Item(Order(self.number, verb, arguments))

    def settle(self, serial: int, values: Mapping[str, Any]) -> None:
        """The worker has answered all updates up to `serial`."""
        self.values = values
        self.unsettled = [(other, update) for other, update in self.unsettled if other > serial]
        self.tries = 0

    def answered(self, verb: str) -> None:
        """The first open question of this kind was answered or refused."""
        question = next((question for question in self.questions if question.verb == verb), None)
        if question:
            self.questions.remove(question)

    def noted(self, event: Event) -> None:
        """Remember what an event of the worker changes."""
        match event:
            case Paused():
                self.running = False
            case Recorded():
                if self.recording:
                    self.recording.begun = True
                if event.ended:
                    self.recording = None
            case Refused(change=int(change)) if change != OPENING:
                self.unsettled = [(serial, update) for serial, update in self.unsettled if serial != change]
                self.values = {**self.values, **event.kept}

    def keep(self, checkpoint: Checkpoint) -> None:
        """Replace the last good state."""
        self.checkpoint = checkpoint

    @property
    def pending(self) -> dict[str, Any]:
        """The values that were asked for and are neither applied nor refused yet."""
        return {name: value for _, update in self.unsettled for name, value in update.items()}

    def give_up(self, reason: str) -> list[Event]:
        """Forget the values and questions that may be why the process dies; what their client is told of it."""
        text = f"it was given up when the engine died for the second time ({reason})"
        told: list[Event] = []
        for serial, update in self.unsettled:
            kept = {name: self.values[name] for name in update if name in self.values}
            told.append(Refused(text, change=serial, kept=kept))
        told += [Refused(text, request=question.verb) for question in self.questions]
        self.unsettled, self.questions = [], []
        return told

    def suspected(self, now: float) -> bool:
        """The process died at work for this lab; True if that happens again while it runs, which ends its running."""
        self.crimes = [moment for moment in self.crimes if now - moment < SUSPICION] + [now]
        again = self.running and len(self.crimes) > 1
        self.running = self.running and not again
        return again

    def close_ring(self) -> None:
        """Unmap the frames' memory."""
        if self.ring:
            self.ring.close()
            self.ring = None

    def release(self) -> None:
        """Give back everything held for this lab."""
        self.checkpoint = None
        self.close_ring()


def reopening(record: Record) -> list[Item]:
    """Orders that open a lab, for the first time or again; without memory for its frames, orders that refuse it."""
    try:
        return record.opening()
    except NoSharedMemory as error:
        refusal = Item(Order(record.number, "refuse", {"text": str(error)}))
        return [refusal, Item(Order(record.number, "close_lab"))]


class Ledger:
    """The records of one engine. Guarded by the supervisor's lock."""

    def __init__(self) -> None:
        self._records: dict[int, Record] = {}
        self._numbers = count(1)

    def add(
        self,
        kind: str,
        values: Mapping[str, Any],
        on_event: Callable[[Event], None],
        pixels: tuple[int, int],
        checkpoint: Checkpoint | None = None,
        frames: int = 0,
    ) -> Record:
        """A record for a new lab, of one that goes on from `checkpoint` and has shown `frames` frames elsewhere."""
        record = Record(next(self._numbers), kind, on_event, dict(values), pixels, frames=frames, frames_through=frames)
        if checkpoint:
            record.checkpoint = replace(checkpoint, descriptor=duplicate(checkpoint.descriptor), values=dict(values))
        self._records[record.number] = record
        return record

    def get(self, number: int) -> Record | None:
        """The record of lab number `number`, if it is not closed."""
        return self._records.get(number)

    def all(self) -> list[Record]:
        """Every record."""
        return list(self._records.values())

    def reopening(self) -> list[Item]:
        """Orders that open every lab, those that run first: somebody is looking at them."""
        waiting = sorted(self._records.values(), key=lambda record: not record.running)
        return [item for record in waiting for item in reopening(record)]

    def questions(self) -> list[Item]:
        """Everything that was asked and not answered."""
        return [Item(question) for record in self.all() for question in record.questions]

    def drop(self, record: Record) -> None:
        """Forget a lab and give back what is held for it."""
        self._records.pop(record.number, None)
        record.closing = True
        record.release()

    def drop_closing(self) -> list[Record]:
        """Drop the labs that were to be closed when the process ended; returns them."""
        gone = [record for record in self.all() if record.closing]
        for record in gone:
            self.drop(record)
        return gone

    def account(self, record: Record, report: Report, descriptors: list[int], now: float) -> Event | None:
        """Note what a report changes; returns the event that the client gets, if any. Takes descriptors it keeps."""
        match report:
            case Picture():
                return _frame(record, report)
            case Settled():
                record.settle(report.serial, report.values)
            case Delivery(purpose="deposit"):
                record.keep(Checkpoint(report.parcel, descriptors.pop(), report.values, report.mark))
            case Delivery(purpose="checkpoint"):
                return CheckpointTaken(Checkpoint(report.parcel, descriptors.pop(), report.values, report.mark))
            case Delivery():
                answer: Event = read(report.parcel, descriptors[0])
                return answer
            case Answered():
                record.answered(report.verb)
            case Opened():
                absent, record.absent = record.absent, None
                return Restarted(absent[0], now - absent[1]) if absent else None
            case Notice():
                record.noted(report.event)
                if isinstance(report.event, Closed):
                    self.drop(record)
                return report.event
        return None

    def mourn(self, death: Death) -> list[tuple[Record, Event]]:
        """The process died: note for each lab since when it is away, and give up values that may be the cause.

        The lab it was at work for is suspected, and paused at the second time within SUSPICION, so that one lab does
        not take the others with it for ever; returns who is to be told.
        """
        told: list[tuple[Record, Event]] = []
        for record in self.all():
            record.absent = record.absent or (death.reason, death.since)
            record.tries += 1
            told.append((record, Restarting(death.reason)))
            if record.tries >= TRIES:
                told += [(record, event) for event in record.give_up(death.reason)]
            at_work = record.ring is not None and record.ring.died_at_work
            if death.natural and (at_work or record.number == death.lab) and record.suspected(death.since):
                told.append((record, Paused(f"the engine failed twice while it worked for this lab: {death.reason}")))
        return told

    def news_of_breaking(self, reason: str) -> list[tuple[Record, Event]]:
        """Whom to tell that the engine stays down: each lab once. Labs to be closed are dropped."""
        gone: list[tuple[Record, Event]] = [(record, Closed()) for record in self.drop_closing()]
        new = [record for record in self.all() if not record.told_broken]
        for record in new:
            record.told_broken = True
        return gone + [(record, Broken(reason)) for record in new]

    def mended(self) -> None:
        """The engine is tried again."""
        for record in self.all():
            record.told_broken = False


def _frame(record: Record, picture: Picture) -> FrameReady:
    assert record.ring is not None  # noqa: S101 - there since the lab was opened
    buffers = [] if picture.slot == ELSEWHERE else record.ring.take(picture.slot, picture.parcel.sizes)
    frame = unpack(picture.parcel, buffers)
    record.frames = frame.number
    return FrameReady(frame)
