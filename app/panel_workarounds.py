"""What Panel and Bokeh do otherwise than needed, and what they offer nowhere but in private: all of it in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import panel as pn
import param
from bokeh.core.serialization import Serializer
from bokeh.document import Document
from bokeh.document.events import DocumentChangedEvent, MessageSentEvent
from bokeh.models import ColumnDataSource
from bokeh.protocol.message import Message
from bokeh.protocol.messages.patch_doc import patch_doc
from bokeh.server.contexts import ApplicationContext
from bokeh.server.session import ServerSession
from bokeh.server.views import ws
from panel.io.resources import LOCAL_DIST
from panel.util import edit_readonly
from tornado.ioloop import IOLoop


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


def on_websocket_error(protocol: Callable[[Any, str], None], internal: Callable[[Any, str], None]) -> None:
    """Call protocol(handler, words) where a browser broke the protocol, internal(...) where a message failed here."""
    ws.WSHandler._protocol_error = protocol  # noqa: SLF001 bokeh has no other place for it
    ws.WSHandler._internal_error = internal  # noqa: SLF001 as above


class MessageBeside(MessageSentEvent):
    """A message to the browsers of a document, encoded once and without its models.

    For each patch Bokeh makes a table of all models that the browser has, for references; there are hundreds, and here
    is none. It waits in line with the patches, and is held with them where they are held.
    """

    def message(self) -> Message[Any]:
        """Return it as Bokeh's protocol has it."""
        serializer = Serializer()
        made: Message[Any] = patch_doc(patch_doc.create_header(), {}, {"events": serializer.encode([self])})
        made.add_buffers(*serializer.buffers)
        return made

    def dispatch(self, receiver: Any) -> None:
        """See DocumentChangedEvent."""
        writes = getattr(receiver, "_pending_writes", None)
        if not isinstance(receiver, ServerSession) or writes is None:
            super().dispatch(receiver)
            return
        DocumentChangedEvent.dispatch(self, receiver)
        message = self.message()
        for connection in receiver._subscribed_connections:  # noqa: SLF001 as send_patch_document does
            writes.append(connection._socket.send_message(message))  # noqa: SLF001 as above


def send_beside(document: Document, kind: str, data: Mapping[str, Any]) -> None:
    """Send `data`, in which there is no model, to what listens for messages of that kind in the browsers."""
    document.callbacks.trigger_on_change(MessageBeside(document, kind, data))


def keep_data(source: ColumnDataSource, columns: Mapping[str, Any]) -> None:
    """Let `source` hold these columns, of which the browser hears otherwise."""
    dict.clear(source.data)
    dict.update(source.data, columns)
