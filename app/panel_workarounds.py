"""What Panel and Bokeh do otherwise than needed, and what they offer nowhere but in private: all of it in one place."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import panel as pn
import param
from bokeh.document import Document
from bokeh.document.events import DocumentPatchedEvent, ModelChangedEvent
from bokeh.server.connection import ServerConnection
from bokeh.server.contexts import ApplicationContext
from bokeh.server.session import ServerSession
from bokeh.server.views import ws
from panel.io.resources import LOCAL_DIST
from panel.util import edit_readonly
from tornado.ioloop import IOLoop

MARK = "fieldlab_at_once"


def begin_housekeeping() -> None:
    """Have Panel begin its process-wide housekeeping of busy widgets now, before there is a page.

    It is a task that never ends. Panel begins it with the first event of any widget, and a task keeps the context it
    was begun in: the whole page of the first visitor would stay in memory.
    """
    IOLoop.current().add_callback(pn.state.add_periodic_callback, _nothing, period=1, count=1)


def serve_own_files(document: Document) -> None:
    """Have Panel take the styles of `document` from this server, as it does by itself for a page that a GET asked for.

    A session that a WebSocket began, after its browser slept too long, would ask for them at another server.
    """
    folder = pn.state.rel_path
    document.template_variables["dist_url"] = f"{folder}/{LOCAL_DIST}" if folder else LOCAL_DIST


def _nothing() -> None:
    """An event is enough."""


class NeverBusy(param.Parameterized):
    """Takes the place of the process-wide busy flag, whose watchers would keep every closed page alive."""

    busy = param.Boolean(default=False)


def never_busy(page: Any) -> None:
    """Give a page template a busy flag of its own."""
    with edit_readonly(page):
        page.busy = NeverBusy().param.busy


def session_ids(context: ApplicationContext) -> set[str]:
    """Return the ids of the sessions that there are or that are being made; Bokeh tells them nowhere else."""
    return {*context._sessions, *context._pending_sessions}  # noqa: SLF001


def send_at_once() -> None:
    """Have every WebSocket send what it is given, instead of waiting for the answer to what it sent before.

    A message of Bokeh's is three or more packets, and TCP holds the second one back until the first is acknowledged,
    which the other end may put off by 40 ms. Within one machine, where it seldom does, a control answered after 14 ms,
    and does after 6. Harmless if called twice.
    """
    opened = ws.WSHandler.open
    if getattr(opened, MARK, False):
        return

    def open_at_once(handler: ws.WSHandler) -> None:
        """Bokeh's open."""
        handler.set_nodelay(True)
        opened(handler)

    setattr(open_at_once, MARK, True)
    ws.WSHandler.open = open_at_once


class Outbox:
    """What one turn of a session's callbacks has changed, for each browser that shows it: one message at its end.

    Bokeh sends every property in a message of its own, and makes a table of all models of the document for each.
    """

    def __init__(self) -> None:
        self._events: dict[ServerConnection, list[DocumentPatchedEvent]] = {}
        self._newest: dict[tuple[ServerConnection, str, str], ModelChangedEvent] = {}

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
        for connection, events in self._events.items():
            message = connection.protocol.create("PATCH-DOC", events)
            yield from connection._socket.send_message(message).__await__()  # noqa: SLF001 as send_patch_document does


def one_message_a_turn() -> None:
    """Have every session send what one of its callbacks has changed together. Harmless if called twice."""

    def patched(session: ServerSession, event: DocumentPatchedEvent) -> None:
        """Take the place of Bokeh's own: note the change for every browser but the one that it comes from."""
        writes = session._pending_writes  # noqa: SLF001 see one_message_a_turn
        if writes is None:
            raise RuntimeError("a document was changed by somebody who does not hold its lock")
        if not writes:
            writes.append(Outbox())
        sender = session._current_patch_connection if event.setter is session else None  # noqa: SLF001
        for connection in session._subscribed_connections:  # noqa: SLF001
            if connection is not sender:
                writes[0].add(event, connection)

    ServerSession._document_patched = patched  # noqa: SLF001 bokeh has no other place for it


def on_websocket_error(protocol: Callable[[Any, str], None], internal: Callable[[Any, str], None]) -> None:
    """Call protocol(handler, words) where a browser broke the protocol, internal(...) where a message failed here."""
    ws.WSHandler._protocol_error = protocol  # noqa: SLF001 bokeh has no other place for it
    ws.WSHandler._internal_error = internal  # noqa: SLF001 as above
