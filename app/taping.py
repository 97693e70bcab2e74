"""A tab's recording: it follows the lab from engine to engine, and every end of it is told once, with words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from compute.engine.messages import STOPPED, Recorded

MOVING = "the lab is moving to another engine just now"


class Taping:
    """report(Recorded) tells what no engine tells. Handles are those of the engine on which the lab is."""

    def __init__(self, report: Callable[[Recorded], None]) -> None:
        self._report = report
        self._arguments: tuple[Any, ...] | None = None
        self._news = Recorded(0, 0, 0)
        self._moving = False

    @property
    def on(self) -> bool:
        """Whether there is a recording."""
        return self._arguments is not None

    def begin(self, handle: Any, *arguments: Any) -> None:
        """Record (LabHandle.record), unless that is being done."""
        if self._moving:
            self._report(Recorded(0, 0, 0, MOVING))
        elif not self.on:
            handle.record(*arguments)
            self._arguments, self._news = arguments if handle.recording else None, Recorded(0, 0, 0)

    def end(self, handle: Any) -> None:
        """Stop it."""
        if self.on and not self._moving:
            handle.stop_recording()
        elif self.on:
            self._arguments = None
            if self._news.ended:
                self._report(self._news)

    def interrupt(self, handle: Any) -> None:
        """The lab is about to move: pause it, so that its snapshot is of the step at which the recording stops."""
        self._moving = True
        if self.on:
            handle.pause()
            handle.stop_recording()

    def go_on(self, handle: Any) -> None:
        """The lab is on this engine now, in the state of that snapshot."""
        self._moving = False
        if self._arguments:
            handle.record(*self._arguments, self._news.steps)

    def give_up(self, reason: str) -> None:
        """The lab begins afresh elsewhere."""
        if self.on:
            self._arguments, self._moving = None, False
            self._report(replace(self._news, ended=f"the engine gave up: {reason}"))

    def hear(self, news: Recorded) -> bool:
        """Take an engine's report; False if it is nobody else's business, since the recording goes on elsewhere."""
        self._news = news
        if self.on and news.ended and not (self._moving and news.ended == STOPPED):
            self._arguments = None
        return not (self.on and news.ended)
