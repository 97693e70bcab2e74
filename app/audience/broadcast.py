"""Sends the same pictures and words to many viewers: the newest wins, and one message is under way to each.

A message is binary: the length of its head (4 bytes, little-endian), the head (JSON), then a picture (PNG or WebP), or
nothing where the viewer has it already. The head has the message's `number`, `at`, when the picture was looked at
(seconds of the monotonic clock), and the `state`, where that is another than the viewer has.

A viewer answers "ok <number>" once it has painted, and gets whatever is the newest then. So a slow one misses pictures,
nothing queues anywhere, and nobody waits for anybody else. Each message is packed once, however many get it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

UNKNOWN, ENDED, BUSY, FULL, BROKEN = 4404, 4410, 4429, 4503, 4400  # why a WebSocket was closed, beside RFC 6455's own


class Viewer(Protocol):
    """One who looks on: a WebSocket of this server."""

    def deliver(self, message: bytes) -> None:
        """Write `message`; never waits."""

    def dismiss(self, code: int, why: str) -> None:
        """Close the connection; code: one of those above; why: in words of at most 120 bytes."""


@dataclass
class ViewerProgress:
    """What one viewer has: numbers of the picture and of the state, and of the message that it has not confirmed."""

    picture: int
    state: int = 0
    under_way: int = 0


@dataclass
class Counts:
    """Pictures that were sent, and that viewers missed because newer ones had come, since the server's start."""

    sent: int = 0
    dropped: int = 0


class Broadcast:
    """What all viewers of one room are shown. On the server's loop alone."""

    def __init__(self, counts: Counts | None = None) -> None:
        self.counts = counts or Counts()
        self._progress: dict[Viewer, ViewerProgress] = {}
        self._picture, self._at = b"", 0.0
        self._pictures = self._states = self._number = 0  # so many came; number of the last message
        self._state: dict[str, Any] = {}
        self._packed: dict[tuple[bool, bool], tuple[int, bytes]] = {}  # of what is shown now, with picture, with state

    def __len__(self) -> int:
        return len(self._progress)

    @property
    def ready(self) -> bool:
        """Whether somebody could be sent a picture now."""
        return any(not progress.under_way for progress in self._progress.values())

    def join(self, viewer: Viewer) -> None:
        """Let one more look on, from what is shown now."""
        self._progress[viewer] = ViewerProgress(max(0, self._pictures - 1))
        self._send(viewer)

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer; harmless if it never came."""
        self._progress.pop(viewer, None)

    def confirm(self, viewer: Viewer, number: int) -> bool:
        """The viewer has painted message `number`, and gets what came since; False if it was sent no such message."""
        progress = self._progress.get(viewer)
        if progress is None or not number or number != progress.under_way:
            return False
        progress.under_way = 0
        self._send(viewer)
        return True

    def show_picture(self, picture: bytes, at: float) -> None:
        """Show a picture (PNG or WebP) that was looked at at the moment `at` of the monotonic clock."""
        self._picture, self._at = picture, at
        self._pictures += 1
        self._tell()

    def show_state(self, state: Mapping[str, Any]) -> None:
        """Show these words, if they are others than before. What is in `state` must be fit for JSON."""
        if state != self._state:
            self._state = dict(state)
            self._states += 1
            self._tell()

    def end(self, code: int, why: str) -> None:
        """Send everybody away."""
        viewers = list(self._progress)
        self._progress.clear()
        for viewer in viewers:
            viewer.dismiss(code, why)

    def _tell(self) -> None:
        self._packed.clear()
        for viewer in list(self._progress):
            self._send(viewer)

    def _send(self, viewer: Viewer) -> None:
        """Send what the viewer has not, unless it has yet to confirm what it was sent before."""
        progress = self._progress[viewer]
        picture, state = self._pictures > progress.picture, self._states > progress.state
        if progress.under_way or not (picture or state):
            return
        if picture:
            self.counts.sent += 1
            self.counts.dropped += self._pictures - progress.picture - 1
        progress.under_way, message = self._message(picture, state)
        progress.picture, progress.state = self._pictures, self._states
        viewer.deliver(message)

    def _message(self, picture: bool, state: bool) -> tuple[int, bytes]:
        """Return (number, message) of what is shown now."""
        if (picture, state) not in self._packed:
            self._number += 1
            head: dict[str, Any] = {"number": self._number, "at": self._at}
            if state:
                head["state"] = self._state
            text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
            message = len(text).to_bytes(4, "little") + text + (self._picture if picture else b"")
            self._packed[picture, state] = self._number, message
        return self._packed[picture, state]
