"""Messages between the server and an engine: events, requests, reports.

Events are delivered to the app, one at a time, by a LabHandle's `on_event`. Requests are sent to the worker process,
which replies with reports; both are private to this package, and each message is a class in this file. Times in seconds
refer to the monotonic clock of the process that measured them.
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

from compute.lab.frames import Frame, View
from compute.measure.rates import RoofKind
from compute.measure.timing import Timing

RecordingOffset: TypeAlias = tuple[str, int]  # folder of the current recording, the lab's steps since it began

OPENING = -1  # Refused.change of a lab that could not be opened
STOPPED = "stopped"  # RecordingProgress.ended after StopRecording
LOST = -1  # Record.done if the state from which the lab continues is older than the recording


@dataclass(frozen=True)
class Payload:
    """A pickled object: its head, and the sizes in bytes of the buffers that are sent separately."""

    head: bytes
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A good state of a lab: the result of Lab.snapshot in a memory file, and the lab's values at that time.

    It is immutable, so several labs may share it; the file is closed when the last reference is dropped.
    recording_offset: the position of the recording at that time, None without a recording.
    """

    payload: Payload
    descriptor: int
    values: Mapping[str, Any]
    recording_offset: RecordingOffset | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.descriptor)


# -- events: sent to the client of a lab


class Event:
    """Base class of the events that a lab's client receives, one at a time."""


@dataclass(frozen=True, eq=False)
class FrameReady(Event):
    """One frame, which owns its read-only memory.

    frame.number counts the lab's frames without a gap, from 1 or, for a lab that was moved from another engine, from
    its number there. frame.timing: `steps` counts all sub-steps since the previous frame, `launch` and `compute` are
    the sums over their slices (nan without any); `levels` and `transfer` belong to this frame alone.
    """

    frame: Frame


@dataclass(frozen=True)
class Refused(Event):
    """A request was not carried out and changed nothing; `text` names the parameter, the value and the bound.

    change: the number returned by LabHandle.update for refused values, OPENING if the lab could not be opened with its
    first ones, else None; kept: the values that the parameters of that change have instead; request: its class (Act,
    TakeSnapshot, TakeSample …), None if unknown.
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
    """A long operation has begun for this lab ("opening", "compiling", "rebuilding"). Any later event ends it."""

    what: str


@dataclass(frozen=True)
class EngineRestarting(Event):
    """The engine died of `reason` and is restarting; EngineRestarted, EngineBroken or LabFailed follows."""

    reason: str


@dataclass(frozen=True)
class EngineRestarted(Event):
    """The engine died of `reason`; the lab continues from its last good snapshot after `seconds` of downtime."""

    reason: str
    seconds: float


@dataclass(frozen=True)
class EngineBroken(Event):
    """The engine died too often and has stopped. `Supervisor.retry()` starts it again with all its labs."""

    reason: str


@dataclass(frozen=True)
class LabFailed(Event):
    """The engine died for the second time while it worked for this lab, and does not reopen it. LabClosed follows.

    Other labs are not affected. The client may open a new lab with the handle's `values`, or a lab on another engine
    from its `last_checkpoint`, which is None if the engine died while it opened the lab.
    """

    reason: str


@dataclass(frozen=True)
class MeasurementQueued(Event):
    """A `sample` or `solve` has `before` other measurements of the engine before it; 0 when it begins.

    Sent when it is queued behind others, each time one of these is finished or dropped, and when it begins.
    """

    before: int


@dataclass(frozen=True)
class Sampled(Event):
    """The answer to `sample`: the first entry is the warm-up (first_call), then one Timing of `steps` each.

    roof: samples of the requested roof, in units per second, measured right after the runs; () if none was requested.
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
    """The answer to `snapshot`: the result of Lab.snapshot."""

    snapshot: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class HistoryTold(Event):
    """The answer to `request_history`: the result of HistoryRules.origin. number: copied from the request."""

    origin: Mapping[str, Any]
    number: int = 0


@dataclass(frozen=True, eq=False)
class CheckpointTaken(Event):
    """The answer to `take_checkpoint`: the current state, from which another engine can continue."""

    checkpoint: Checkpoint


@dataclass(frozen=True)
class RecordingProgress(Event):
    """Progress of a recording: frames on disk, their bytes, and the lab's steps since it began.

    Sent at most a few times a second, and a last time when the recording ends; `ended` then states the reason. The
    recorded files remain. If the lab is closed first, no last event is sent.
    """

    frames: int
    bytes: int
    steps: int
    ended: str = ""


@dataclass(frozen=True)
class LabClosed(Event):
    """The lab is closed; no event follows."""


# -- requests: sent by the server to the worker


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
    """Base class of the requests to lab number `lab`."""

    lab: int

    @property
    def words(self) -> str:
        """The request's name in messages for users: "update", "create_lab"."""
        return re.sub("(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()


@dataclass(frozen=True)
class CreateLab(Request):
    """Open a lab. Descriptors of its FrameRing and, with a payload, of its initial state are sent with it.

    kind: the lab's name; frames: how many it has shown.
    """

    kind: str
    values: Mapping[str, Any]
    payload: Payload | None
    frames: int


class CloseLab(Request):
    """Close the lab and free its memory; answered by LabClosed."""


@dataclass(frozen=True)
class Refuse(Request):
    """Send `text` to the lab's client, in order: the server did not forward a request. change: as in Refused."""

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
    """Restore a state that Lab.snapshot returned for a lab of this shape."""

    snapshot: Mapping[str, Any]


class Run(Request):
    """Start or resume the lab."""


class Pause(Request):
    """Pause the lab; the computed part of an unfinished frame is shown."""


@dataclass(frozen=True)
class Step(Request):
    """Pause, advance `n` steps, then show one frame."""

    n: int


@dataclass(frozen=True)
class SetPace(Request):
    """Set the steps per frame; None: as many as possible."""

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

    done: None for a new recording; to continue one in the same folder, its steps at the lab's present state, or LOST.
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
    """Send the history of the lab's state without the state; answered by HistoryTold unless the process ends first.

    number: copied into the answer.
    """

    number: int


@dataclass(frozen=True)
class TakeSample(Request):
    """Time `repeat` runs of `steps` steps next to the live labs; roof, dtype: of the roof measured after them."""

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
    """Request the lab's state."""


class TakeCheckpoint(Request):
    """Request a Checkpoint of the lab's state."""


Setting: TypeAlias = Update | SetView | SetPace | FramesThrough  # the latest one of a lab replaces an unsent one
AnsweredRequest: TypeAlias = (
    TakeSample | Solve | TakeSnapshot | TakeCheckpoint
)  # requires an answer; sent again after a restart until it arrives
HostRequest: TypeAlias = (  # for a LabHost
    Setting | Act | Restore | Run | Pause | Step | Record | StopRecording | TellHistory
)
WorkerRequest: TypeAlias = CreateLab | CloseLab | AnsweredRequest | Refuse | Stop  # for the Worker
Reopened: TypeAlias = (  # replaced when the lab is reopened, or void after the process ends
    Setting | AnsweredRequest | CreateLab | Run | Pause | Record | StopRecording | TellHistory
)


# -- reports: sent by the worker


@dataclass(frozen=True)
class Report:
    """Base class of the worker's reports. Any report is a sign of life."""


class Prepared(Report):
    """The process has finished all slow preparation that needs no Setup; the usual deadline applies from now on."""


class Ready(Report):
    """The worker has started."""


class Heartbeat(Report):
    """A sign of life, sent from the main loop between slices."""


@dataclass(frozen=True)
class LabReport(Report):
    """Base class of the worker's reports about lab number `lab`."""

    lab: int


@dataclass(frozen=True)
class DeadlineExtended(LabReport):
    """The next sign of life may come `seconds` later than usual, because the lab does `what`.

    If `what` is empty, the lab's client is not notified.
    """

    what: str
    seconds: float


@dataclass(frozen=True)
class Opened(LabReport):
    """The lab is open and has these values."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class ParametersApplied(LabReport):
    """All updates up to `serial` were applied or refused; `values` are the current ones."""

    serial: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class FrameMessage(LabReport):
    """A frame: its buffers are in `slot` of the lab's FrameRing."""

    slot: int
    payload: Payload


@dataclass(frozen=True)
class EventMessage(LabReport):
    """An event that is forwarded unchanged to the lab's client."""

    event: Event


@dataclass(frozen=True)
class BlobMessage(LabReport):
    """An event with large arrays in a memory file, whose descriptor is sent with the report."""

    payload: Payload


@dataclass(frozen=True)
class CheckpointMessage(BlobMessage):
    """A Checkpoint, whose state is sent in the same way.

    requested: the client requested it by TakeCheckpoint; otherwise the server stores it to restart the lab.
    """

    values: Mapping[str, Any]
    recording_offset: RecordingOffset | None
    requested: bool = False


@dataclass(frozen=True)
class Answered(LabReport):
    """The first open request of this class for the lab has been answered or refused."""

    question: type[AnsweredRequest]


@dataclass(frozen=True)
class Fatal(LabReport):
    """The worker is about to exit because its device context was lost while it worked for the lab."""

    reason: str
