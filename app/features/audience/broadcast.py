"""Broadcast of pictures and text to many viewers, with at most one unconfirmed message per viewer.

A message is binary: the length of its header (4 bytes, little-endian), the header (JSON), and a picture (PNG or WebP),
which is empty if the viewer already has the current one. The header contains the message's `number`, the capture time
`at` (seconds of the monotonic clock), and the `state` if it changed since the viewer's last message. A message with
`answer` alone answers a viewer's vote and is not confirmed.

A viewer replies "ok <number>" after painting and then receives the latest picture and state. A slow viewer skips
pictures, so no queue grows and viewers do not delay each other. Each message is serialized once for all viewers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

UNKNOWN, ENDED, BUSY, FULL, BROKEN = 4404, 4410, 4429, 4503, 4400  # close codes, in addition to those of RFC 6455


class Viewer(Protocol):
    """A connected client: a WebSocket of this server."""

    def deliver(self, message: bytes) -> None:
        """Write `message` without blocking."""

    def dismiss(self, code: int, why: str) -> None:
        """Close the connection with one of the codes above; why: the reason, at most 120 bytes."""


@dataclass
class ViewerProgress:
    """The numbers of a viewer's picture and state, and of its unconfirmed message (0 if all are confirmed)."""

    picture: int
    state: int = 0
    under_way: int = 0


@dataclass
class Counts:
    """Numbers of pictures sent, and of pictures that viewers skipped for later ones, since the server started."""

    sent: int = 0
    dropped: int = 0


def packed(head: Mapping[str, Any], picture: bytes = b"") -> bytes:
    """Return a message with this header."""
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "little") + text + picture


class Broadcast:
    """The viewers of one room and the content that they display. Used only on the server's event loop."""

    def __init__(self, counts: Counts | None = None) -> None:
        self.counts = counts or Counts()
        self._progress: dict[Viewer, ViewerProgress] = {}
        self._picture, self._at = b"", 0.0
        self._pictures = self._states = self._number = 0  # numbers of pictures, of states, and of the last message
        self._state: dict[str, Any] = {}
        self._packed: dict[tuple[bool, bool], tuple[int, bytes]] = {}  # current (number, message) by parts

    def __len__(self) -> int:
        return len(self._progress)

    def __contains__(self, viewer: object) -> bool:
        return viewer in self._progress

    @property
    def ready(self) -> bool:
        """Whether at least one viewer has no unconfirmed message, so that a picture could be sent now."""
        return any(not progress.under_way for progress in self._progress.values())

    def join(self, viewer: Viewer) -> None:
        """Add a viewer and send it the current content."""
        self._progress[viewer] = ViewerProgress(max(0, self._pictures - 1))
        self._send(viewer)

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer; unknown viewers are ignored."""
        self._progress.pop(viewer, None)

    def confirm(self, viewer: Viewer, number: int) -> bool:
        """Record that the viewer has painted message `number` and send later content; return False if unexpected."""
        progress = self._progress.get(viewer)
        if progress is None or not number or number != progress.under_way:
            return False
        progress.under_way = 0
        self._send(viewer)
        return True

    def show_picture(self, picture: bytes, at: float) -> None:
        """Broadcast a picture (PNG or WebP) captured at the time `at` of the monotonic clock."""
        self._picture, self._at = picture, at
        self._pictures += 1
        self._tell()

    def show_state(self, state: Mapping[str, Any]) -> None:
        """Broadcast the page's text and values if they have changed. `state` must be serializable as JSON."""
        if state != self._state:
            self._state = dict(state)
            self._states += 1
            self._tell()

    def end(self, code: int, why: str) -> None:
        """Disconnect all viewers."""
        viewers = list(self._progress)
        self._progress.clear()
        for viewer in viewers:
            viewer.dismiss(code, why)

    def _tell(self) -> None:
        self._packed.clear()
        for viewer in list(self._progress):
            self._send(viewer)

    def _send(self, viewer: Viewer) -> None:
        """Send changed content to the viewer unless it has an unconfirmed message."""
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
        """Return (number, message) for the current content, serialized once."""
        if (picture, state) not in self._packed:
            self._number += 1
            head: dict[str, Any] = {"number": self._number, "at": self._at}
            if state:
                head["state"] = self._state
            self._packed[picture, state] = self._number, packed(head, self._picture if picture else b"")
        return self._packed[picture, state]
