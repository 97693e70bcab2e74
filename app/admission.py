"""Who gets a page: asked before anything of it is built.

A page costs a fifth of a second of the loop that all tabs share, and some MB until its browser has been silent for a
while; a bare GET is enough to have one built. So there may be at most WAITING pages whose browser has not yet said that
it is ready, half of them for one address, and none above the cap on open pages. Everybody else gets a few hundred bytes
with the status 503, which is no session; the page for "just now" tries again by itself. A WebSocket, which would have a
session built as well, is closed.

So a flood of GETs costs at most WAITING pages in the time that bokeh keeps unused sessions (15 to 32 s): a tenth to a
fifth of the loop. What it can do is to keep newcomers waiting; who has a page keeps it.
"""

from __future__ import annotations

from typing import Any

from bokeh.protocol.exceptions import ProtocolError
from bokeh.server.contexts import ApplicationContext
from bokeh.server.views.autoload_js_handler import AutoloadJsHandler
from bokeh.server.views.doc_handler import DocHandler
from tornado.web import HTTPError, RequestHandler

from app.markup import filled
from app.session_limiter import SessionLimiter, session_limiter

WAITING = 24  # pages that are built and whose browser has not yet said that it is ready
AGAIN = 4  # s after which a browser tries again by itself
MARK = "fieldlab_admission"
FULL = (
    "Every seat is taken",
    (
        "This Fieldlab serves {limit} browser tabs at a time, so that it stays quick for each of them. Close a tab "
        "that is no longer needed, wait half a minute and reload this page. Who runs the server can allow more with "
        "FIELDLAB_MAX_SESSIONS."
    ),
)
BUSY = "Many pages are being opened just now", "This one tries again by itself in a few seconds."
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Fieldlab</title><style>
body {{ font: 18px/1.5 Roboto, Helvetica, Arial, sans-serif; max-width: 34em; margin: 15vh auto; padding: 0 24px; }}
body {{ color-scheme: light dark; }} h1 {{ font-size: 28px; }}
</style></head><body><h1>{title}</h1><p>{words}</p></body></html>
"""


class NoRoom(ProtocolError, HTTPError):
    """A page that is not built; `title` and `words` say why, `again` whether trying soon helps."""

    def __init__(self, title: str, words: str, again: bool) -> None:
        HTTPError.__init__(self, 503, reason="Service Unavailable")
        self.title, self.words, self.again = title, words, again

    def __str__(self) -> str:
        return self.title


class Admission:
    """The pages of one process that wait for their browser: ids of sessions, each with the address that asked."""

    def __init__(self, pages: SessionLimiter) -> None:
        self._pages = pages
        self._waiting: dict[str, str] = {}

    def admit(self, name: str, address: str, alive: set[str]) -> None:
        """Count the session `name` as waiting; NoRoom if there may be no other. alive: ids of all sessions."""
        if self._pages.full:
            raise NoRoom(FULL[0], FULL[1].format(limit=self._pages.limit), again=False)
        there = alive - self._pages.ready
        self._waiting = {known: whose for known, whose in self._waiting.items() if known in there}
        most = min(WAITING, self._pages.limit - len(self._pages.pages))
        if len(self._waiting) >= most or list(self._waiting.values()).count(address) >= WAITING // 2:
            raise NoRoom(*BUSY, again=True)
        self._waiting[name] = address


def install() -> None:
    """Ask before any session of this process is built; harmless if called twice."""
    if getattr(ApplicationContext, MARK, False):
        return
    admission, create = Admission(session_limiter()), ApplicationContext.create_session_if_needed

    async def create_if_admitted(
        context: ApplicationContext, session_id: str, request: Any = None, token: str | None = None
    ) -> Any:
        """Bokeh's create_session_if_needed; NoRoom for a new session that is not admitted."""
        alive = {*context._sessions, *context._pending_sessions}  # noqa: SLF001 bokeh tells it nowhere else
        if session_id not in alive:
            admission.admit(session_id, getattr(request, "remote_ip", None) or "", alive)
        return await create(context, session_id, request, token)

    ApplicationContext.create_session_if_needed = create_if_admitted
    for handler in (DocHandler, AutoloadJsHandler):
        handler.write_error = _explained(handler.write_error)
    setattr(ApplicationContext, MARK, True)


def _explained(write_error: Any) -> Any:
    """`write_error`, but why there is no room is said on a page of its own."""

    def explain(handler: RequestHandler, status_code: int, **given: Any) -> None:
        """The reply to a request that failed."""
        trouble = given.get("exc_info", (None, None))[1]
        if not isinstance(trouble, NoRoom):
            write_error(handler, status_code, **given)
            return
        handler.set_header("Content-Type", "text/html; charset=utf-8")
        handler.set_header("Cache-Control", "no-store")
        handler.set_header("Retry-After", str(AGAIN if trouble.again else 30))
        if trouble.again:
            handler.set_header("Refresh", str(AGAIN))
        handler.finish(filled(PAGE, title=trouble.title, words=trouble.words))

    return explain
