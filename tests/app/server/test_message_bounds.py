"""Bounds of WebSocket messages from unknown clients, enforced before Bokeh decodes them, also after decompression."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bokeh.core.serialization import Buffer, Deserializer, Serializer
from bokeh.protocol.exceptions import ProtocolError

from app.server.message_bounds import (
    MOST_BLOCKS,
    MOST_BYTES,
    MOST_DEPTH,
    MOST_UNPACKED,
    MOST_VALUES,
    BoundedProtocol,
    BoundedReceiver,
    inflated,
)
from tests.app.served_page import run_script

MIB = 2**20


def text(data: bytes, pack: Callable[[bytes], bytes] = gzip.compress) -> str:
    return base64.b64encode(pack(data)).decode()


def packed(data: bytes, pack: Callable[[bytes], bytes] = gzip.compress) -> dict[str, Any]:
    return {"type": "bytes", "data": text(data, pack)}


def fragments(content: Any, kind: str = "PATCH-DOC", **header: Any) -> list[str]:
    return [json.dumps({"msgid": "1", "msgtype": kind, **header}), "{}", json.dumps(content)]


def received(*parts: str | bytes) -> Any:
    """Return the message assembled from these fragments; None if more are needed."""

    async def take() -> Any:
        receiver, message = BoundedReceiver(BoundedProtocol()), None
        for part in parts:
            message = await receiver.consume(part)
        return message

    return asyncio.run(take())


def test_bytes_and_arrays_are_received_unchanged() -> None:
    array, data = np.arange(12, dtype=np.float32).reshape(3, 4), b"\x00\xff picture"
    sent = Serializer(deferred=False).serialize({"array": array, "data": data}).content
    as_text = json.loads(json.dumps(sent, default=lambda buffer: buffer.to_base64()))
    message = received(*fragments({"events": as_text}))
    found = Deserializer().deserialize(message.content["events"])
    np.testing.assert_array_equal(found["array"], array)
    assert found["data"] == data


def test_binary_blocks_are_received() -> None:
    content = {"events": [{"type": "bytes", "data": {"id": "7"}}]}
    message = received(*fragments(content, num_buffers=1), json.dumps({"id": "7"}), b"block")
    assert message.buffers == [Buffer("7", b"block")]


def test_a_message_of_the_maximum_size_is_accepted() -> None:
    half = b"\0" * (MOST_UNPACKED // 2)
    message = received(*fragments({"events": [packed(half), packed(half)]}))
    assert [part["data"].data for part in message.content["events"]] == [half, half]


HALF = b"\0" * (MOST_UNPACKED // 2 + 1)
DEEP: Any = []
for _ in range(MOST_DEPTH + 2):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "content",
    [
        packed(b"\0" * (MOST_UNPACKED + 1)),
        [packed(HALF), packed(HALF)],
        {"deep": [{"er": packed(HALF)}], "type": "map", "entries": [["key", packed(HALF)]]},
        {"type": "ndarray", "array": packed(b"\0" * (MOST_UNPACKED + 8)), "order": "little", "dtype": "uint8",
         "shape": [MOST_UNPACKED + 8]},
        {"type": "typed_array", "array": packed(b"\0" * (MOST_UNPACKED + 8)), "order": "little", "dtype": "uint8"},
        {"type": "bytes", "data": base64.b64encode(gzip.compress(HALF) + gzip.compress(HALF)).decode()},
    ],
    ids=["one", "two", "apart", "array", "typed-array", "two-members"],
)  # fmt: skip
def test_data_that_inflates_beyond_the_bound_is_refused(content: Any) -> None:
    with pytest.raises(ProtocolError, match=str(MOST_UNPACKED)):
        received(*fragments({"events": [content]}))


@pytest.mark.parametrize("pack", [zlib.compress, lambda data: data, lambda data: gzip.compress(data)[:-9]])
def test_incomplete_gzip_data_is_refused(pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ProtocolError, match="gzip"):
        received(*fragments({"events": [packed(b"field" * 100, pack)]}))


@pytest.mark.parametrize("dtype", ["U500000000", "S1000000000", "object", "V9", ["f8"], None])
def test_an_array_of_texts_or_objects_is_refused(dtype: Any) -> None:
    """The length of a text is part of its dtype: np.array([0], "U500000000") takes 2 GB."""
    array = {"type": "ndarray", "array": [0], "order": "little", "dtype": dtype, "shape": [1]}
    with pytest.raises(ProtocolError, match="float64"):
        received(*fragments({"events": [array]}))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"events": DEEP}, str(MOST_DEPTH)),
        ({"events": [0] * (MOST_VALUES + 2)}, str(MOST_VALUES)),
        ({"events": "x" * MOST_BYTES}, str(MOST_BYTES)),
    ],
    ids=["deep", "many", "long"],
)
def test_an_exceeded_bound_is_named(content: Any, named: str) -> None:
    with pytest.raises(ProtocolError, match=named):
        received(*fragments(content))


def test_commas_in_a_text_do_not_count_as_values_and_each_message_has_the_whole_bound() -> None:
    """A dropped file is one text."""
    assert received(*fragments({"events": "," * (MOST_VALUES + 1) + '"\\'})) is not None
    long = fragments({"events": "x" * (MOST_BYTES // 2 + 1)})
    assert received(*long, *long) is not None


@pytest.mark.parametrize("content", ["[" * 100_000, "", "[1", "9" * 5000, '{"a": 1e999999999}x'])
def test_json_that_cannot_be_read_is_refused(content: str) -> None:
    head, metadata, _ = fragments({})
    with pytest.raises(ProtocolError):
        received(head, metadata, content)


@pytest.mark.parametrize(
    "header",
    [{"num_buffers": MOST_BLOCKS + 1}, {"num_buffers": -1}, {"num_buffers": "1"}, {"num_buffers": True}, {"msgid": 1},
     {"msgid": "1" * 101}, {"kind": "PUSH-DOC"}, {"kind": "unknown"}]
)  # fmt: skip
def test_a_header_that_no_page_sends_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        received(*fragments({"events": []}, **header))


@pytest.mark.parametrize("head", ["[]", "null", '"text"', "{}"])
def test_a_malformed_header_is_refused(head: str) -> None:
    with pytest.raises(ProtocolError):
        received(head, "{}", "{}")


def test_binary_blocks_count_towards_the_size_of_the_message() -> None:
    pairs = [part for number in range(5) for part in (json.dumps({"id": str(number)}), b"\0" * MIB)]
    with pytest.raises(ProtocolError, match=str(MOST_BYTES)):
        received(*fragments({"events": []}, num_buffers=5), *pairs)


def test_inflating_stops_at_the_bound_exactly() -> None:
    assert inflated(zlib.compress(b"ab"), 2) == b"ab"
    with pytest.raises(ValueError, match="at most 1 bytes"):
        inflated(zlib.compress(b"ab"), 1)
    with pytest.raises(ValueError, match="one whole stream"):
        inflated(zlib.compress(b"ab") + b"more", 9)


def test_two_megabytes_that_inflate_to_gigabytes_are_refused_immediately() -> None:
    """In a separate process; its peak memory is read before and after."""
    script = """
import asyncio, base64, json, sys, time, zlib
import tornado.websocket, tornado.httpclient
from bokeh.server.server import Server
from bokeh.util.token import generate_jwt_token, generate_session_id
from app.server import message_bounds
from tests.peak_memory import peak_memory
message_bounds.install(); message_bounds.install()

press = zlib.compressobj(9, zlib.DEFLATED, 31)
first, one_more = [press.compress(bytes(2**20)) + press.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
bomb = first + (int(sys.argv[1]) - 1) * one_more  # nobody gets as far as the sum at its end
bomb = base64.b64encode(bomb).decode()

async def main():
    server = Server({"/": lambda document: None}, port=0, address="127.0.0.1")
    server.start()
    protocols = ["bokeh", generate_jwt_token(generate_session_id())]
    socket = await tornado.websocket.websocket_connect(f"ws://127.0.0.1:{server.port}/ws", subprotocols=protocols)
    for _ in range(3):
        await socket.read_message()  # the acknowledgement
    message = {"events": [{"kind": "ModelChanged", "new": {"type": "bytes", "data": bomb}}]}
    texts = json.dumps({"msgid": "1", "msgtype": "PATCH-DOC"}), "{}", json.dumps(message)
    before, began = peak_memory(), time.perf_counter()
    for text in texts:
        await socket.write_message(text)
    while await socket.read_message() is not None:
        pass
    print(json.dumps({"grown": peak_memory() - before, "seconds": time.perf_counter() - began, "sent": len(texts[2]),
                      "code": socket.close_code, "why": socket.close_reason}))

asyncio.run(main())
"""
    done = run_script(script, "1500")  # MiB
    found = json.loads(done.stdout)
    print(found)
    assert 1.9e6 < found["sent"] < 2.2e6
    assert found["code"] == 1002
    assert str(MOST_UNPACKED) in found["why"]
    assert found["grown"] < 50e6
    assert "\0" not in done.stderr
    assert len(done.stderr) < 10_000
