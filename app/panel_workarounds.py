"""What Panel and Bokeh do otherwise than needed, and what they offer nowhere but in private: all of it in one place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import panel as pn
import param
from bokeh.document import Document
from bokeh.server.contexts import ApplicationContext
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


def send_at_once() -> None:
    """Have every WebSocket send what it is given, instead of waiting for the answer to what it sent before.

    A message of Bokeh's is three or more packets, and TCP holds the second one back until the first is acknowledged,
    which the other end puts off by up to 40 ms. Measured on one machine, a tab that confirms at once: 29 frames/s
    become 38, and a control answers after 25 ms instead of 50. Harmless if called twice.
    """
    opened = ws.WSHandler.open
    if hasattr(opened, "__wrapped__"):
        return

    @wraps(opened)
    def open_at_once(handler: ws.WSHandler) -> None:
        """Bokeh's open."""
        handler.set_nodelay(True)
        opened(handler)

    ws.WSHandler.open = open_at_once


def on_websocket_error(protocol: Callable[[Any, str], None], internal: Callable[[Any, str], None]) -> None:
    """Call protocol(handler, words) where a browser broke the protocol, internal(...) where a message failed here."""
    ws.WSHandler._protocol_error = protocol  # noqa: SLF001 bokeh has no other place for it
    ws.WSHandler._internal_error = internal  # noqa: SLF001 as above
