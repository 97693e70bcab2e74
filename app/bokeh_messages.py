"""How what changes on a page reaches its browsers: one message a turn of callbacks, frames beside it, each in one go.

Bokeh offers no place for any of this but in private.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from bokeh import protocol
from bokeh.core.serialization import Serialized, Serializer, UnknownReferenceError
from bokeh.document import Document
from bokeh.document.events import DocumentPatchedEvent, ModelChangedEvent
from bokeh.model import Model
from bokeh.models import ColumnDataSource
from bokeh.protocol.message import Message
from bokeh.protocol.messages.patch_doc import patch_doc
from bokeh.protocol.messages.pull_doc_reply import pull_doc_reply
from bokeh.server.connection import ServerConnection
from bokeh.server.session import ServerSession
from bokeh.server.views import ws
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from app.server.browser_changes import KnownModels, allowed_events, require_plain

log = logging.getLogger(__name__)

MARK = "fieldlab_at_once"
PING = 20.0  # seconds between two looks whether a silent browser is there, and until it must have answered
Done = TypeVar("Done")


def send_at_once() -> None:
    """Have every WebSocket write a message of Bokeh's in one go, and TCP send it at once.

    A message is a header, metadata, content and two parts for each array, and Bokeh writes them one by one: seven
    system calls for a frame of two pictures, a quarter of what a server of many tabs did. TCP, too, holds a part back
    until the one before is acknowledged, which the other end may put off by 40 ms. Harmless if called twice.
    """
    opened = ws.WSHandler.open
    if getattr(opened, MARK, False):
        return

    def open_at_once(handler: ws.WSHandler) -> None:
        """Bokeh's open."""
        handler.set_nodelay(True)
        opened(handler)

    async def send_whole(handler: ws.WSHandler, message: Message[Any]) -> None:
        """Take the place of Bokeh's send_message.

        It takes no lock of the handler: a message that waited for one, already encoded, would be overtaken by those
        that Panel writes itself, which may name models that it brings.
        """
        try:
            await write_whole(handler, message)
        except WebSocketClosedError:
            log.warning("Failed sending message as connection was closed")

    setattr(open_at_once, MARK, True)
    ws.WSHandler.open, ws.WSHandler.send_message = open_at_once, send_whole


def give_up_dead_connections() -> None:
    """Have a page's older connection end when its browser comes back by another, and one that is silent after a while.

    A laptop that changes its network leaves a connection of which nothing is heard any more. TCP gives it up after a
    quarter of an hour. Until then all that was written to it was kept, and whoever waited until it was written, which
    Bokeh does with the lock of the document, held up the page. Harmless if called twice.
    """
    subscribe = ServerSession.subscribe
    if getattr(subscribe, MARK, False):
        return

    def subscribe_alone(session: ServerSession, connection: ServerConnection) -> None:
        """Bokeh's subscribe."""
        for older in session._subscribed_connections:  # noqa: SLF001 Bokeh tells only how many there are
            if (protocol := older._socket.ws_connection) is not None:  # noqa: SLF001 as above
                protocol.stream.close()
        subscribe(session, connection)

    setattr(subscribe_alone, MARK, True)
    ServerSession.subscribe = subscribe_alone
    ws.WSHandler.ping_interval = PING


async def write_whole(handler: ws.WSHandler, message: Message[Any]) -> None:
    """Write `message` to the socket of `handler`; WebSocketClosedError if that is closed."""
    protocol = handler.ws_connection
    if protocol is None or protocol.is_closing():
        raise WebSocketClosedError
    written = asyncio.get_running_loop().create_future()
    written.set_result(None)
    parts: list[bytes] = []

    def keep(part: bytes) -> asyncio.Future[None]:
        """Keep what the protocol would write."""
        parts.append(part)
        return written

    stream = protocol.stream
    stream.write = keep
    try:
        for text in (message.header_json, message.metadata_json, message.content_json):
            protocol.write_message(text)
        for buffer in message.buffers:
            protocol.write_message(json.dumps(buffer.ref))
            protocol.write_message(buffer.to_bytes(), binary=True)
    finally:
        del stream.write
    try:
        await stream.write(b"".join(parts))
    except StreamClosedError as error:
        raise WebSocketClosedError from error


class Outbox:
    """What one turn of a session's callbacks has changed, for each browser that shows it: one message at its end.

    Bokeh sends every property in a message of its own, and makes a table of all models of the document for each.
    """

    def __init__(self) -> None:
        self._events: dict[ServerConnection, list[DocumentPatchedEvent]] = {}
        self._newest: dict[tuple[ServerConnection, str, str], ModelChangedEvent] = {}
        self._encoded: list[tuple[Message[Any], ServerConnection]] = []

    def add_encoded(self, message: Message[Any], connection: ServerConnection) -> None:
        """Add changes that are a message already; it goes before those that are added."""
        self._encoded.append((message, connection))

    def add(self, event: DocumentPatchedEvent, connection: ServerConnection) -> None:
        """Add a change that this browser does not know yet; of several of one property the last counts."""
        if isinstance(event, ModelChangedEvent):
            key = connection, event.model.id, event.attr
            earlier = self._newest.get(key)
            if earlier is not None and earlier.combine(event):
                return
            self._newest[key] = event
        self._events.setdefault(connection, []).append(event)

    def __await__(self) -> Generator[Any, None, None]:
        """Send it; the session awaits what is to be written once its callback has returned."""
        for message, connection in self._encoded:
            yield from connection._socket.send_message(message).__await__()  # noqa: SLF001 as send_patch_document does
        for connection, events in self._events.items():
            message = patch(events)
            yield from connection._socket.send_message(message).__await__()  # noqa: SLF001 as send_patch_document does


class PatchSerializer(Serializer):
    """Bokeh's Serializer, without the table of all models that the browser has: there are hundreds, and a patch names
    few.
    """

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._known = document.models

    def get_ref(self, obj: Any) -> Any:
        """Return the reference to `obj` if the browser has it, or is told of it in this message; or None."""
        found = super().get_ref(obj)
        if found is None and isinstance(obj, Model) and self._is_known(obj):
            return obj.ref
        return found

    def has_ref(self, obj: Any) -> bool:
        """Return whether `obj` has a reference."""
        return self.get_ref(obj) is not None

    def _is_known(self, model: Model) -> bool:
        known = self._known
        return known.get_by_id(model.id) is model and model not in known._new_models  # noqa: SLF001 see patch


def patch(events: list[DocumentPatchedEvent]) -> Message[Any]:
    """Return the message of these events, all of one document, as Bokeh's patch_doc.create does."""
    document = events[0].document
    serializer = PatchSerializer(document)
    content = {"events": serializer.encode(events)}
    document.models.flush_synced(lambda model: not serializer.has_ref(model))
    message: Message[Any] = patch_doc(patch_doc.create_header(), {}, content)
    message.add_buffers(*serializer.buffers)
    return message


class LeanPatch(patch_doc):
    """Bokeh's message of changes, made by `patch`."""

    @classmethod
    def create(cls, events: list[DocumentPatchedEvent], **metadata: Any) -> Message[Any]:  # type: ignore[override]
        """Return the message; ValueError without events, or for those of several documents."""
        if len({event.document for event in events}) != 1:
            raise ValueError("a message of changes must have some, all of one document")
        message = patch(events)
        message.metadata.update(metadata)
        return message


def name_few_models() -> None:
    """Have those messages be such, too, that Panel makes by itself of what a component changes."""
    protocol.SPEC["PATCH-DOC"] = LeanPatch


def one_message_a_turn() -> None:
    """Have every session send what one of its callbacks has changed together. Harmless if called twice."""

    def patched(session: ServerSession, event: DocumentPatchedEvent) -> None:
        """Take the place of Bokeh's own: note the change for every browser but the one that it comes from."""
        writes = session._pending_writes  # noqa: SLF001 see one_message_a_turn
        if writes is None:
            raise RuntimeError("a document was changed by somebody who does not hold its lock")
        if not writes or not isinstance(writes[-1], Outbox):
            writes.append(Outbox())
        sender = session._current_patch_connection if event.setter is session else None  # noqa: SLF001
        for connection in session._subscribed_connections:  # noqa: SLF001
            if connection is not sender:
                writes[-1].add(event, connection)

    ServerSession._document_patched = patched  # noqa: SLF001 bokeh has no other place for it


def encode_held(document: Document) -> Callable[[], None] | None:
    """Make one message of what was changed while `document` is held; return what has its session send it, or None.

    Any thread, if nobody else changes the document; the session that sends it must hold its lock. Whatever else is held
    is left for the end of that, with what no browser sees.
    """
    session = document.session_context.session if document.session_context else None
    held = document.callbacks._held_events  # noqa: SLF001 as Panel does, which takes them likewise
    events = [event for event in held if isinstance(event, DocumentPatchedEvent)]
    if session is None or not events:
        return None
    message = patch(events)
    _ = message.content_json  # which is kept
    for event in events:
        held.remove(event)  # one by one: an engine may ask for a callback just now, which is added there

    def send() -> None:
        """Send it once the session's callback has returned."""
        outbox = Outbox()
        for connection in session._subscribed_connections:  # noqa: SLF001 as above
            outbox.add_encoded(message, connection)
        session._pending_writes.append(outbox)  # type: ignore[union-attr] # noqa: SLF001 as above

    return send


@contextmanager
def changed_together(document: Document) -> Iterator[None]:
    """Let what is changed in the block reach the browser as one message.

    A turn's one message is not enough: unless the document is held, Panel writes what each of
    its components changes at once, in a message of its own.
    """
    if document.callbacks.hold_value:
        yield
        return
    document.hold("combine")
    try:
        yield
    finally:
        document.unhold()


def allow_listed_changes() -> None:
    """Let a message from a browser change only properties of the allow-list (app/server/allowed_changes.py).

    It also keeps the models that this browser was not told of yet marked as new. Bokeh takes all models of a document
    for known once such a message comes. Those whose own message still waits, because the document is held, would be
    named in it by their ids alone: "reference p123 isn't known".
    """

    def apply(document: Document, patch_json: Any, *, setter: Any = None) -> None:
        """Take the place of Bokeh's apply_json_patch, which this is but for the unsent models, and what is refused."""
        unsent = frozenset(document.models._new_models)  # noqa: SLF001 bokeh tells it nowhere else
        deserializer = KnownModels(list(document.models), setter=setter)
        told = patch_json if isinstance(patch_json, Serialized) else Serialized(patch_json)
        try:
            events = deserializer.decode(allowed_events(document, told.content["events"]), told.buffers)
        except UnknownReferenceError as error:
            if not document.models.seen(error.id):
                raise
            log.debug("dropped a patch about a model that is gone: %s", error.id)
            return
        require_plain(document, events)
        for event in events:
            DocumentPatchedEvent.handle_event(document, event, setter)
        document.models.flush_synced(lambda model: model in unsent or not deserializer.has_ref(model))

    Document.apply_json_patch = apply  # type: ignore[method-assign]


class Beside(Protocol):
    """Does work beside the loop, in a thread of its own; see app.builder."""

    def turn(self, short: bool = False) -> AbstractAsyncContextManager[Any]:
        """Wait until nothing else is done there; short: before what takes long."""

    async def with_page(
        self, session: ServerSession, work: Callable[[Any], Awaitable[Done]], short: bool = False
    ) -> Done | None:
        """Return what `work` returns, called once nothing else is done there, with the page's lock."""

    async def work(self, document: Document, work: Callable[[], Done]) -> Done:
        """Return what `work` returns; for who has the turn. Nobody else may touch `document` meanwhile."""


def pull_beside(beside: Beside) -> None:
    """Write a document for its browser beside the loop; for one that comes back, with its arrays within.

    It takes 80 ms. BokehJS asks for the document anew when its connection was broken, and drops the arrays that come
    beside the answer ("buffer for id=… not found"): the page then stood still for ever. Harmless if called twice.
    """
    if getattr(ServerSession.pull, MARK, False):
        return
    pulled: WeakSet[ServerSession] = WeakSet()

    async def answer(session: ServerSession, message: Message[Any], deferred: bool) -> Any:
        """The document as a message; deferred: with its arrays beside it."""

        async def write(turn: Any) -> Message[Any]:
            """Write it in a turn, with the page's lock."""
            return await beside.work(session.document, partial(_whole, session.document, message, deferred))

        return await beside.with_page(session, write, short=True)

    def pull(message: Message[Any], connection: ServerConnection) -> Any:
        """Take the place of Bokeh's own."""
        session = connection.session
        first = session not in pulled
        pulled.add(session)
        return answer(session, message, first)

    setattr(pull, MARK, True)
    ServerSession.pull = pull


def _whole(document: Document, message: Message[Any], deferred: bool) -> Message[Any]:
    """Return the answer to `message`, encoded."""
    number = message.header["msgid"]
    if deferred:
        reply: Message[Any] = pull_doc_reply.create(number, document)
    else:
        header = pull_doc_reply.create_header(request_id=number)
        reply = pull_doc_reply(header, {}, {"doc": document.to_json(deferred=False)})
    _ = reply.content_json  # which is kept
    return reply


def keep_data(source: ColumnDataSource, columns: Mapping[str, Any]) -> None:
    """Let `source` hold these columns, of which the browser hears otherwise.

    Those of the same names take each other's place: the document may be written just now, beside the loop.
    """
    if source.data.keys() != columns.keys():
        dict.clear(source.data)
    dict.update(source.data, columns)
