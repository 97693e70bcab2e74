"""Size limits for incoming WebSocket messages, enforced before Bokeh decodes them.

A message of Bokeh's protocol consists of three JSON texts (head, metadata, content) and pairs of a text and a block of
bytes. Bokeh limits neither the number of blocks, nor the depth of the JSON, nor the size to which gzip unpacks: 2 MB
could request gigabytes. Here a message with all its blocks has at most MOST_BYTES; a page sends far less, and files
arrive in pieces of 1 MiB. The number of values, their depth, and the total unpacked size are limited, too. Bytes that
arrive as text are unpacked here, once, and passed to Bokeh as a buffer, so that Bokeh itself unpacks nothing.

A client that exceeds a limit loses the connection and receives the name of the limit. An error reply contains neither a
traceback nor a path.
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
    """Return the unpacked bytes of `data`, one whole stream of `kind`, at most `most`.

    Raise ValueError for more bytes, for trailing data and for damaged data. The memory used is bounded by `most`.
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
    """Return a replacement for zlib with compress, error, and a decompress that is limited to `most` bytes."""
    return SimpleNamespace(compress=zlib.compress, decompress=lambda data: inflated(data, most), error=zlib.error)


MOST_BYTES = 4 * 2**20  # of a message: a piece of a file as text has 1.4 MB, a dropped JSON file 1 MB
MOST_UNPACKED = 4 * 2**20  # bytes, of all packed data in a message
MOST_VALUES = 200_000  # in a message: each takes about 60 bytes after parsing
MOST_DEPTH = 60  # nesting depth of lists and objects
MOST_BLOCKS = 64  # blocks of bytes after the texts
KINDS = ("PULL-DOC-REQ", "PATCH-DOC", "SERVER-INFO-REQ")  # sent by a page; PUSH-DOC would replace the document
NUMBERS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")  # kinds of arrays
TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"')
MARK = "fieldlab_bounds"
log = logging.getLogger(__name__)


class BoundedReceiver(Receiver):
    """Assemble a message from its fragments, up to MOST_BYTES."""

    _size = 0

    async def consume(self, fragment: str | bytes) -> Any:
        """Consume a fragment as Bokeh does; ProtocolError for a message that is too large."""
        if self._current_consumer == self._HEADER:
            self._size = 0
        self._size += len(fragment)
        if self._size > MOST_BYTES:
            raise ProtocolError(f"a message must have at most {MOST_BYTES} bytes")
        return await super().consume(fragment)


class BoundedProtocol(Protocol):
    """Read messages whose parts are within the limits."""

    def assemble(self, header_json: str, metadata_json: str, content_json: str) -> Any:
        """Assemble a message as Bokeh does; ProtocolError for one that exceeds a limit."""
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
    """Return an upper bound of the values in a JSON text; strings are excluded only above the limit."""
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
    """The packed bytes of one message, unpacked in place."""

    def __init__(self) -> None:
        self._left = MOST_UNPACKED

    def take(self, content: Any) -> None:
        """Unpack the values of `content`; ProtocolError for one that exceeds a limit. Iterative, not recursive."""
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
        """Return the unpacked bytes; ProtocolError for invalid data, or more than is left of MOST_UNPACKED."""
        try:
            found = inflated(base64.b64decode(text, validate=True), self._left, GZIP)
        except (ValueError, binascii.Error) as error_:
            raise ProtocolError(f"packed bytes of a message must be gzip, {MOST_UNPACKED} bytes in all") from error_
        self._left -= len(found)
        return found


def install() -> None:
    """Limit the messages of every WebSocket in this process; further calls have no effect."""
    if getattr(ws.WSHandler, MARK, False):
        return
    ws.Receiver, ws.Protocol = BoundedReceiver, BoundedProtocol
    ws.WSHandler.max_message_size = property(lambda handler: MOST_BYTES)
    on_websocket_error(_refuse, _give_up)
    error.create = classmethod(_reply)
    setattr(ws.WSHandler, MARK, True)


def _refuse(handler: Any, words: str) -> None:
    """Close a connection after the browser broke the protocol."""
    log.warning("closed a connection: %s", words)
    handler.close(1002, words.encode()[:120].decode("utf-8", "ignore"))


def _give_up(handler: Any, words: str) -> None:
    """Close a connection after a message that the server could not handle."""
    log.warning("closed a connection: %s", words)
    handler.close(1011, "the server could not handle a message")


def _reply(kind: type[Any], /, request_id: str, text: str, **metadata: Any) -> Any:
    """Return an error reply without details; these are in the log."""
    header = kind.create_header(request_id=request_id)
    return kind(header, metadata, {"text": "the server could not handle a message", "traceback": None})
