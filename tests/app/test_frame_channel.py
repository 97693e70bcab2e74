"""Frames past Bokeh: what is in their messages, who gets them, and which answers are taken."""

from __future__ import annotations

import json
import math
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.server.views.ws import WSHandler
from tornado.iostream import StreamClosedError

from app import frame_channel
from app.frame_channel import MARK, number_of, pack


def unpacked(message: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The head and the columns of a message, read byte by byte as the format says."""
    assert message.startswith(MARK)
    (length,) = struct.unpack_from("<I", message, 16)
    head = json.loads(message[20 : 20 + length])
    at = math.ceil((20 + length) / 8) * 8
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


class Wire:
    """A browser's WebSocket. wrong: what is raised when something is written to it."""

    def __init__(self, wrong: Exception | None = None, closing: bool = False) -> None:
        self.stream = SimpleNamespace(_write_buffer=b"")
        self.sent: list[bytes] = []
        self.wrong, self.closing = wrong, closing
        self._socket = SimpleNamespace(ws_connection=self)

    def is_closing(self) -> bool:
        return self.closing

    def _write_frame(self, last: bool, kind: int, data: bytes) -> None:
        assert (last, kind) == (True, 2)
        if self.wrong:
            raise self.wrong
        self.sent.append(data)


def shown(wires: list[Wire]) -> Document:
    """A document that these browsers show."""
    document = Document()
    context = SimpleNamespace(session=SimpleNamespace(_subscribed_connections=wires))
    document._session_context = lambda: context
    return document


def test_every_browser_of_the_page_gets_it_and_one_that_goes_harms_nobody():
    wires = [Wire(), Wire(StreamClosedError()), Wire(closing=True), Wire()]
    gone = Wire()
    gone._socket.ws_connection = None
    frame_channel.send(shown([gone, *wires]), b"message")
    assert [wire.sent for wire in wires] == [[b"message"], [], [], [b"message"]]


def test_a_browser_that_is_found_gone_while_it_is_written_to_harms_nobody():
    """Tornado then drops the buffer of what waits."""

    class Breaking(Wire):
        def _write_frame(self, last: bool, kind: int, data: bytes) -> None:
            self.stream._write_buffer = None

    last = Wire()
    frame_channel.send(shown([Breaking(), last]), b"message")
    assert last.sent == [b"message"]


def test_a_page_that_nobody_shows_is_sent_nothing():
    frame_channel.send(Document(), b"message")


class Source:
    """Hears which frames are painted."""

    def __init__(self, document: Document | None) -> None:
        self.document, self.heard = document, []

    def confirm(self, number: int, seconds: float) -> None:
        self.heard.append((number, seconds))


@pytest.fixture
def page():
    """A WebSocket of a page with a source "p1"; `errors` are its breaches of the protocol."""
    document = Document()
    handler = SimpleNamespace(connection=SimpleNamespace(session=SimpleNamespace(document=document)), errors=[])
    handler._protocol_error = handler.errors.append
    handler.source = Source(document)
    frame_channel.listen("p1", handler.source)
    return handler


def test_the_source_hears_what_is_painted(page):
    frame_channel.take(page, "frame p1 7 0.012500")
    frame_channel.take(page, "frame p1 8 0")
    frame_channel.take(page, "frame p1 -1 0")  # what is shown between frames, and is none
    assert page.source.heard == [(7, 0.0125), (8, 0.0), (-1, 0.0)]
    assert not page.errors


@pytest.mark.parametrize(
    "text",
    [
        "frame ", "frame p1 7", "frame p1 --7 0.1", "frame p1 7 -0.1", "frame p1 7 nan", "frame p1 7 1e9",
        "frame p1 7.5 1", "frame p1 ٧ 0.1", f"frame p1 {'9' * 16} 1", f"frame {'p' * 65} 1 1", "frame p1 7 0.1\n",
        f"frame p1 7 {'1' * 200}", "frame p1 7 0.1 x", 'frame p1" 7 0.1', f"frame p1 7 0.{'1' * 4_000_000}",
    ],
)  # fmt: skip
def test_anything_else_breaks_the_protocol(page, text):
    frame_channel.take(page, text)
    assert page.source.heard == []
    assert len(page.errors) == 1


def test_nobody_confirms_the_frames_of_another_page(page):
    stranger = Source(Document())
    frame_channel.listen("p2", stranger)
    frame_channel.take(page, "frame p2 7 0.1")
    assert stranger.heard == []


def test_a_late_answer_is_nobodys(page):
    frame_channel.take(page, "frame p999 7 0.1")  # a lab that is closed
    page.source.document = None  # a lab whose tab is not shown
    frame_channel.take(page, "frame p1 7 0.1")
    page.source.document, page.connection = Document(), None  # a connection that has not begun
    frame_channel.take(page, "frame p1 7 0.1")
    assert page.source.heard == []
    assert not page.errors


def test_bokeh_hears_everything_else(monkeypatch):
    heard = []
    monkeypatch.setattr(frame_channel, "INSTALLED", "for a test")
    monkeypatch.setattr(WSHandler, "on_message", lambda handler, fragment: heard.append(fragment))
    frame_channel.install()
    monkeypatch.setattr(frame_channel, "take", lambda handler, text: None)
    for fragment in ("{}", "frame p1 7 0.1", b"frame p1 7 0.1", "frames", ""):
        WSHandler.on_message(None, fragment)
    assert heard == ["{}", b"frame p1 7 0.1", "frames", ""]
    delattr(WSHandler, "for a test")
