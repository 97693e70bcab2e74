"""Frames past Bokeh, on the WebSocket that a page has already: one binary message each, and a line of text back.

A message of Bokeh's costs in proportion to nothing a frame needs: a table of models, JSON of three parts, the
document's lock at both ends. This one is a mark, the length of a head, the head (JSON), 64-bit floats, and the bytes of
arrays, each part at a multiple of eight bytes; numbers are little-endian. static/bokeh_patches.js takes it out of what
Bokeh hears. The answer is "frame <id of the source> <number> <seconds>", taken out here before Bokeh decodes it.

Bokeh writes a message of its own in one go (app/bokeh_messages.py), so nothing comes between its parts.
"""

from __future__ import annotations

import json
import logging
import re
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
from bokeh.document import Document
from bokeh.server.views import ws
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from app.server.connections import session_of

MARK = bytes.fromhex("8f1d6ec2a5b04b7e9c3342d07ae915f6")  # begins no message of Bokeh's
ALIGNED = 8  # bytes
BINARY = 0x2  # of a WebSocket's frames
UNREAD = 8 * 2**20  # bytes that may wait for a browser, and that many frames: more than any window lets be under way
AHEAD = 8
PREFIX, LONGEST = "frame ", 120  # characters
CONFIRMATION = re.compile(r"frame ([\w-]{1,64}) (-?\d{1,15}) (\d{1,6}(?:\.\d{1,9})?)", re.ASCII)
INSTALLED = "fieldlab_frames"

log = logging.getLogger(__name__)


class PaintListener(Protocol):
    """Hears which frames of its source are painted."""

    @property
    def document(self) -> Document | None:
        """The document that the source is in."""

    def confirm(self, number: int, seconds: float) -> None:
        """The browser has painted frame `number`, taking `seconds`. On the loop, without the document's lock."""


_listeners: WeakValueDictionary[str, PaintListener] = WeakValueDictionary()


def listen(source: str, listener: PaintListener) -> None:
    """Let `listener`, as long as it lives, hear of the frames of the source of that id."""
    _listeners[source] = listener


def pack(source: str, figures: Sequence[str], columns: Mapping[str, Any]) -> bytes:
    """Return the message of one frame: `columns` of one row, to be drawn in `figures` (ids).

    What is in a row is a number, a list of numbers, or an array of bytes.
    """
    kinds: list[tuple[str, Any]] = []
    floats = array("d")
    parts: list[Any] = []
    for name, (value,) in columns.items():
        if isinstance(value, np.ndarray):
            if value.dtype != np.uint8:
                raise TypeError(f"column {name!r} must have the dtype uint8, not {value.dtype}")
            kinds.append((name, value.shape))
            parts += [np.ascontiguousarray(value), bytes(-value.nbytes % ALIGNED)]
        elif isinstance(value, list):
            kinds.append((name, len(value)))
            floats.extend(value)
        else:
            kinds.append((name, None))
            floats.append(value)
    return b"".join((_head(source, tuple(figures), tuple(kinds)), np.asarray(floats, "<f8").tobytes(), *parts))


@lru_cache(maxsize=256)
def _head(source: str, figures: tuple[str, ...], kinds: tuple[tuple[str, Any], ...]) -> bytes:
    """What a message begins with, the same for all frames of a source until its pictures have another size."""
    head = json.dumps({"source": source, "figures": figures, "columns": kinds}).encode()
    part = MARK + len(head).to_bytes(4, "little") + head
    return part + bytes(-len(part) % ALIGNED)


def number_of(message: bytes) -> tuple[str, int]:
    """Return the id of the source and the number of the frame that `pack` made `message` of: it is the first column."""
    end = len(MARK) + 4
    length = int.from_bytes(message[len(MARK) : end], "little")
    head = json.loads(message[end : end + length])
    begin = end + length + -(end + length) % ALIGNED
    return head["source"], int(np.frombuffer(message, "<f8", 1, begin)[0])


def send(document: Document, message: bytes) -> None:
    """Write `message` to every browser that shows `document`. It needs no lock, and waits for nobody.

    One that confirms frames and does not read them would have all of them kept here: it is given up.
    """
    context = document.session_context
    session = context.session if context is not None else None
    for connection in session._subscribed_connections if session is not None else ():  # noqa: SLF001 as Bokeh sends
        protocol = connection._socket.ws_connection  # noqa: SLF001 as above
        if protocol is None or protocol.is_closing():
            continue
        try:
            protocol._write_frame(True, BINARY, message)  # noqa: SLF001 write_message makes a task, to say when it is written
            if (waiting := unread(protocol)) > UNREAD + AHEAD * len(message):
                log.warning("gave up a connection that does not read: %d bytes of frames wait for it", waiting)
                protocol.stream.close()
        except (StreamClosedError, WebSocketClosedError):
            log.debug("a browser has gone while a frame was sent to it")


def unread(protocol: Any) -> int:
    """How many bytes wait for the browser of a WebSocket; none once it has gone, which a write may find out."""
    return len(protocol.stream._write_buffer or b"")  # noqa: SLF001 Tornado tells it nowhere


def install() -> None:
    """Have every WebSocket of this process take confirmations out of its messages. Harmless if called twice."""
    if getattr(ws.WSHandler, INSTALLED, False):
        return
    theirs = ws.WSHandler.on_message

    def on_message(handler: ws.WSHandler, fragment: str | bytes) -> Any:
        """Take the place of Bokeh's own."""
        if isinstance(fragment, str) and fragment.startswith(PREFIX):
            return take(handler, fragment)
        return theirs(handler, fragment)

    ws.WSHandler.on_message = on_message
    setattr(ws.WSHandler, INSTALLED, True)


def take(handler: ws.WSHandler, text: str) -> None:
    """Confirm the frame that `text` names, if it is of the page that this WebSocket belongs to."""
    found = CONFIRMATION.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        handler._protocol_error("a confirmation must be: frame, a source, a number, seconds")  # noqa: SLF001 see message_bounds
        return
    listener = _listeners.get(found[1])
    if listener is None or handler.connection is None:
        return
    document = listener.document  # None once the lab's tab is closed
    session = session_of(handler.connection)
    if document is not None and session is not None and document is session.document:
        listener.confirm(int(found[2]), float(found[3]))
