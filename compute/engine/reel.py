"""A recording in progress: at which steps a frame is due, and when it has to end.

Steps are counted by the engine from the moment of recording on. After a restart the lab goes on from its last good
state, and so does its recording: frames that were taken later than that state are deleted and taken again. A thread
writes: a disk that is slow for a moment makes this lab wait, and no other.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from math import inf
from pathlib import Path
from typing import Any

from compute import machine
from compute.engine.messages import Recorded
from compute.engine.tape import Shot, Tape, packed
from compute.frames import Frame
from compute.lab import Lab

NEWS = 0.3  # seconds between two reports of how far it is
RESERVE = 2**30  # bytes of a disk that are left free, or as much of a small one as
SHARE = 0.05  # this part of it
AHEAD = 2  # frames handed to the disk and not written yet, at which the lab waits, and no other lab
POLL = 0.01  # seconds between two looks at the disk
LOST = -1  # steps done at the last good state, where that is older than the recording


class Reel:
    """Records what `lab` shows, at most `pixels` (height, width) large, into `folder`: now, and every `every` steps.

    A picture that has become complete is recorded too; `every` 0 records nothing else. most: frames at most. done:
    None to begin; to go on in the same folder, the steps done when the lab was in its present state.
    steps: of the lab since the beginning; frames, bytes: recorded; stale: the lab was changed since the last one.
    ValueError for arguments that do not fit the lab, or a folder that holds anything else.
    """

    def __init__(
        self, lab: Lab, folder: str, every: int, pixels: tuple[int, int], most: int, done: int | None = None
    ) -> None:
        if not every and not lab.ENDS:
            raise ValueError(f"every must be at least 1 step for {lab.LAB}, whose picture is never complete, not 0")
        self.every, self.pixels, self.most = every, pixels, most
        self.frames, self.bytes, self.steps = 0, 0, max(done or 0, 0)
        self.stale = False
        self._tape, self._since = Tape(Path(folder)), 0
        self._values: Mapping[str, Any] = lab.values()
        self._told, self._telling_at = 0, 0.0
        self._thread = ThreadPoolExecutor(1, f"recording in {folder}")  # ends with this object
        self._writing: list[Future[None]] = []
        self._failed: tuple[int, Exception] | None = None
        if done is None:
            self._tape.begin(_about(lab, every, pixels, most))
        else:
            self._go_on(done)

    def _go_on(self, done: int) -> None:
        self._tape.about()
        if done != LOST:
            self._tape.cut(done)
        numbers = self._tape.numbers()
        self.frames = self._told = len(numbers)
        self.bytes = sum(self._tape.path(number).stat().st_size for number in numbers)
        self._values = {}
        if numbers:
            self._since = self.steps - self._tape.head(numbers[-1])["step"]
        if self.every and self._since > self.every and done != LOST:
            raise ValueError("frames that were not on the disk yet were lost with the engine")

    @property
    def left(self) -> int:
        """Steps until the next frame is due; 0 while one that is due waits for the disk."""
        if self.blocked or self._pending:
            return 0
        return self.every - self.steps % self.every if self.every else sys.maxsize

    @property
    def _pending(self) -> bool:
        return not self.frames or bool(self._since and self.every and not self.steps % self.every)

    def did(self, steps: int) -> None:
        """The lab has advanced."""
        self.steps += steps
        self._since += steps

    def due(self, *, resting: bool, running: bool) -> bool:
        """Whether to take a frame now; of a lab that rests, one when it has advanced, or was changed while running."""
        if self.blocked:
            return False
        if resting and (self._since or (self.stale and running)):
            return True
        return self._pending

    def take(self, frame: Frame, values: Mapping[str, Any], *, resting: bool) -> str:
        """Have `frame` written; returns why the recording ends here, "" if it goes on."""
        if words := self._short_of_disk(frame):
            return words
        changed = {name: value for name, value in values.items() if self._values.get(name, self) != value}
        data = packed(Shot(self.steps, frame, changed))
        self._writing.append(self._thread.submit(self._write, self.frames, data))
        self.bytes, self.frames = self.bytes + len(data), self.frames + 1
        self._values, self._since = dict(values), 0
        self.stale = self.stale and not resting
        return f"the bound of {self.most} frames is reached" if self.frames >= self.most else ""

    def _write(self, number: int, data: bytes) -> None:
        """On the thread. After a failure nothing more is written, so that no frame is missing in between."""
        if self._failed:
            return
        try:
            self._tape.put(number, data)
        except Exception as error:  # noqa: BLE001 - raised by `check`
            self._failed = number, error

    @property
    def blocked(self) -> bool:
        """Whether the disk is behind, and the lab must not go on."""
        self._writing = [one for one in self._writing if not one.done()]
        return len(self._writing) >= AHEAD

    def check(self) -> None:
        """Raise the error with which a frame was not written: an OSError if the disk has refused it."""
        if self._failed:
            raise self._failed[1]

    def finish(self) -> None:
        """Wait until everything is on the disk, and count that."""
        wait(self._writing)
        if self._failed:
            self.frames = self._failed[0]
            self.bytes = sum(self._tape.path(number).stat().st_size for number in self._tape.numbers())

    def _short_of_disk(self, frame: Frame) -> str:
        disk = shutil.disk_usage(self._tape.folder)
        kept = min(RESERVE, SHARE * disk.total)
        needed = sum(raster.levels.nbytes for raster in frame.rasters.values())
        if disk.free - needed >= kept:
            return ""
        return f"only {disk.free / 2**30:.2f} GiB of the disk are free, and {kept / 2**30:.2f} GiB are left to others"

    def news_at(self) -> float:
        """When there is something to report, or the disk may have gone on; inf if there is not."""
        if self._writing:
            return time.monotonic() + POLL
        return self._telling_at if self.frames != self._told else inf

    def news(self, ended: str = "") -> Recorded:
        """How far it is, and why it ended."""
        self._told, self._telling_at = self.frames, time.monotonic() + NEWS
        return Recorded(self.frames, self.bytes, self.steps, ended)


def _about(lab: Lab, every: int, pixels: tuple[int, int], most: int) -> dict[str, Any]:
    about = {"lab": lab.LAB, "values": lab.values(), "every": every, "pixels": pixels, "most": most}
    return about | {"began": machine.now()}
