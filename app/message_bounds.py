"""What a browser may send through its WebSocket, bounded before Bokeh decodes it.

A message of Bokeh's protocol is three texts of JSON (head, metadata, content) and pairs of a text and a block of bytes.
Bokeh sets no bound to how many blocks there are, how deep the JSON is, and what gzip unpacks to: 2 MB could ask for
gigabytes. Here a message, with all its blocks, has at most MOST_BYTES; a page of ours sends far less, files come in
pieces of 1 MiB. Values in it, their depth, and what all of it unpacks to are bounded, too. Bytes that came as text are
unpacked here, once, and handed to Bokeh as they are, so Bokeh itself unpacks nothing.

Who breaks a bound loses the connection, and is told which one. An error reply holds neither a traceback nor a path.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
import zlib
from types import SimpleNamespace
from typing import Any

from bokeh.core.serialization import Buffer
from bokeh.protocol import Protocol
from bokeh.protocol.exceptions import MessageError, ProtocolError
from bokeh.protocol.messages.error import error
from bokeh.protocol.receiver import Receiver
from bokeh.server.views import ws

from app.upstream.internals import on_websocket_error

GZIP, ZLIB = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS  # kinds of header


def inflated(data: bytes, most: int, kind: int = ZLIB) -> bytes:
    """The bytes that are packed in `data`, one stream of `kind`; at most `most`, and nothing behind it.

    ValueError for more, and for damaged data. No more memory than `most` is used.
    """
    press = zlib.decompressobj(kind)
    try:
        found = press.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError("packed data are damaged") from error
    if len(found) > most:
        raise ValueError(f"packed data must unpack to at most {most:,} bytes")
    if not press.eof or press.unused_data:
        raise ValueError("packed data must be one whole stream")
    return found


def bounded_zlib(most: int) -> SimpleNamespace:
    """What a module needs of zlib that only packs and unpacks at once; unpacking is bounded by `most` bytes."""
    return SimpleNamespace(compress=zlib.compress, decompress=lambda data: inflated(data, most), error=zlib.error)


MOST_BYTES = 4 * 2**20  # of a message: a piece of a file as text, 1.4 MB, or a dropped JSON, 1 MB, with room
MOST_UNPACKED = 4 * 2**20  # bytes, of all that is packed in a message
MOST_VALUES = 200_000  # in a message: each takes some 60 bytes once it is read
MOST_DEPTH = 60  # of lists and objects in each other
MOST_BLOCKS = 64  # of bytes beside the texts
KINDS = ("PULL-DOC-REQ", "PATCH-DOC", "SERVER-INFO-REQ")  # what a page sends; PUSH-DOC would replace ours by another
NUMBERS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")  # kinds of arrays
TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"')
MARK = "fieldlab_bounds"
log = logging.getLogger(__name__)


class BoundedReceiver(Receiver):
    """Puts a message together from what comes, up to MOST_BYTES."""

    _size = 0

    async def consume(self, fragment: str | bytes) -> Any:
        """Bokeh's consume; ProtocolError for a message that is too large."""
        if self._current_consumer == self._HEADER:
            self._size = 0
        self._size += len(fragment)
        if self._size > MOST_BYTES:
            raise ProtocolError(f"a message must have at most {MOST_BYTES} bytes")
        return await super().consume(fragment)


class BoundedProtocol(Protocol):
    """Reads messages whose parts are within the bounds."""

    def assemble(self, header_json: str, metadata_json: str, content_json: str) -> Any:
        """Bokeh's assemble; ProtocolError for what breaks a bound."""
        texts = header_json, metadata_json, content_json
        if sum(map(_values, texts)) > MOST_VALUES:
            raise ProtocolError(f"a message must have at most {MOST_VALUES} values")
        try:
            _require_head(json.loads(header_json), json.loads(metadata_json))
            message = super().assemble(*texts)
            PackedBytes().take(message.content)
        except ProtocolError:
            raise
        except (MessageError, ValueError, KeyError, TypeError, RecursionError) as error_:
            raise ProtocolError("a message must be JSON as Bokeh writes it") from error_
        return message


def _values(text: str) -> int:
    """Values in a text of JSON, at most; counted in the strings, too, unless it matters."""
    count = text.count(",") + text.count("[") + text.count("{")
    if count <= MOST_VALUES:
        return count
    text = TEXT.sub("", text)
    return text.count(",") + text.count("[") + text.count("{")


def _require_head(header: Any, metadata: Any) -> None:
    if not isinstance(header, dict) or not isinstance(metadata, dict) or header.get("msgtype") not in KINDS:
        raise ProtocolError(f"a message must be of {', '.join(KINDS)}")
    if not isinstance(header.get("msgid"), str) or len(header["msgid"]) > 100:
        raise ProtocolError("a message must have a msgid of at most 100 characters")
    blocks = header.get("num_buffers", 0)
    if type(blocks) is not int or not 0 <= blocks <= MOST_BLOCKS:
        raise ProtocolError(f"a message must have at most {MOST_BLOCKS} blocks of bytes")


class PackedBytes:
    """What was packed in one message, unpacked in place."""

    def __init__(self) -> None:
        self._left = MOST_UNPACKED

    def take(self, content: Any) -> None:
        """Look at every value of `content`; ProtocolError for one that breaks a bound. Not recursive."""
        todo = [(content, 0)]
        while todo:
            value, depth = todo.pop()
            if depth > MOST_DEPTH:
                raise ProtocolError(f"values of a message must lie at most {MOST_DEPTH} deep")
            if isinstance(value, dict):
                self._look_at(value)
                todo += [(part, depth + 1) for part in value.values() if isinstance(part, dict | list)]
            elif isinstance(value, list):
                todo += [(part, depth + 1) for part in value if isinstance(part, dict | list)]

    def _look_at(self, value: dict[str, Any]) -> None:
        kind = value.get("type")
        if kind == "bytes" and isinstance(value.get("data"), str):
            value["data"] = Buffer("", self._unpack(value["data"]))
        elif kind in ("ndarray", "typed_array") and value.get("dtype") not in NUMBERS:
            raise ProtocolError(f"an array must be of {', '.join(NUMBERS)}")

    def _unpack(self, text: str) -> bytes:
        """Raises ProtocolError for more than is left of MOST_UNPACKED, and for what is not gzip in base64."""
        try:
            found = inflated(base64.b64decode(text, validate=True), self._left, GZIP)
        except (ValueError, binascii.Error) as error_:
            raise ProtocolError(f"packed bytes of a message must be gzip, {MOST_UNPACKED} bytes in all") from error_
        self._left -= len(found)
        return found


def install() -> None:
    """Have every WebSocket of this process bounded; harmless if called twice."""
    if getattr(ws.WSHandler, MARK, False):
        return
    ws.Receiver, ws.Protocol = BoundedReceiver, BoundedProtocol
    ws.WSHandler.max_message_size = property(lambda handler: MOST_BYTES)
    on_websocket_error(_refuse, _give_up)
    error.create = classmethod(_reply)
    setattr(ws.WSHandler, MARK, True)


def _refuse(handler: Any, words: str) -> None:
    """Close a connection whose browser broke the protocol."""
    log.warning("closed a connection: %s", words)
    handler.close(1002, words.encode()[:120].decode("utf-8", "ignore"))


def _give_up(handler: Any, words: str) -> None:
    """Close a connection whose message could not be handled."""
    log.warning("closed a connection: %s", words)
    handler.close(1011, "the server could not handle a message")


def _reply(kind: type[Any], /, request_id: str, text: str, **metadata: Any) -> Any:
    """An error reply: that it went wrong, and no more. What went wrong is in the log."""
    header = kind.create_header(request_id=request_id)
    return kind(header, metadata, {"text": "the server could not handle a message", "traceback": None})
