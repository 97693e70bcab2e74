"""What travels between the server and an engine: events, requests, reports.

Events are what the app sees: a LabHandle's `on_event` gets one of them at a time. Requests go to the worker process,
reports come back; both are private to this package, and every one of them is a class here. Seconds are of the
monotonic clock of whoever measured them.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from compute.frames import Frame, View
from compute.measure.rates import RoofKind
from compute.measure.timing import Timing

RecordingOffset: TypeAlias = tuple[str, int]  # folder of the recording under way, the lab's steps since it began

OPENING = -1  # Refused.change of a lab that could not be opened
STOPPED = "stopped"  # how RecordingProgress.ended says that somebody asked for it
LOST = -1  # Record.done where the state that the lab goes on from is older than the recording


@dataclass(frozen=True)
class Payload:
    """A pickled object: its head, and the sizes in bytes of the buffers that travel beside it."""

    head: bytes
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A good state of a lab: what Lab.snapshot returned, in a memory file; and the lab's values then.

    Nobody changes it, so it may serve several labs; the file is closed when the last of them has forgotten it.
    recording_offset: how far a recording was, None without one.
    """

    payload: Payload
    descriptor: int
    values: Mapping[str, Any]
    recording_offset: RecordingOffset | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.descriptor)


# -- events: what the client of a lab is told


class Event:
    """Base of what a lab's client is told, one event at a time."""


@dataclass(frozen=True, eq=False)
class FrameReady(Event):
    """One frame, which owns its read-only memory. frame.number counts the frames of its lab without a gap: from 1, or
    from where a lab that has moved here had come to.

    frame.timing: `steps` are all sub-steps since the frame before, `launch` and `compute` their sums over the slices
    in which they ran (nan if there were none); `levels` and `transfer` belong to this frame alone.
    """

    frame: Frame


@dataclass(frozen=True)
class Refused(Event):
    """A request was not carried out and changed nothing; `text` names the parameter, the value and the bound.

    change: what LabHandle.update returned for it if values were refused, OPENING if the lab could not be opened with
    its first ones, None if it was anything else; kept: the values that the parameters of that change have instead;
    request: its class (Act, TakeSnapshot, TakeSample …), None where the engine does not say.
    """

    text: str
    change: int | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    request: type[Request] | None = None


@dataclass(frozen=True)
class Paused(Event):
    """The engine paused the lab: NaN or inf in its state, or an error while it ran."""

    reason: str


@dataclass(frozen=True)
class Busy(Event):
    """Something long has begun for this lab ("opening", "compiling", "rebuilding"). Any later event ends it."""

    what: str


@dataclass(frozen=True)
class EngineRestarting(Event):
    """The engine died of `reason` and is restarting; EngineRestarted, EngineBroken or LabFailed follows."""

    reason: str


@dataclass(frozen=True)
class EngineRestarted(Event):
    """The engine died of `reason` and the lab goes on from its last good snapshot after `seconds` of absence."""

    reason: str
    seconds: float


@dataclass(frozen=True)
class EngineBroken(Event):
    """The engine died too often and has stopped. `Supervisor.retry()` starts it again with all its labs."""

    reason: str


@dataclass(frozen=True)
class LabFailed(Event):
    """The engine died for the second time while it worked for this lab, and does not reopen it. LabClosed follows.

    Other labs are not affected. The client may open a new lab with the handle's `values`, or another engine's lab from
    its `last_checkpoint`, which is None if the engine died while it opened the lab.
    """

    reason: str


@dataclass(frozen=True)
class MeasurementQueued(Event):
    """A `sample` or `solve` has `before` others of the engine before it; 0 when it begins.

    Told when it is queued behind others, each time one of these is done or dropped, and when it begins.
    """

    before: int


@dataclass(frozen=True)
class Sampled(Event):
    """The answer to `sample`: the first entry is the warm-up (first_call), then one Timing of `steps` each.

    roof: what the device did a second of what was asked to be compared with it, taken right after; () for nothing.
    """

    timings: tuple[Timing, ...]
    roof: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Solved(Event):
    """The answer to `solve`: the (ny, nx) field, in the lab's dtype, after `steps` steps from the field of `seed`."""

    steps: int
    seed: int
    field: NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class SnapshotTaken(Event):
    """The answer to `snapshot`: what Lab.snapshot returned."""

    snapshot: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class HistoryTold(Event):
    """The answer to `tell_history`: what Lab.origin returned. number: that of the question."""

    origin: Mapping[str, Any]
    number: int = 0


@dataclass(frozen=True, eq=False)
class CheckpointTaken(Event):
    """The answer to `take_checkpoint`: the state of now, for another engine to go on with."""

    checkpoint: Checkpoint


@dataclass(frozen=True)
class RecordingProgress(Event):
    """How far a recording is: frames on disk, their bytes, and the lab's steps since it began.

    At most a few times a second; once more, the last time, when it has `ended`, which then says why. What was recorded
    stays. There is no last one where the lab is closed first.
    """

    frames: int
    bytes: int
    steps: int
    ended: str = ""


@dataclass(frozen=True)
class LabClosed(Event):
    """The lab is gone; no event follows."""


# -- requests: what the server asks of the worker


@dataclass(frozen=True)
class Setup:
    """First message to a worker.

    name: of the engine; labs: further lab classes by name, as "module:Class"; heartbeat: seconds between signs of life.
    """

    name: str
    labs: Mapping[str, str]
    heartbeat: float


@dataclass(frozen=True)
class Request:
    """Base of what is asked of lab number `lab`."""

    lab: int

    @property
    def words(self) -> str:
        """Its name in messages to people: "update", "open_lab"."""
        return re.sub("(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


@dataclass(frozen=True)
class OpenLab(Request):
    """Make a lab. The descriptors of its FrameRing and, with a payload, of the state to go on from come beside it.

    kind: the lab's name; frames: how many it has shown.
    """

    kind: str
    values: Mapping[str, Any]
    payload: Payload | None
    frames: int


class CloseLab(Request):
    """Give the lab's memory back; answered by LabClosed."""


@dataclass(frozen=True)
class Refuse(Request):
    """Tell the lab's client `text`, in its turn: the server did not pass a request on. change: as in Refused."""

    text: str
    change: int | None = None


class Stop(Request):
    """End the process; `lab` is 0."""


@dataclass(frozen=True)
class Update(Request):
    """Set parameters, all or none; answered by ParametersApplied."""

    serial: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Act(Request):
    """Call one of the lab's actions."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Restore(Request):
    """Go on from a state, as Lab.snapshot returned it of a lab of this shape."""

    snapshot: Mapping[str, Any]


class Run(Request):
    """Start, or go on."""


class Pause(Request):
    """Stop; what was computed of an unfinished frame is shown."""


@dataclass(frozen=True)
class Step(Request):
    """Pause, advance `n` steps, then show."""

    n: int


@dataclass(frozen=True)
class SetPace(Request):
    """Set the steps per frame; None for as fast as it goes."""

    steps: int | None


@dataclass(frozen=True)
class SetView(Request):
    """Show `view` (x0, y0, x1, y1) in cells, None for all, at most `pixels` (height, width) large."""

    view: View | None
    pixels: tuple[int, int]


@dataclass(frozen=True)
class FramesThrough(Request):
    """Permit all frames up to `number`."""

    number: int


@dataclass(frozen=True)
class Record(Request):
    """Record into `folder`, now and after every `every` steps, `most` frames at most (LabHandle.record).

    done: None to begin; to go on in the same folder, the steps recorded when the lab was in its present state, or LOST.
    """

    folder: str
    every: int
    pixels: tuple[int, int]
    most: int
    done: int | None


class StopRecording(Request):
    """End the recording; answered by the last RecordingProgress."""


@dataclass(frozen=True)
class TellHistory(Request):
    """Tell how the lab came to its state, without the state; answered by HistoryTold unless the process ends first.

    number: of the question, which its answer carries.
    """

    number: int


@dataclass(frozen=True)
class TakeSample(Request):
    """Time `repeat` runs of `steps` steps beside the live labs; roof, dtype: what is measured after them."""

    steps: int
    repeat: int
    roof: RoofKind | Literal[""] = ""
    dtype: str = ""


@dataclass(frozen=True)
class Solve(Request):
    """Compute the field after `steps` steps from the field of `seed`."""

    steps: int
    seed: int


class TakeSnapshot(Request):
    """Answer with the lab's state."""


class TakeCheckpoint(Request):
    """Answer with a Checkpoint of the lab's state."""


Setting: TypeAlias = Update | SetView | SetPace | FramesThrough  # the newest of a lab replaces an unsent one
AnsweredRequest: TypeAlias = (
    TakeSample | Solve | TakeSnapshot | TakeCheckpoint
)  # has an answer, and is asked again until it came
HostRequest: TypeAlias = (  # for a LabHost
    Setting | Act | Restore | Run | Pause | Step | Record | StopRecording | TellHistory
)
WorkerRequest: TypeAlias = OpenLab | CloseLab | AnsweredRequest | Refuse | Stop  # for the Worker itself
Reopened: TypeAlias = (  # covered by reopening a lab, or void with the process
    Setting | AnsweredRequest | OpenLab | Run | Pause | Record | StopRecording | TellHistory
)


# -- reports: what the worker says


@dataclass(frozen=True)
class Report:
    """Base of what the worker says. Any report is a sign of life."""


class Prepared(Report):
    """The process has done what takes long and needs no Setup; what it says next comes within the usual deadline."""


class Ready(Report):
    """The worker has started."""


class Heartbeat(Report):
    """A sign of life, sent from the main loop between slices."""


@dataclass(frozen=True)
class LabReport(Report):
    """Base of what the worker says about lab number `lab`."""

    lab: int


@dataclass(frozen=True)
class DeadlineExtended(LabReport):
    """The next sign of life may come `seconds` later than usual, because the lab does `what`.

    With an empty `what` the lab's client is not told.
    """

    what: str
    seconds: float


@dataclass(frozen=True)
class Opened(LabReport):
    """The lab exists and has these values."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class ParametersApplied(LabReport):
    """All updates up to `serial` were applied or refused; these are the values now."""

    serial: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class FrameMessage(LabReport):
    """A frame: its buffers lie in `slot` of the lab's FrameRing."""

    slot: int
    payload: Payload


@dataclass(frozen=True)
class EventMessage(LabReport):
    """An event to hand on to the lab's client as it is."""

    event: Event


@dataclass(frozen=True)
class BlobMessage(LabReport):
    """An event with large arrays, in its own memory file, whose descriptor comes with the report."""

    payload: Payload


@dataclass(frozen=True)
class CheckpointMessage(BlobMessage):
    """A Checkpoint, whose state comes in the same way.

    requested: the client asked for it by TakeCheckpoint; else it is kept on the server, to restart the lab from.
    """

    values: Mapping[str, Any]
    recording_offset: RecordingOffset | None
    requested: bool = False


@dataclass(frozen=True)
class Answered(LabReport):
    """The first question of this class that is still open for the lab has been answered or refused."""

    question: type[AnsweredRequest]


@dataclass(frozen=True)
class Fatal(LabReport):
    """The worker is about to exit because its device context was lost while it worked for the lab."""

    reason: str
