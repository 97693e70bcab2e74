"""Document changes: combine them in one message, encode them in the builder's thread, filter incoming changes."""

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
PREPARES = hasattr(bokeh.server.session, "_PendingPatch")  # Bokeh 3.10: sessions encode pending changes


def encode_held(document: Document) -> Callable[[], None] | None:
    """Encode the held changes of `document` as one message; return a function that sends it, or None without changes.

    Also returns None with Bokeh 3.10: its sessions encode pending changes. May run in any thread, provided that only
    this thread changes the document. The caller of the returned function must own the session's lock. Held events that
    are not document patches stay held.
    """
    session = document.session_context.session if document.session_context else None
    held = held_events(document)
    events = [event for event in held if isinstance(event, DocumentPatchedEvent)]
    if session is None or not events or PREPARES:
        return None
    message: Message[Any] = protocol.SPEC["PATCH-DOC"].create(events)
    _ = message.content_json  # cached by the message
    for event in events:
        held.remove(event)  # one by one: another thread may add a callback to the list at the same time

    def send() -> None:
        """Queue the message for each connection; the session writes it once its callback has returned."""
        for connection in connections(session):
            write_later(session, socket_of(connection).send_message(message))

    return send


@contextmanager
def changed_together(document: Document) -> Iterator[None]:
    """Send all changes made in the block to the browser as one message.

    Combining the messages of a callback (app/upstream/patches.py) is not enough: unless the document is held, Panel
    writes the changes of each component immediately in a separate message.
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
    """Replace Bokeh's apply_json_patch so that browsers change only allow-listed properties.

    The allow-list is in app/server/allowed_changes.py. The replacement also keeps models that no browser has received
    yet marked as new. Bokeh marks all models of a document as known after each incoming patch. A model whose message is
    still pending, because the document is held, would then be encoded as a bare id, and the browser would raise
    "reference p123 isn't known".
    """

    def apply(document: Document, patch_json: Any, *, setter: Any = None) -> None:
        """Apply a patch like Bokeh's method, except for refused changes and models that were not sent yet."""
        unsent = new_models(document)
        deserializer = KnownModels(list(document.models), setter=setter)
        told = patch_json if isinstance(patch_json, Serialized) else Serialized(patch_json)
        try:
            events = deserializer.decode(allowed_events(document, told.content["events"]), told.buffers)
        except UnknownReferenceError as error:
            if not document.models.seen(error.id):
                raise
            log.debug("dropped a patch for a removed model: %s", error.id)
            return
        require_plain(document, events)
        for event in events:
            DocumentPatchedEvent.handle_event(document, event, setter)
        document.models.flush_synced(lambda model: model in unsent or not deserializer.has_ref(model))

    Document.apply_json_patch = apply  # type: ignore[method-assign]


def keep_data(source: ColumnDataSource, columns: Mapping[str, Any]) -> None:
    """Store `columns` in `source` without a message; the browser receives them by another channel.

    Columns of the same names are replaced in place, because the builder's thread may encode the document at the same
    time.
    """
    if source.data.keys() != columns.keys():
        dict.clear(source.data)
    dict.update(source.data, columns)
