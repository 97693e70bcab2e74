"""Changes of a document: several in one message, those of the builder's thread, and which a browser may send."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import bokeh.server.session
from bokeh import protocol
from bokeh.core.serialization import Serialized, UnknownReferenceError
from bokeh.document import Document
from bokeh.document.events import DocumentPatchedEvent
from bokeh.models import ColumnDataSource
from bokeh.protocol.message import Message

from app.server.browser_changes import KnownModels, allowed_events, require_plain
from app.upstream.internals import connections, held_events, new_models, socket_of, write_later

log = logging.getLogger(__name__)
PREPARES = hasattr(bokeh.server.session, "_PendingPatch")  # Bokeh 3.10: its sessions encode what is pending themselves


def encode_held(document: Document) -> Callable[[], None] | None:
    """Encode the changes that `document` holds as one message; return a function that sends it, or None without any.

    It may run in any thread while nothing else changes the document. The caller of the returned function must hold the
    session's lock. Other held events stay held.
    """
    session = document.session_context.session if document.session_context else None
    held = held_events(document)
    events = [event for event in held if isinstance(event, DocumentPatchedEvent)]
    if session is None or not events or PREPARES:
        return None
    message: Message[Any] = protocol.SPEC["PATCH-DOC"].create(events)
    _ = message.content_json  # which the message keeps
    for event in events:
        held.remove(event)  # one by one: an engine may ask for a callback just now, which is added there

    def send() -> None:
        """Have the session write the message once its callback has returned."""
        for connection in connections(session):
            write_later(session, socket_of(connection).send_message(message))

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
        unsent = new_models(document)
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


def keep_data(source: ColumnDataSource, columns: Mapping[str, Any]) -> None:
    """Let `source` hold these columns, of which the browser hears otherwise.

    Those of the same names take each other's place: the document may be written just now, beside the loop.
    """
    if source.data.keys() != columns.keys():
        dict.clear(source.data)
    dict.update(source.data, columns)
