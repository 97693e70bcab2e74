"""Limits of connections: how long one may stay silent, how many there are, and how fast one may send.

* A request's head, and its body, must be complete within PATIENCE; Tornado waits an hour for a head. The clock starts
  when the connection is accepted, or when the request before it was answered, so a client that sends one byte now and
  then gains nothing. WebSockets are exempt: they have pings.
* Of the files and connections that the system allows this process (`ulimit -n`), HEADROOM are kept for the pages that
  are open: their exports and engines need files, too. A new connection above that is answered with 503 at once.
  Without that limit the system stops accepting connections, and newcomers wait until they give up.
* A page may send BURST bytes at once and RATE bytes a second over its WebSocket. Beyond that the server stops reading
  from it until the debt is paid off, and the browser's own buffers fill. Reading and decoding a message of 4 MiB holds
  the loop for about 0.1 s, in which no other page gets a frame. A file of 16 MiB, in pieces of 1.4 MB, takes some 4 s.
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

from bokeh.server.views import ws
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError

PATIENCE = 15.0  # s
HEADROOM = 64  # files and connections; a quarter of them all where there are fewer than 256
LINGER = 1.0  # s for which a refused connection may read its answer
FULL = "This server has as many connections as it may have. Try again in some seconds.\n"
REFUSAL = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 5\r\nRefresh: 5\r\n"
    f"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: {len(FULL)}\r\n\r\n{FULL}"
).encode()
BURST, RATE = 8 * 2**20, 4 * 2**20  # bytes; bytes a second
SMALLEST = 1024  # bytes that any message counts for
MARK = "fieldlab_connections"
log = logging.getLogger(__name__)


def allowed_descriptors() -> int | None:
    """Return how many files and connections this process may have; None where the system sets no limit."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


class Allowance:
    """A token bucket: `burst` bytes at once, `rate` bytes a second."""

    def __init__(self, burst: float = BURST, rate: float = RATE, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._rate, self._clock = burst, rate, clock
        self._left, self._since = burst, clock()

    def spend(self, size: float) -> float:
        """Take `size` bytes, and return after how many seconds the next may come: 0.0 while there are some left."""
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
        """Take the place of Tornado's own, for each connection that was accepted."""
        server.conn_params.header_timeout = server.conn_params.body_timeout = PATIENCE
        number = stream.socket.fileno()  # the lowest that was free: that many are in use
        if most is None or number < most:
            return serve(server, stream, address)
        log.warning("refused a connection: %d files and connections are in use", number)
        if number < most + HEADROOM // 4:
            return _refuse(stream)
        stream.close()
        return None

    HTTPServer.handle_stream = handle_stream  # type: ignore[method-assign]


async def _refuse(stream: IOStream) -> None:
    """Answer a connection with 503, and close it once its request was read, or LINGER has passed."""
    with suppress(StreamClosedError, TimeoutError):
        async with asyncio.timeout(LINGER):
            await stream.write(REFUSAL)
            await stream.read_until(b"\r\n\r\n")  # what is unread when a connection is closed resets it
    stream.close()


def _limit_messages() -> None:
    """Limit how fast each page may send."""
    theirs = ws.WSHandler.on_message
    allowances: WeakKeyDictionary[Any, Allowance] = WeakKeyDictionary()  # by session: another connection has no other

    def on_message(handler: ws.WSHandler, fragment: str | bytes) -> Awaitable[None] | None:
        """Take the place of Bokeh's own; Tornado reads no more of a connection until what this returns is done."""
        sender = handler.connection.session if handler.connection is not None else handler
        pause = allowances.setdefault(sender, Allowance()).spend(max(SMALLEST, len(fragment)))
        handled: Awaitable[None] | None = theirs(handler, fragment)
        return _and_pause(handled, pause) if pause else handled

    ws.WSHandler.on_message = on_message


async def _and_pause(handled: Awaitable[None] | None, pause: float) -> None:
    """Handle a message, then wait so many seconds."""
    if handled is not None:
        await handled
    await asyncio.sleep(pause)
