"""The recordings of one lab in the worker: frames are taken between its slices, whoever looks on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import inf
from typing import Any

from compute.engine.messages import STOPPED, Recorded
from compute.engine.port import Port, in_words
from compute.engine.reel import LOST, Reel
from compute.lab import Lab

DISK = 30.0  # seconds beyond the usual deadline that a disk may take for a frame
OLDER = "the engine was restarted from a state before the recording"


class Filming:
    """patience: announces how long a frame may take (Seat)."""

    def __init__(
        self, number: int, lab: Lab, port: Port, patience: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._number, self._lab, self._port, self._patience = number, lab, port, patience
        self._reel: Reel | None = None
        self._folder = ""

    @property
    def on(self) -> bool:
        """Whether there is a recording."""
        return self._reel is not None

    def begin(self, folder: str, done: int | None, **arguments: Any) -> None:
        """Record, or go on with a recording (see Reel); one that cannot begin ends at once, with words."""
        try:
            self._reel, self._folder = Reel(self._lab, folder, done=done, **arguments), folder
        except (ValueError, OSError) as error:
            self._port.tell(self._number, Recorded(0, 0, 0, in_words(error)))
            return
        if done == LOST:
            self.end(OLDER)

    def end(self, why: str = STOPPED) -> None:
        """End it, and say why, as soon as all of it is on the disk."""
        if self._reel:
            with self._port.expecting(self._number, "", DISK):
                self._reel.finish()
            self._port.tell(self._number, self._reel.news(why))
        self._reel = None

    def limited(self, steps: int) -> int:
        """At most `steps`, and none beyond the next frame, or while the disk is behind."""
        return min(steps, self._reel.left) if self._reel else steps

    def did(self, steps: int) -> None:
        """The lab has advanced."""
        if self._reel:
            self._reel.did(steps)

    def changed(self) -> None:
        """The lab was changed by hand."""
        if self._reel:
            self._reel.stale = True

    def mark(self) -> tuple[str, int] | None:
        """What a deposit needs to know (Delivery)."""
        return (self._folder, self._reel.steps) if self._reel else None

    def due(self, *, running: bool) -> bool:
        """Whether a frame is to be taken now."""
        return self._reel is not None and self._reel.due(resting=self._lab.resting, running=running)

    def wakes_at(self) -> float:
        """When there is something to report."""
        return self._reel.news_at() if self._reel else inf

    def turn(self, *, running: bool) -> bool:
        """Take a frame if one is due, and report if that is; True if the lab was looked at.

        What the disk refuses ends the recording and nothing else; an error of the lab is passed on.
        """
        shoots, ended = self.due(running=running), ""
        if self._reel:
            try:
                if shoots:
                    ended = self._shoot(self._reel)
                self._reel.check()
            except OSError as error:
                ended = f"the disk did not take a frame: {in_words(error)}"
            except Exception as error:
                self.end(f"a frame could not be made: {in_words(error)}")
                raise
            if ended:
                self.end(ended)
        if self._reel and self._reel.news_at() <= time.monotonic():
            self._port.tell(self._number, self._reel.news())
        return shoots

    def _shoot(self, reel: Reel) -> str:
        with self._patience("show"):
            frame = self._lab.frame(None, reel.pixels)
        return reel.take(frame, self._lab.values(), resting=self._lab.resting)
