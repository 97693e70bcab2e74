"""Panel's housekeeping, begun where it keeps no page alive."""

from __future__ import annotations

import panel as pn
from bokeh.document import Document
from panel.io.resources import LOCAL_DIST
from tornado.ioloop import IOLoop


def settle() -> None:
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
