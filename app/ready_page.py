"""A page that is built before anybody asks for it, so that its visitor waits for the browser alone.

A page with its first lab takes half a second to build. One is kept ready: who asks for the plain address gets it, and
his browser draws the lab with the rest of the page; an engine is asked for once that browser has said a word. Another
is built a while later, once nobody waits for something to be built, unless it is a CROWD that its building would slow.
Who comes meanwhile, or with a link, has a page built that is as light as it can be.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from bokeh.document import Document
from bokeh.server.contexts import ApplicationContext
from bokeh.server.session import ServerSession
from bokeh.util.token import generate_session_id
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.ioloop import IOLoop

from app.admission import CROWD, session_limiter
from app.builder import builder
from app.panel_workarounds import hand_over
from app.upstream.fixes import chosen

log = logging.getLogger(__name__)
PAUSE = 10.0  # seconds from a visitor to the next page that is built ahead: his own is drawn by then
NOBODY = HTTPHeaders({"Host": "localhost"})  # who asks for it


class ReadyPage:
    """The session of a page that nobody has asked for yet, if there is one."""

    def __init__(self) -> None:
        self._session: ServerSession | None = None
        self._context: ApplicationContext | None = None
        self._awaited = False  # whether one will be built soon
        self._name = ""  # of the session that is being built

    async def build(self, context: ApplicationContext) -> None:
        """Have a page ready for the application of `context`; if it cannot be built, that is logged."""
        self._context, self._awaited = context, False
        if self._session is not None or "ready_page" not in chosen():
            return
        limiter = session_limiter()
        if limiter.full or len(limiter.pages) >= CROWD or builder().busy:
            self._build_later(context)  # built among 16 tabs, it made one in twenty of their answers take 0.2 s
            return
        line = RequestStartLine("GET", context.url or "/", "HTTP/1.1")
        self._name, request = generate_session_id(), HTTPServerRequest(start_line=line, headers=NOBODY)
        try:
            session = await context.create_session_if_needed(self._name, request)
        except Exception:
            log.exception("no page is ready ahead of its visitor")
            return
        finally:
            self._name = ""
        if session.document.roots:  # none: something failed, which was logged, and the next visitor will see
            session.block_expiration()  # it waits as long as it takes
            self._session = session

    def _build_later(self, context: ApplicationContext) -> None:
        """Build another in a while, once however many ask for it."""
        if not self._awaited:
            self._awaited = True
            IOLoop.current().call_later(PAUSE, self.build, context)

    @property
    def document(self) -> Document | None:
        """The document of the page that is ready."""
        return self._session.document if self._session is not None else None

    def builds(self, name: str) -> bool:
        """Whether the session `name` is the one that is being built ahead, for no visitor."""
        return name == self._name

    def take(self, context: ApplicationContext, name: str, request: Any, token: str | None) -> ServerSession | None:
        """Return the page that is ready, as the session `name` of `request`; None if there is none for it."""
        if not is_plain(request, context.url) or context is not self._context:
            return None
        session, self._session = self._session, None
        self._build_later(context)
        if session is not None:
            hand_over(session, context, name, request, token)
        return session


def is_plain(request: Any, address: str | None) -> bool:
    """Whether `request` is for the page at `address` as it always begins: without a link, and no WebSocket."""
    return request is not None and request.path == address and not request.arguments


@cache
def ready_page() -> ReadyPage:
    """This process's page that is ready."""
    return ReadyPage()
