"""The frame channel: format of messages, joining a page, recipients of frames, and accepted confirmations."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from app.server import routes
from app.tab import frame_channel
from app.tab.frame_channel import BROKEN, GONE, REPLACED, FrameSocket, number_of, pack


def unpacked(message: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the columns of a message, decoded byte by byte according to the format."""
    (length,) = struct.unpack_from("<I", message)
    head = json.loads(message[4 : 4 + length])
    at = math.ceil((4 + length) / 8) * 8
    columns: dict[str, Any] = {}
    for name, kind in head["columns"]:
        if not isinstance(kind, list):
            found = struct.unpack_from(f"<{1 if kind is None else kind}d", message, at)
            columns[name] = found[0] if kind is None else list(found)
            at += 8 * len(found)
    for name, kind in head["columns"]:
        if isinstance(kind, list):
            columns[name] = np.array(list(message[at : at + math.prod(kind)]), int).reshape(kind)
            at = math.ceil((at + math.prod(kind)) / 8) * 8
    assert at == len(message)
    return head, columns


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (16, 8), (0, 4)])
def test_a_message_has_every_column_as_it_is(shape):
    levels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    columns = {
        "number": [12], "low": [-0.5], "u": [levels], "step": [[]], "origin": [[1e300, -0.25]], "v": [levels[::-1]],
        "high": [math.inf], "none": [math.nan],
    }  # fmt: skip
    message = pack("p1234", ["p7", "p8"], columns)
    head, found = unpacked(message)
    assert (head["source"], head["figures"]) == ("p1234", ["p7", "p8"])
    assert list(dict(head["columns"])) == list(columns)
    np.testing.assert_array_equal(found["u"], levels)
    np.testing.assert_array_equal(found["v"], levels[::-1])
    assert (found["low"], found["step"], found["origin"], found["high"]) == (-0.5, [], [1e300, -0.25], math.inf)
    assert math.isnan(found["none"])
    assert number_of(message) == ("p1234", 12)


def test_only_bytes_are_pictures():
    with pytest.raises(TypeError, match="column 'u' must have the dtype uint8, not float32"):
        pack("p1", [], {"number": [1], "u": [np.zeros((2, 2), np.float32)]})


class Source:
    """A frame source that records confirmed frames and the loss of the connection."""

    def __init__(self, document: Document | None) -> None:
        self.document, self.heard, self.losses = document, [], 0

    def confirm(self, number: int, seconds: float) -> None:
        self.heard.append((number, seconds))

    def lost(self) -> None:
        self.losses += 1


class Page:
    """A page that is open in a browser, with a frame source "p1"."""

    def __init__(self) -> None:
        self.document = Document()
        self.session = SimpleNamespace(connection_count=1)
        context = SimpleNamespace(session=self.session)
        self.document._session_context = lambda: context
        self.source = Source(self.document)
        frame_channel.listen("p1", self.source)


def served(test: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test with the address of the frame channel on a server of its own."""

    async def run() -> None:
        sockets = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(Application([(frame_channel.PATH, FrameSocket)]))
        server.add_sockets(sockets)
        address = f"ws://127.0.0.1:{sockets[0].getsockname()[1]}{frame_channel.PATH}"
        await asyncio.wait_for(test(address), 60)
        server.stop()
        await server.close_all_connections()

    return lambda: asyncio.run(run())


async def connection(address: str, first: str | bytes) -> WebSocketClientConnection:
    """Return a connection that has sent its first message."""
    socket = await websocket_connect(address)
    await socket.write_message(first, binary=isinstance(first, bytes))
    return socket


async def joined(address: str, page: Page) -> WebSocketClientConnection:
    """Return a connection that has joined the page."""
    before = frame_channel._sockets.get(page.document)
    socket = await connection(address, f"page {frame_channel.key_of(page.document)}")
    await until(lambda: frame_channel._sockets.get(page.document) not in (None, before))
    return socket


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110 - conditions of any kind
        await asyncio.sleep(0.01)


async def closing(socket: WebSocketClientConnection) -> int | None:
    """Return the code with which the server closes the connection."""
    while await socket.read_message() is not None:
        pass
    socket.close()
    return socket.close_code


@served
async def test_a_page_receives_its_frames_and_its_source_the_confirmations(address: str) -> None:
    page, other = Page(), Document()
    assert not frame_channel.connected(page.document)
    frame_channel.send(page.document, b"dropped, as nobody is connected")
    socket = await joined(address, page)
    assert frame_channel.connected(page.document)
    frame_channel.send(other, b"of another page")
    frame_channel.send(page.document, b"message")
    assert await socket.read_message() == b"message"
    for text in ("frame p1 7 0.012500", "frame p1 8 0", "frame p1 -1 0"):
        await socket.write_message(text)
    await until(lambda: len(page.source.heard) == 3)
    assert page.source.heard == [(7, 0.0125), (8, 0.0), (-1, 0.0)]
    socket.close()
    await until(lambda: page.source.losses == 1)
    assert not frame_channel.connected(page.document)


@served
async def test_a_newer_connection_replaces_the_older_one_and_nothing_is_lost(address: str) -> None:
    page = Page()
    older = await joined(address, page)
    newer = await joined(address, page)
    assert await closing(older) == REPLACED
    frame_channel.send(page.document, b"message")
    assert await newer.read_message() == b"message"
    assert page.source.losses == 0
    newer.close()


@served
async def test_a_connection_without_the_key_of_a_page_is_closed(address: str) -> None:
    for text in ("frame p1 7 0.1", "", "page ", "page x", b"page", f"page {'x' * 44}", "page " + "é" * 43):
        assert await closing(await connection(address, text)) == BROKEN, text
    assert await closing(await connection(address, f"page {'x' * 43}")) == GONE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_channel, "PATIENCE", 0.05)
        assert await closing(await websocket_connect(address)) == BROKEN  # it says nothing


@served
async def test_a_page_that_no_browser_shows_has_no_frames(address: str) -> None:
    """For example after a log-out, which closes the page's main connection."""
    page = Page()
    socket = await joined(address, page)
    page.session.connection_count = 0
    frame_channel.send(page.document, b"message")
    assert await closing(socket) == GONE
    assert await closing(await connection(address, f"page {frame_channel.key_of(page.document)}")) == GONE


@served
async def test_any_other_message_closes_the_connection(address: str) -> None:
    page = Page()
    for message in ("page p1", b"frame p1 7 0.1", f"frame p1 7 0.{'1' * 4_000_000}"):
        socket = await joined(address, page)
        with suppress(WebSocketClosedError):
            await socket.write_message(message, binary=isinstance(message, bytes))
        await closing(socket)
        assert page.source.heard == []


@pytest.mark.parametrize(
    "text",
    [
        "", "frame ", "frame p1 7", "frame p1 --7 0.1", "frame p1 7 -0.1", "frame p1 7 nan", "frame p1 7 1e9",
        "frame p1 7.5 1", "frame p1 ٧ 0.1", f"frame p1 {'9' * 16} 1", f"frame {'p' * 65} 1 1", "frame p1 7 0.1\n",
        "frame p1 7 0.1 x", 'frame p1" 7 0.1',
    ],
)  # fmt: skip
def test_a_malformed_confirmation_is_refused(text):
    page = Page()
    assert not frame_channel.take(page.document, text)
    assert page.source.heard == []


def test_a_confirmation_of_another_page_or_a_closed_lab_has_no_effect():
    page, stranger = Page(), Source(Document())
    frame_channel.listen("p2", stranger)
    assert frame_channel.take(page.document, "frame p2 7 0.1")
    assert frame_channel.take(page.document, "frame p999 7 0.1")
    page.source.document = None  # of a lab in a hidden tab
    assert frame_channel.take(page.document, "frame p1 7 0.1")
    assert stranger.heard == page.source.heard == []


class Wire:
    """The protocol of a WebSocket. wrong: the exception raised by writes."""

    def __init__(self, wrong: Exception | None = None, closing: bool = False) -> None:
        self.stream, self.closed = self, False
        self._write_buffer: bytes | None = b""
        self.wrong, self.closing = wrong, closing

    def is_closing(self) -> bool:
        return self.closing or self.closed

    def close(self) -> None:
        self.closed = True

    def _write_frame(self, last: bool, kind: int, data: bytes) -> None:
        assert (last, kind) == (True, 2)
        if self.wrong:
            raise self.wrong
        self._write_buffer = self._write_buffer + data if self._write_buffer is not None else None


def deliver(wire: Wire, message: bytes) -> None:
    """Deliver a message to a page's connection with this protocol."""
    FrameSocket.deliver(SimpleNamespace(ws_connection=wire, _document=Page().document), message)


def test_a_browser_that_is_found_gone_while_it_is_written_to_harms_nobody():
    """Tornado then drops the buffer of pending data."""
    gone = Wire()
    gone._write_buffer = None
    for wire in (Wire(StreamClosedError()), Wire(closing=True), gone):
        deliver(wire, b"message")
        assert not wire._write_buffer


def test_a_browser_that_confirms_frames_and_does_not_read_them_is_given_up():
    wire, frame = Wire(), bytes(2**20)
    for _ in range(8):  # as many as may be in flight
        deliver(wire, frame)
    assert not wire.closed
    for _ in range(100):
        deliver(wire, frame)
    assert wire.closed
    assert len(wire._write_buffer) <= 17 * 2**20


def test_the_address_lies_below_the_prefix(monkeypatch):
    monkeypatch.setattr(routes, "_routes", {})
    monkeypatch.setattr(BokehTornado, "find_handler", lambda server, request, **options: "Bokeh's")
    for _ in range(2):
        frame_channel.install()
    server = SimpleNamespace(prefix="/lab", get_handler_delegate=lambda request, handler: handler)
    found = [BokehTornado.find_handler(server, SimpleNamespace(path=path)) for path in ("/lab/frames", "/frames")]
    assert found == [FrameSocket, "Bokeh's"]
