"""A tab's recording, which follows the lab from engine to engine; each end is reported once, with its reason."""

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
    """The recording of one tab. report: receives ends that no engine reports; handles belong to the tab's lab."""

    def __init__(self, report: Callable[[RecordingProgress], None]) -> None:
        self._report = report
        self._arguments: Arguments | None = None
        self._news = RecordingProgress(0, 0, 0)
        self._moving = False
        self._stopping = False  # interrupted, but the engine has not confirmed the stop
        self._reported = False  # the end was reported before the engine's own report
        self._next: LabHandle | None = None  # the lab on which the recording continues after the stop

    @property
    def on(self) -> bool:
        """Whether a recording runs or is to continue after a move."""
        return self._arguments is not None

    def start(self, handle: LabHandle, arguments: Arguments) -> None:
        """Start recording (LabHandle.record), unless a recording runs."""
        if self._moving or self._stopping or handle.closed:
            self._report(RecordingProgress(0, 0, 0, NO_LAB if handle.closed else MOVING))
        elif not self.on:
            handle.record(*arguments)
            self._arguments, self._news = arguments if handle.recording else None, RecordingProgress(0, 0, 0)
            self._reported = False

    def stop(self, handle: LabHandle) -> None:
        """Stop the recording on `handle`'s lab."""
        if self.on and not (self._moving or self._stopping):
            handle.stop_recording()
        elif self.on:
            self._arguments, self._next = None, None
            if not self._stopping:
                self._report(self._news)

    def interrupt(self, handle: LabHandle) -> None:
        """Pause the lab before a move, so that its checkpoint is of the step at which the recording stops."""
        self._moving, self._next = True, None
        if self.on and not self._stopping:
            self._stopping = True
            handle.pause()
            handle.stop_recording()

    def resume(self, handle: LabHandle) -> None:
        """Continue on this lab after a move, successful or not, from the state at which the recording stopped."""
        interrupted, self._moving = self._moving, False
        if interrupted and self.on and self._stopping:
            self._next = handle
        elif interrupted and self._arguments is not None:
            handle.record(*self._arguments, self._news.steps)

    def give_up(self, handle: LabHandle, reason: str) -> None:
        """End the recording after the engine has stopped, even if the engine is retried."""
        if not self.on:
            return
        if not self._stopping:  # otherwise the stop is already requested
            handle.stop_recording()
        self._reported = handle.recording
        self._arguments, self._next, self._stopping = None, None, False
        self._report(replace(self._news, ended=f"the engine gave up: {reason}"))

    def on_recorded(self, news: RecordingProgress) -> bool:
        """Handle an engine's report; return False if it must not be shown: already reported, or continued elsewhere."""
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
