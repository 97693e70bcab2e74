"""A tab's recording: it follows the lab from engine to engine, and every end of it is told once, with words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from compute.engine import LabHandle
from compute.engine.messages import STOPPED, RecordingProgress

Arguments: TypeAlias = tuple[str, int, tuple[int, int], int]  # of LabHandle.record

MOVING = "the lab is moving to another engine just now"
NO_LAB = "the lab could not be opened"


class TabRecording:
    """The recording of one tab. report tells what no engine tells; handles are those of its engine."""

    def __init__(self, report: Callable[[RecordingProgress], None]) -> None:
        self._report = report
        self._arguments: Arguments | None = None
        self._news = RecordingProgress(0, 0, 0)
        self._moving = False
        self._stopping = False  # it was interrupted, and the engine has not said yet that it has stopped
        self._reported = False  # its end was told, before its engine says so
        self._next: LabHandle | None = None  # on which it goes on as soon as it has stopped

    @property
    def on(self) -> bool:
        """Whether there is a recording."""
        return self._arguments is not None

    def start(self, handle: LabHandle, arguments: Arguments) -> None:
        """Record (LabHandle.record), unless that is being done."""
        if self._moving or self._stopping or handle.closed:
            self._report(RecordingProgress(0, 0, 0, NO_LAB if handle.closed else MOVING))
        elif not self.on:
            handle.record(*arguments)
            self._arguments, self._news = arguments if handle.recording else None, RecordingProgress(0, 0, 0)
            self._reported = False

    def stop(self, handle: LabHandle) -> None:
        """End the recording on `handle`'s lab."""
        if self.on and not (self._moving or self._stopping):
            handle.stop_recording()
        elif self.on:
            self._arguments, self._next = None, None
            if not self._stopping:
                self._report(self._news)

    def interrupt(self, handle: LabHandle) -> None:
        """The lab is about to move: pause it, so that its checkpoint is of the step at which the recording stops."""
        self._moving, self._next = True, None
        if self.on and not self._stopping:
            self._stopping = True
            handle.pause()
            handle.stop_recording()

    def resume(self, handle: LabHandle) -> None:
        """The lab is on this engine now, or still, in the state at which the recording stopped."""
        interrupted, self._moving = self._moving, False
        if interrupted and self.on and self._stopping:
            self._next = handle
        elif interrupted and self._arguments is not None:
            handle.record(*self._arguments, self._news.steps)

    def give_up(self, handle: LabHandle, reason: str) -> None:
        """The engine has stopped, and with it the recording, also if the engine is tried again."""
        if not self.on:
            return
        if not self._stopping:  # else it has been asked to
            handle.stop_recording()
        self._reported = handle.recording
        self._arguments, self._next, self._stopping = None, None, False
        self._report(replace(self._news, ended=f"the engine gave up: {reason}"))

    def on_recorded(self, news: RecordingProgress) -> bool:
        """Take an engine's report; False if it is not to be passed on: it was reported, or goes on elsewhere."""
        if self._reported:
            self._reported = not news.ended
            return False
        self._news = news
        if self._stopping and news.ended:
            self._stopping, handle, self._next = False, self._next, None
            if self.on and news.ended == STOPPED:
                if handle is not None and self._arguments is not None:
                    handle.record(*self._arguments, news.steps)
                return False
        if news.ended:
            self._arguments = None
        return True
