"""Recording of a lab's frames in the worker, between its slices and independent of any client.

A FrameRecorder is one recording: it decides at which steps a frame is due, and when the recording ends. Steps are
counted from the start of the recording. After a restart the lab continues from its last good state, and its recording
too: frames that were recorded after that state are deleted and recorded again. A thread writes the files, so that a
slow disk delays only this lab. A LabRecorder starts, feeds and ends the recordings of one lab, and reports.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from math import inf
from pathlib import Path
from typing import Any

from compute.cli import settings
from compute.cli.settings import MIB
from compute.engine.messages import LOST, STOPPED, Record, RecordingOffset, RecordingProgress
from compute.engine.recording_store import RecordedFrame, RecordingStore, encode_frame
from compute.engine.sending import EventSender, error_text
from compute.lab.frames import Frame
from compute.lab.lab import Lab
from compute.machine import machine

PROGRESS_PERIOD = 0.3  # seconds between two progress reports
RESERVE = 2**30  # bytes of a disk that are left free, or SHARE of a smaller disk
SHARE = 0.05  # part of a small disk that is left free
AHEAD = 2  # frames passed to the disk and still unwritten, at which this lab waits, but no others
POLL = 0.01  # seconds between two checks of the disk
DISK = 30.0  # seconds beyond the usual deadline that a disk may need for a frame
OLDER = "the engine was restarted from a state before the recording"


class FrameRecorder:
    """Records frames of `lab`, at most `pixels` (height, width) large, into `folder`: now, and every `every` steps.

    Newly completed pictures are recorded too; with `every` 0, only these. most: maximum number of frames. done: None
    for a new recording; to continue one in the same folder, its steps at the lab's present state.

    Attributes: steps of the lab since the recording began; frames and bytes recorded; stale, whether the lab was
    changed since the last frame. Raise ValueError for arguments that do not fit the lab, or a folder with other
    content.
    """

    def __init__(
        self, lab: Lab, folder: str, every: int, pixels: tuple[int, int], most: int, done: int | None = None
    ) -> None:
        if not every and not lab.ENDS:
            raise ValueError(f"every must be at least 1 step for {lab.LAB}, whose picture is never complete, not 0")
        self.every, self.pixels, self.most = every, pixels, most
        self.frames, self.bytes, self.steps = 0, 0, max(done or 0, 0)
        self.stale = False
        self._most_bytes = settings.current().disk * MIB
        self._store, self._since = RecordingStore(Path(folder)), 0
        self._values: Mapping[str, Any] = lab.values()
        self._reported, self._next_report = 0, 0.0
        self._thread = ThreadPoolExecutor(1, f"recording in {folder}")  # ends with this object
        self._writing: list[Future[None]] = []
        self._failed: tuple[int, Exception] | None = None
        if done is None:
            about = {"lab": lab.LAB, "values": lab.values(), "every": every, "pixels": pixels, "most": most}
            self._store.begin(about | {"began": machine.now()})
        else:
            self._go_on(done)

    def _go_on(self, done: int) -> None:
        self._store.about()
        if done != LOST:
            self._store.cut(done)
        numbers = self._store.numbers()
        self.frames = self._reported = len(numbers)
        self.bytes = self._store.occupied()
        self._values = {}
        if numbers:
            self._since = self.steps - self._store.head(numbers[-1]).step
        if self.every and self._since > self.every and done != LOST:
            raise ValueError("frames that were not on the disk yet were lost with the engine")

    @property
    def steps_left(self) -> int:
        """Steps until the next frame is due; 0 while a due frame waits for the disk."""
        if self.blocked or self._pending:
            return 0
        return self.every - self.steps % self.every if self.every else sys.maxsize

    @property
    def _pending(self) -> bool:
        return not self.frames or bool(self._since and self.every and not self.steps % self.every)

    def advanced(self, steps: int) -> None:
        """Count steps of the lab."""
        self.steps += steps
        self._since += steps

    def due(self, *, resting: bool, running: bool) -> bool:
        """Return whether to record a frame now; a resting lab must have advanced, or changed while running."""
        if self.blocked:
            return False
        if resting and (self._since or (self.stale and running)):
            return True
        return self._pending

    def take(self, frame: Frame, values: Mapping[str, Any], *, resting: bool) -> str:
        """Queue `frame` for writing; return the reason why the recording ends here, "" if it continues."""
        if words := self._short_of_disk(frame):
            return words
        changed = {name: value for name, value in values.items() if self._values.get(name, self) != value}
        data = encode_frame(RecordedFrame(self.steps, frame, changed))
        self._writing.append(self._thread.submit(self._write, self.frames, data))
        self.bytes, self.frames = self.bytes + len(data), self.frames + 1
        self._values, self._since = dict(values), 0
        self.stale = self.stale and not resting
        if self._most_bytes and self.bytes >= self._most_bytes:
            return f"{self._most_bytes // MIB} MB are what one recording may have on this server (its setting disk)"
        return f"the bound of {self.most} frames is reached" if self.frames >= self.most else ""

    def _write(self, number: int, data: bytes) -> None:
        """Write a frame, on the thread. After a failure no frame is written, so that the recording has no gap."""
        if self._failed:
            return
        try:
            self._store.put(number, data)
        except Exception as error:  # noqa: BLE001 - raised by `check`
            self._failed = number, error

    @property
    def blocked(self) -> bool:
        """Whether the disk is behind, so that the lab must wait."""
        self._writing = [one for one in self._writing if not one.done()]
        return len(self._writing) >= AHEAD

    def check(self) -> None:
        """Raise the error by which writing a frame failed: an OSError if the disk refused it."""
        if self._failed:
            raise self._failed[1]

    def finish(self) -> None:
        """Wait until all frames are on disk, and correct the counts after a failure."""
        wait(self._writing)
        if self._failed:
            self.frames = self._failed[0]
            self.bytes = self._store.occupied()

    def _short_of_disk(self, frame: Frame) -> str:
        disk = shutil.disk_usage(self._store.folder)
        kept = min(RESERVE, SHARE * disk.total)
        needed = sum(raster.levels.nbytes for raster in frame.rasters.values())
        if disk.free - needed >= kept:
            return ""
        return f"only {disk.free / 2**30:.2f} GiB of the disk are free, and {kept / 2**30:.2f} GiB are left to others"

    def progress_at(self) -> float:
        """Return the time of the next report or check of the disk; inf without any."""
        if self._writing:
            return time.monotonic() + POLL
        return self._next_report if self.frames != self._reported else inf

    def progress(self, ended: str = "") -> RecordingProgress:
        """Return the progress, with the reason of the end."""
        self._reported, self._next_report = self.frames, time.monotonic() + PROGRESS_PERIOD
        return RecordingProgress(self.frames, self.bytes, self.steps, ended)


def on_disk(folder: str) -> tuple[int, int]:
    """Return the number of frames and bytes in a recording's folder; zeros if it cannot be read."""
    store = RecordingStore(Path(folder))
    try:
        return len(store.numbers()), store.occupied()
    except OSError:
        return 0, 0


class LabRecorder:
    """The recordings of lab number `number`, one after the other.

    allow_time: a context manager that extends the deadline for the operation given as its argument (LabHost).
    """

    def __init__(
        self, number: int, lab: Lab, sender: EventSender, allow_time: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._number, self._lab, self._sender, self._allow_time = number, lab, sender, allow_time
        self._recorder: FrameRecorder | None = None
        self._folder = ""

    @property
    def on(self) -> bool:
        """Whether the lab is being recorded."""
        return self._recorder is not None

    def begin(self, request: Record) -> None:
        """Start or continue a recording; if that fails, send its last RecordingProgress with the reason."""
        every, pixels, most, done = request.every, request.pixels, request.most, request.done
        try:
            self._recorder = FrameRecorder(self._lab, request.folder, every, pixels, most, done)
            self._folder = request.folder
        except (ValueError, OSError) as error:
            frames, size = (0, 0) if done is None else on_disk(request.folder)
            self._sender.send_event(self._number, RecordingProgress(frames, size, 0, error_text(error)))
            return
        if done == LOST:
            self.end(OLDER)

    def end(self, why: str = STOPPED) -> None:
        """Wait until all frames are on disk, then end the recording and report the reason."""
        if self._recorder:
            with self._sender.extended_deadline(self._number, "", DISK):
                self._recorder.finish()
            self._sender.send_event(self._number, self._recorder.progress(why))
        self._recorder = None

    def limited(self, steps: int) -> int:
        """Return how many of `steps` steps may be done: none beyond the next frame, or while the disk is behind."""
        return min(steps, self._recorder.steps_left) if self._recorder else steps

    def advanced(self, steps: int) -> None:
        """Count steps of the lab for the current recording."""
        if self._recorder:
            self._recorder.advanced(steps)

    def changed(self) -> None:
        """Note that the lab was changed by hand."""
        if self._recorder:
            self._recorder.stale = True

    def offset(self) -> RecordingOffset | None:
        """Return the position of the recording, for a checkpoint; None without a recording."""
        return (self._folder, self._recorder.steps) if self._recorder else None

    def due(self, *, running: bool) -> bool:
        """Return whether a frame is due now."""
        return self._recorder is not None and self._recorder.due(resting=self._lab.status.resting, running=running)

    def wakes_at(self) -> float:
        """Return the time of the next report; inf without a recording."""
        return self._recorder.progress_at() if self._recorder else inf

    def turn(self, *, running: bool) -> bool:
        """Record a due frame and send a due report; return whether a frame was due.

        An error of the disk ends only the recording; an error of the lab is raised again.
        """
        due, ended = self.due(running=running), ""
        if self._recorder:
            try:
                if due:
                    ended = self._take(self._recorder)
                self._recorder.check()
            except OSError as error:
                ended = f"the disk did not store a frame: {error_text(error)}"
            except Exception as error:
                self.end(f"a frame could not be made: {error_text(error)}")
                raise
            if ended:
                self.end(ended)
        if self._recorder and self._recorder.progress_at() <= time.monotonic():
            self._sender.send_event(self._number, self._recorder.progress())
        return due

    def _take(self, recorder: FrameRecorder) -> str:
        with self._allow_time("show"):
            frame = self._lab.frame(None, recorder.pixels)
        return recorder.take(frame, self._lab.values(), resting=self._lab.status.resting)
