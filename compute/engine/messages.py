"""What travels between the server and an engine.

Events are what the app sees: a LabHandle's `on_event` gets one of them at a time. Orders go to the worker process,
reports come back; both are private to this package. Seconds are of the monotonic clock of whoever measured them.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.frames import Frame
from compute.timings import Timing

View = tuple[float, float, float, float]

OPENING = -1  # Refused.change of a lab that could not be opened
STOPPED = "stopped"  # how Recorded.ended says that somebody asked for it


QUESTIONS = frozenset({"sample", "solve", "snapshot", "take_checkpoint"})  # requests that have an answer


class Event:
    """Base of what a lab's client is told."""


@dataclass(frozen=True, eq=False)
class FrameReady(Event):
    """One frame. It owns its (read-only) memory; frame.number counts the frames of its lab from 1, or from where a lab
    that has moved here had come to, without a gap.

    frame.timing: `steps` are all sub-steps since the frame before, `launch` and `compute` their sums over the slices
    in which they ran (nan if there were none); `levels` and `transfer` belong to this frame alone.
    """

    frame: Frame


@dataclass(frozen=True)
class Refused(Event):
    """A request was not carried out and changed nothing; `text` names the parameter, the value and the bound.

    change: what LabHandle.update returned for it if values were refused, OPENING if the lab could not be opened with
    its first ones, None if it was anything else; kept: the values that the parameters of that change have instead;
    request: which it was ("act", "snapshot", "sample" …), "" where the engine does not say.
    """

    text: str
    change: int | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    request: str = ""


@dataclass(frozen=True)
class Paused(Event):
    """The engine paused the lab: NaN or inf in its state, or an error while it ran."""

    reason: str


@dataclass(frozen=True)
class Busy(Event):
    """Something long has begun for this lab ("opening", "compiling", "resizing"). Any later event ends it."""

    what: str


@dataclass(frozen=True)
class Restarting(Event):
    """The engine died of `reason` and is being started again; Restarted or Broken follows."""

    reason: str


@dataclass(frozen=True)
class Restarted(Event):
    """The engine died of `reason` and the lab goes on from its last good snapshot after `seconds` of absence."""

    reason: str
    seconds: float


@dataclass(frozen=True)
class Broken(Event):
    """The engine died too often and has stopped. `Supervisor.retry()` starts it again with all its labs."""

    reason: str


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
class CheckpointTaken(Event):
    """The answer to `take_checkpoint`: the state of now, for another engine to go on with."""

    checkpoint: Checkpoint


@dataclass(frozen=True)
class Recorded(Event):
    """How far a recording is: frames on disk, their bytes, and the lab's steps since it began.

    At most a few times a second; once more, the last time, when it has `ended`, which then says why. What was recorded
    stays. There is no last one where the lab is closed first.
    """

    frames: int
    bytes: int
    steps: int
    ended: str = ""


@dataclass(frozen=True)
class Closed(Event):
    """The lab is gone; no event follows."""


@dataclass(frozen=True)
class Setup:
    """First message to a worker.

    name: of the engine; labs: further lab classes by name, as "module:Class"; beat: seconds between signs of life.
    """

    name: str
    labs: Mapping[str, str]
    beat: float


@dataclass(frozen=True)
class Order:
    """A request to the worker: call `verb` of lab number `lab` with `arguments`."""

    lab: int
    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parcel:
    """A pickled object: its head, and the sizes in bytes of the buffers that travel beside it."""

    head: bytes
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A good state of a lab: a parcel in a memory file, the lab's values then, and Delivery.mark.

    Nobody changes it, so it may serve several labs; the file is closed when the last of them has forgotten it.
    """

    parcel: Parcel
    descriptor: int
    values: Mapping[str, Any]
    mark: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.descriptor)


class Report:
    """Base of what the worker says. Any report is a sign of life."""


@dataclass(frozen=True)
class Prepared(Report):
    """The process has done what takes long and needs no Setup; what it says next comes within the usual deadline."""


@dataclass(frozen=True)
class Ready(Report):
    """The worker has started."""


@dataclass(frozen=True)
class Beat(Report):
    """A sign of life, sent from the main loop between slices."""


@dataclass(frozen=True)
class Expect(Report):
    """The next sign of life may come `seconds` later than usual, because lab number `lab` does `what`.

    With an empty `what` the lab's client is not told.
    """

    lab: int
    what: str
    seconds: float


@dataclass(frozen=True)
class Opened(Report):
    """The lab exists and has these values."""

    lab: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Settled(Report):
    """All updates up to `serial` were applied or refused; these are the values now."""

    lab: int
    serial: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Picture(Report):
    """A frame: its buffers lie in `slot` of the lab's ring."""

    lab: int
    slot: int
    parcel: Parcel


@dataclass(frozen=True)
class Notice(Report):
    """An event to hand on to the lab's client as it is."""

    lab: int
    event: Event


@dataclass(frozen=True)
class Delivery(Report):
    """A large object in its own memory file, whose descriptor comes with the report.

    purpose: "deposit" (a good state to restart from, with the `values` it belongs to), "checkpoint" (the same, because
    the client asked) or "event"; mark: of the first two, the folder of the recording under way and its steps so far.
    """

    lab: int
    purpose: str
    parcel: Parcel
    values: Mapping[str, Any]
    mark: tuple[str, int] | None = None


@dataclass(frozen=True)
class Answered(Report):
    """The first `verb` (sample, solve or snapshot) that is still open for this lab has been answered or refused."""

    lab: int
    verb: str


@dataclass(frozen=True)
class Fatal(Report):
    """The worker is about to exit because its device context was lost while it worked for lab number `lab`."""

    lab: int
    reason: str
