"""The WebSocket that sends frames to a page and receives the browser's confirmations.

Frames do not travel on Bokeh's WebSocket: its messages need the document's lock, name models, and arrive in order with
all other messages. A page opens PATH below the server's prefix and first sends `page KEY`; only the page has this key
(app/server/page_ids.py binds the page to its browser). The server then sends frames, and the browser answers each with
`frame SOURCE NUMBER SECONDS` when it has painted it. A page has one such connection; a later one replaces it. Without a
connection, app/tab/stream.py writes frames as data of a source, which Bokeh draws.

A frame consists of the length of its head (4 bytes, little-endian), the head as JSON (the source, its figures, its
columns), then all numbers as float64 and the arrays of bytes. Each part begins at a multiple of ALIGNED bytes.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from array import array
from asyncio import sleep
from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from bokeh.document import Document
from bokeh.server.tornado import BokehTornado
from tornado.httputil import HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from app.server import routes
from app.server.connections import PATIENCE, SMALLEST, Allowance
from app.upstream.internals import unread_bytes, write_frame

PATH = "/frames"
ALIGNED = 8  # bytes
BINARY = 0x2  # opcode of binary WebSocket frames
# Bytes that may wait for a browser, in addition to AHEAD messages: more than any window permits to be in flight.
UNREAD = 8 * 2**20
AHEAD = 8
LONGEST = 120  # characters of a message from a browser
PING = 20.0  # seconds between two pings of a silent browser
KEY_BYTES = 32
HELLO = re.compile(r"page ([\w-]{43})", re.ASCII)
CONFIRMATION = re.compile(r"frame ([\w-]{1,64}) (-?\d{1,15}) (\d{1,6}(?:\.\d{1,9})?)", re.ASCII)
BROKEN, REPLACED, GONE = 4400, 4409, 4410  # close codes

log = logging.getLogger(__name__)


class PaintListener(Protocol):
    """The receiver of confirmations for the frames of one source."""

    @property
    def document(self) -> Document | None:
        """The document of the source."""

    def confirm(self, number: int, seconds: float) -> None:
        """Record that the browser painted frame `number` in `seconds`; on the loop, without the document's lock."""

    def lost(self) -> None:
        """Handle the end of the connection, which may lose frames in flight; on the loop, without the lock."""


_listeners: WeakValueDictionary[str, PaintListener] = WeakValueDictionary()
_pages: WeakValueDictionary[str, Document] = WeakValueDictionary()  # by key
_keys: WeakKeyDictionary[Document, str] = WeakKeyDictionary()
_sockets: WeakKeyDictionary[Document, FrameSocket] = WeakKeyDictionary()


def listen(source: str, listener: PaintListener) -> None:
    """Register `listener` for the source with this id, until it is garbage-collected."""
    _listeners[source] = listener


def key_of(document: Document) -> str:
    """Return the secret with which the page of `document` opens its connection."""
    key = _keys.get(document)
    if key is None:
        key = _keys[document] = secrets.token_urlsafe(KEY_BYTES)
        _pages[key] = document
    return key


def connected(document: Document) -> bool:
    """Return True if the page of `document` has a connection for frames."""
    return document in _sockets


def pack(source: str, figures: Sequence[str], columns: Mapping[str, Any]) -> bytes:
    """Return the message of one frame: `columns` of one row, to be drawn in `figures` (ids).

    A value in the row is a number, a list of numbers, or an array of uint8; TypeError for an array of another dtype.
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
    """Return the head of a message, the same for all frames of a source until its array sizes change."""
    head = json.dumps({"source": source, "figures": figures, "columns": kinds}).encode()
    part = len(head).to_bytes(4, "little") + head
    return part + bytes(-len(part) % ALIGNED)


def number_of(message: bytes) -> tuple[str, int]:
    """Return the source's id and the frame number of a message of `pack`, in which the number is the first column."""
    end = 4 + int.from_bytes(message[:4], "little")
    head = json.loads(message[4:end])
    begin = end + -end % ALIGNED
    return head["source"], int(np.frombuffer(message, "<f8", 1, begin)[0])


def send(document: Document, message: bytes) -> None:
    """Send `message` to the browser that shows `document`, without the document's lock and without blocking."""
    socket = _sockets.get(document)
    if socket is not None:
        socket.deliver(message)


class FrameSocket(WebSocketHandler):
    """A page's connection for frames."""

    max_message_size = LONGEST  # type: ignore[assignment] # Tornado reads it as a property
    ping_interval = PING  # type: ignore[assignment]

    def initialize(self) -> None:
        """Create the connection, which has no page yet."""
        self._document: Document | None = None
        self._allowance = Allowance()

    def check_origin(self, origin: str) -> bool:
        """Accept every origin: app/server/access.py has compared it with the allow-list."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """Close the connection if the page's key does not arrive within PATIENCE seconds."""
        self.set_nodelay(True)
        IOLoop.current().call_later(PATIENCE, self._expect_page)

    def _expect_page(self) -> None:
        if self._document is None:
            self.close(BROKEN, "no page was named")

    def on_message(self, message: str | bytes) -> Awaitable[None] | None:
        """Handle the key or a confirmation; any other message closes the connection."""
        pause = self._allowance.spend(SMALLEST)
        text = message if isinstance(message, str) else ""
        if self._document is None:
            self._join(text)
        elif not take(self._document, text):
            self.close(BROKEN, "a confirmation must be: frame, a source, a number, seconds")
        return sleep(pause) if pause else None

    def _join(self, text: str) -> None:
        found = HELLO.fullmatch(text)
        document = _pages.get(found[1]) if found is not None else None
        if document is None or not _is_shown(document):
            self.close(BROKEN if found is None else GONE, "there is no such page")
            return
        older, _sockets[document], self._document = _sockets.get(document), self, document
        if older is not None:
            older.close(REPLACED, "the page has opened another connection")

    def on_close(self) -> None:
        """Notify the page's sources, unless a later connection has replaced this one."""
        document = self._document
        if document is None or _sockets.get(document) is not self:
            return
        del _sockets[document]
        for listener in list(_listeners.values()):
            if listener.document is document:
                listener.lost()

    def deliver(self, message: bytes) -> None:
        """Send a frame immediately."""
        protocol: Any = self.ws_connection
        if protocol is None or protocol.is_closing():
            return
        if self._document is None or not _is_shown(self._document):  # closed by the server, for example by a log-out
            self.close(GONE, "the page was closed")
            return
        write_at_once(protocol, message, UNREAD + AHEAD * len(message))


def _is_shown(document: Document) -> bool:
    """Return True if a browser is connected to the page of `document`."""
    context = document.session_context
    session = context.session if context is not None else None
    return session is not None and session.connection_count > 0


def write_at_once(protocol: Any, message: bytes, most: int) -> None:
    """Write `message` without the task that Tornado's write_message creates to await each write.

    A browser that confirms messages without reading them would make the server buffer all of them: its connection is
    closed when more than `most` bytes are waiting.
    """
    try:
        write_frame(protocol, BINARY, message)
        if (waiting := unread_bytes(protocol)) > most:
            log.warning("gave up a connection that does not read: %d bytes wait for it", waiting)
            protocol.stream.close()
    except (StreamClosedError, WebSocketClosedError):
        log.debug("a browser has gone while something was sent to it")


def take(document: Document, text: str) -> bool:
    """Confirm the frame that `text` names, if it belongs to the page of `document`; return False for malformed text."""
    found = CONFIRMATION.fullmatch(text)
    if found is None:
        return False
    listener = _listeners.get(found[1])
    if listener is not None and listener.document is document:  # None after the lab's tab was closed
        listener.confirm(int(found[2]), float(found[3]))
    return True


def install() -> None:
    """Serve PATH below the server's prefix. Further calls have no effect."""

    def route(server: BokehTornado, request: HTTPServerRequest) -> Any:
        """Return the delegate of PATH."""
        return server.get_handler_delegate(request, FrameSocket) if request.path == server.prefix + PATH else None

    routes.add("frames", route)
