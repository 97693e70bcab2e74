"""When Python looks through all of its memory for what nobody uses any more, which holds the loop of all tabs.

That takes time in proportion to everything there is: 0.4 s with 16 tabs, 0.9 s with 40. Python does it by itself as
pages are opened, Bokeh whenever a session ends, Panel a few seconds after that. Here it is done when tabs were closed,
some of them at a time: what closed ones leave is kept until they are a quarter as many as the open ones. Young objects
are collected as ever.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import panel.io.document
from bokeh.application import Application
from bokeh.application.handlers.document_lifecycle import DocumentLifecycleHandler

from app.admission import session_limiter

log = logging.getLogger(__name__)
SHARE = 4  # open pages for each closed one that is worth it
RARELY = 500  # collections of what is not so young any more, 3.5 million new objects, after which Python does it anyway


class Collector:
    """Counts sessions that have ended, and collects what they leave. pages: how many pages are open."""

    def __init__(self, pages: Callable[[], int]) -> None:
        self._pages = pages
        self.ended = 0  # since the last time

    def session_ended(self, session_context: Any) -> None:
        """Do what Bokeh does at the end of a session, but for looking through all memory."""
        document = session_context._document  # noqa: SLF001 as Bokeh does
        callbacks, document.session_destroyed_callbacks = document.session_destroyed_callbacks, set()
        for callback in callbacks:
            try:
                callback(session_context)
            except Exception:
                log.exception("the end of a session")
        self.ended += 1

    def look(self) -> None:
        """Collect, if enough sessions have ended."""
        if self.ended and SHARE * self.ended >= self._pages():
            self.ended = 0
            gc.collect()

    def install(self, application: Application) -> None:
        """Take the place of Bokeh's collection at the end of each session of `application`, Panel's, and Python's."""
        gc.set_threshold(*gc.get_threshold()[:2], RARELY)
        panel.io.document._garbage_collect = self.look  # noqa: SLF001 called a while after sessions have ended
        for handler in application.handlers:
            if isinstance(handler, DocumentLifecycleHandler):
                handler._on_session_destroyed = self.session_ended  # noqa: SLF001 it offers no other place


@cache
def collector() -> Collector:
    """This process's collector."""
    return Collector(lambda: len(session_limiter().pages))
