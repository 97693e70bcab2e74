"""A recording in progress: at which steps a frame is due, and when it has to end.

Steps are counted by the engine from the moment of recording on. After a restart the lab goes on from its last good
state, and so does its recording: frames that were taken later than that state are deleted and taken again.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from compute import machine
from compute.engine.messages import Recorded
from compute.engine.tape import Shot, Tape
from compute.frames import Frame
from compute.lab import Lab

NEWS = 0.3  # seconds between two reports of how far it is
RESERVE = 2**30  # bytes of a disk that are left free, or as much of a small one as
SHARE = 0.05  # this part of it
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

    @property
    def left(self) -> int:
        """Steps until the next frame is due."""
        return self.every - self.steps % self.every if self.every else sys.maxsize

    def did(self, steps: int) -> None:
        """The lab has advanced."""
        self.steps += steps
        self._since += steps

    def due(self, *, resting: bool, running: bool) -> bool:
        """Whether to take a frame now; of a lab that rests, one when it has advanced, or was changed while running."""
        if resting and (self._since or (self.stale and running)):
            return True
        return not self.frames or bool(self._since and self.every and not self.steps % self.every)

    def take(self, frame: Frame, values: Mapping[str, Any], *, resting: bool) -> str:
        """Write `frame`; returns why the recording ends here, "" if it goes on. OSError by the disk."""
        if words := self._short_of_disk(frame):
            return words
        changed = {name: value for name, value in values.items() if self._values.get(name, self) != value}
        self.bytes += self._tape.put(self.frames, Shot(self.steps, frame, changed))
        self.frames += 1
        self._values, self._since = dict(values), 0
        self.stale = self.stale and not resting
        return f"the bound of {self.most} frames is reached" if self.frames >= self.most else ""

    def _short_of_disk(self, frame: Frame) -> str:
        disk = shutil.disk_usage(self._tape.folder)
        kept = min(RESERVE, SHARE * disk.total)
        needed = sum(raster.levels.nbytes for raster in frame.rasters.values())
        if disk.free - needed >= kept:
            return ""
        return f"only {disk.free / 2**30:.2f} GiB of the disk are free, and {kept / 2**30:.2f} GiB are left to others"

    def news_at(self) -> float:
        """When there is something to report; inf if there is not."""
        return self._telling_at if self.frames != self._told else inf

    def news(self, ended: str = "") -> Recorded:
        """How far it is, and why it ended."""
        self._told, self._telling_at = self.frames, time.monotonic() + NEWS
        return Recorded(self.frames, self.bytes, self.steps, ended)


def _about(lab: Lab, every: int, pixels: tuple[int, int], most: int) -> dict[str, Any]:
    about = {"lab": lab.LAB, "values": lab.values(), "every": every, "pixels": pixels, "most": most}
    return about | {"began": machine.now()}
