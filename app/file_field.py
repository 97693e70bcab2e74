"""A field for a file that somebody brings: it comes in pieces, and no more of it is kept than it may have bytes."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

PIECE = 2**20  # bytes of a file in one message, which app.message_bounds bounds
MOST_NAME = 255  # characters


class FileField(pmui.FileInput):
    """The library's field for one file, whose browser may not be ours: pieces beyond `max_file_size` are dropped."""

    def __init__(self, max_file_size: int, **options: Any) -> None:
        super().__init__(max_file_size=max_file_size, chunk_size=PIECE, **options)
        self._name, self._pieces, self._came = "", 0, 0

    def _handle_msg(self, msg: Any) -> None:
        """A piece, or the end: what is no message of the field's own is dropped, with what came before."""
        if not isinstance(msg, dict) or msg.get("status") not in ("initializing", "upload_event", "finished"):
            return
        if msg["status"] == "upload_event" and not self._fits(msg):
            self._begin("")
            return
        super()._handle_msg(msg)
        if msg["status"] != "upload_event":
            self._begin("")

    def _fits(self, piece: dict[str, Any]) -> bool:
        """Whether `piece` is the next one of one file that is not too large."""
        name, number, data = piece.get("name"), piece.get("chunk"), piece.get("data")
        if not isinstance(name, str) or len(name) > MOST_NAME or not isinstance(data, bytes | bytearray | memoryview):
            return False
        if number == 1:
            self._begin(name)
        whole = piece.get("total_chunks")
        self._pieces += 1
        self._came += len(data)
        return (
            (name, number) == (self._name, self._pieces)
            and type(whole) is int
            and whole >= self._pieces
            and self._came <= self.max_file_size
            and isinstance(piece.get("mime_type"), str)
        )

    def _begin(self, name: str) -> None:
        """Forget what came of another file."""
        self._name, self._pieces, self._came = name, 0, 0
        self._file_buffer.clear()
        self._buffer.clear()
