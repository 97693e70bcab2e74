"""Connection limits: time until a request is complete, number of connections, bytes per second of a page.

* A request's head, and its body, must be complete within PATIENCE; Tornado's default for a head is one hour. The clock
  starts when the connection is accepted or the previous request was answered, so a client that sends single bytes gains
  nothing. WebSockets are exempt: pings detect dead ones.
* HEADROOM of the process's file descriptors (`ulimit -n`) are reserved for open pages, whose exports and engines need
  files. A connection above that gets 503 immediately. Without this limit `accept` fails and newcomers time out.
* A page may send BURST bytes, then RATE bytes a second over its WebSocket. Beyond that the server pauses reading from
  this socket until the bucket is filled again. Reading and decoding a message of 4 MiB blocks the loop for about 0.1 s,
  in which other pages get no frame. An upload of 16 MiB, in pieces of 1.4 MB, takes about 4 s.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from bokeh.server.connection import ServerConnection
from bokeh.server.session import ServerSession
from bokeh.server.views import ws
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError

from app.server.page_ids import GONE

PATIENCE = 15.0  # s
HEADROOM = 64  # descriptors; at most a quarter of the limit
LINGER = 1.0  # s in which the client of a refused connection may read the answer
FULL = "This server has no free connection. Try again in a few seconds.\n"
REFUSAL = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 5\r\nRefresh: 5\r\n"
    f"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: {len(FULL)}\r\n\r\n{FULL}"
).encode()
BURST, RATE = 8 * 2**20, 4 * 2**20  # bytes; bytes a second
SMALLEST = 1024  # bytes, the least that is charged for a message
MARK = "fieldlab_connections"
log = logging.getLogger(__name__)


def allowed_descriptors() -> int | None:
    """Return this process's limit of file descriptors, None if the system has none."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


class Allowance:
    """A token bucket of `burst` bytes that is refilled with `rate` bytes a second."""

    def __init__(self, burst: float = BURST, rate: float = RATE, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._rate, self._clock = burst, rate, clock
        self._left, self._since = burst, clock()

    def spend(self, size: float) -> float:
        """Charge `size` bytes and return the pause until the next message, in s; 0.0 while the bucket is not empty."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._since) * self._rate) - size
        self._since = now
        return max(0.0, -self._left / self._rate)


def install() -> None:
    """Set these limits for every connection of this process. Harmless if called twice."""
    if getattr(HTTPServer, MARK, False):
        return
    limit = allowed_descriptors()
    _limit_http(None if limit is None else limit - min(HEADROOM, limit // 4))
    _limit_messages()
    setattr(HTTPServer, MARK, True)


def _limit_http(most: int | None) -> None:
    """Limit the time of a request's head and body, and the number of descriptors to `most`."""
    serve = HTTPServer.handle_stream

    def handle_stream(server: HTTPServer, stream: IOStream, address: tuple[Any, ...]) -> Awaitable[None] | None:
        """Replacement of Tornado's method, called for each accepted connection."""
        server.conn_params.header_timeout = server.conn_params.body_timeout = PATIENCE
        number = stream.socket.fileno()  # the system assigns the lowest free number: all below are in use
        if most is None or number < most:
            return serve(server, stream, address)
        log.warning("refused a connection: %d file descriptors are in use", number)
        if number < most + HEADROOM // 4:
            return _refuse(stream)
        stream.close()
        return None

    HTTPServer.handle_stream = handle_stream  # type: ignore[assignment, method-assign] # TCPServer's may be a coroutine


async def _refuse(stream: IOStream) -> None:
    """Answer a connection with 503; close it after its request was read, or after LINGER."""
    with suppress(StreamClosedError, TimeoutError):
        async with asyncio.timeout(LINGER):
            await stream.write(REFUSAL)
            await stream.read_until(b"\r\n\r\n")  # closing with unread bytes would reset the connection
    stream.close()


def _limit_messages() -> None:
    """Limit the rate of bytes from each page."""
    theirs = ws.WSHandler.on_message
    allowances: WeakKeyDictionary[Any, Allowance] = WeakKeyDictionary()  # by session: reconnecting does not refill

    def on_message(handler: ws.WSHandler, fragment: str | bytes) -> Awaitable[None] | None:
        """Replacement of Bokeh's method; Tornado does not read from the connection until the result is done."""
        connection = handler.connection
        sender = session_of(connection) if connection is not None else handler
        if sender is None:  # the page was discarded while the message was on its way
            handler.close(GONE, "the page was closed")
            return None
        pause = allowances.setdefault(sender, Allowance()).spend(max(SMALLEST, len(fragment)))
        handled: Awaitable[None] | None = theirs(handler, fragment)
        return _and_pause(handled, pause) if pause else handled

    ws.WSHandler.on_message = on_message


def session_of(connection: ServerConnection) -> ServerSession | None:
    """Return the session of a connection, None once Bokeh has discarded it: its property fails an assertion then."""
    try:
        return connection.session
    except AssertionError:
        return None


async def _and_pause(handled: Awaitable[None] | None, pause: float) -> None:
    """Handle a message, then wait `pause` seconds."""
    if handled is not None:
        await handled
    await asyncio.sleep(pause)
