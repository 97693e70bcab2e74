"""Panel's housekeeping, begun where it keeps no page alive."""

from __future__ import annotations

import panel as pn
from tornado.ioloop import IOLoop


def settle() -> None:
    """Have Panel begin its process-wide housekeeping of busy widgets now, before there is a page.

    It is a task that never ends. Panel begins it with the first event of any widget, and a task keeps the context it
    was begun in: the whole page of the first visitor would stay in memory.
    """
    IOLoop.current().add_callback(pn.state.add_periodic_callback, _nothing, period=1, count=1)


def _nothing() -> None:
    """An event is enough."""
