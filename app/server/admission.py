"""Admission control: limit the number of pages before they are built; the open pages and the engines that they share.

A page costs 0.2 s of the builder's thread (builder.py), and some MB of memory until its session expires; a bare GET is
enough to build a page. So at most MAX_PENDING pages may wait for their browser to report that it is ready, at most half
of them for one address, and the total may not exceed the limit on open pages. All other requests get a response of a
few hundred bytes with the status 503 and create no session; the response reloads automatically. A WebSocket request
that would create a session is refused likewise, by closing the connection.

The wait is limited: a session with a connected browser that does not report within PATIENCE that it is ready is ended,
and its connections are closed, when the next new session is requested.

A closed page is kept for 15 to 32 s, because its browser may reconnect. When all seats are in use and a new session is
requested, the page that has been without a browser for longest is ended. A browser that reconnects to an ended page, or
after a restart of the server, gets a close code and reloads the page with the state in its address.

So a flood of GETs costs at most MAX_PENDING pages in the time that Bokeh keeps unused sessions (15 to 32 s): 10 to 20 %
of the builder's time. It can delay new visitors, but does not affect open pages.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, NamedTuple

from bokeh.protocol.exceptions import ProtocolError
from bokeh.server.connection import ServerConnection
from bokeh.server.contexts import ApplicationContext
from bokeh.server.views.doc_handler import DocHandler
from tornado.web import HTTPError, RequestHandler

from app.page.markup import filled
from app.server.page_ids import GONE
from app.upstream.internals import connections, discard, session_ids, socket_of
from compute.cli import settings
from compute.devices.backends import preferred
from compute.devices.devices import HOST
from compute.engine import EnginePool, Supervisor

CROWD = 8  # open pages; with more of them, each is refreshed less often


class SessionLimiter:
    """The open pages of this process, at most `limit` of them, and the engines that they use."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pages: dict[object, str] = {}
        self._engines: EnginePool | None = None

    @property
    def crowding(self) -> int:
        """Factor by which the refresh interval of a page grows under load: 1 for CROWD pages or fewer."""
        return max(1, -(-len(self.pages) // CROWD))

    @property
    def engines(self) -> EnginePool:
        """The pool of engines, created at first use."""
        if self._engines is None:
            self._engines = EnginePool()
            atexit.register(self._engines.close)
        return self._engines

    def started_engines(self) -> Mapping[str, Supervisor]:
        """Return the running engines by name; empty before the first use of `engines`."""
        return self._engines.list() if self._engines else {}

    def warm(self) -> None:
        """Start the engines of the first page in advance, without waiting for their processes.

        These are the host's engine and, if the preferred backend uses a GPU, the engine of the first GPU.
        """
        self.engines.get(HOST)  # before the search for GPUs, which takes up to 1 s
        if (name := preferred().engine()) != HOST:
            self.engines.get(name)

    @property
    def full(self) -> bool:
        """Whether no further page may be opened."""
        return len(self.pages) >= self.limit

    @property
    def ready(self) -> set[str]:
        """The ids of the sessions with open pages."""
        return set(self.pages.values())

    def add(self, page: object, session: str) -> None:
        """Register `page`, which belongs to the session with the id `session`, as open."""
        self.pages[page] = session

    def remove(self, page: object) -> None:
        """Remove `page`; does nothing if it was never added."""
        self.pages.pop(page, None)


def session_limit() -> int:
    """Return the limit on open pages: FIELDLAB_MAX_SESSIONS, or the setting `sessions`; ValueError for invalid text."""
    text = os.environ.get("FIELDLAB_MAX_SESSIONS", str(settings.current().sessions))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"FIELDLAB_MAX_SESSIONS must be a whole number of at least 1, not {text!r}")
    return int(text)


@cache
def session_limiter() -> SessionLimiter:
    """Return the limiter of this process."""
    return SessionLimiter(session_limit())


MAX_PENDING = 24  # limit on pages that wait for their browser to report that it is ready
PATIENCE = 60.0  # s for that report: 4 MB of scripts take 32 s at 1 Mbit/s, and a slow phone draws for as long again
BUSY_AGAIN, FULL_AGAIN = 4, 10  # least delay in s before a refused page reloads; the random delay is below twice that
MARK = "fieldlab_admission"
log = logging.getLogger(__name__)
REFUSED: Counter[str] = Counter()  # number of refused pages since the start, by reason: "full" or "busy"
BUSY = "Many pages are being opened", "This page retries in a few seconds."
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Fieldlab</title><style>
body {{ font: 18px/1.5 Roboto, Helvetica, Arial, sans-serif; max-width: 34em; margin: 15vh auto; padding: 0 24px; }}
body {{ color-scheme: light dark; }} h1 {{ font-size: 28px; }}
</style></head><body><h1>{title}</h1><p>{words}</p></body></html>
"""


def server_full(limit: int, then: str) -> tuple[str, str]:
    """Return the title and the text of a page that is refused because `limit` pages are open.

    then: sentence about the next attempt, by the visitor or automatic.
    """
    return "The server is full", (
        f"This server allows {limit} open browser tabs, so that each stays fast. Close a tab that you no longer "
        f"need. {then} The server's operator can raise the limit (setting sessions)."
    )


class NotAdmitted(ProtocolError, HTTPError):
    """A refused page, with the `title` and `words` of the response, and the least delay `again` in s before a retry."""

    def __init__(self, title: str, words: str, again: int) -> None:
        HTTPError.__init__(self, 503, reason="Service Unavailable")
        self.title, self.words, self.again = title, words, again

    def __str__(self) -> str:
        return self.title


class PendingPage(NamedTuple):
    """A page that waits for its browser: the address that requested it, and the time of the request in s."""

    address: str
    since: float


class Admission:
    """Admits sessions of one process; keeps the pages that wait for their browser, by session id."""

    def __init__(self, pages: SessionLimiter, clock: Callable[[], float] = time.monotonic) -> None:
        self._pages, self._clock = pages, clock
        self._pending: dict[str, PendingPage] = {}

    def late(self, alive: set[str]) -> list[str]:
        """Return the ids of the sessions that have waited for more than PATIENCE. alive: ids of all sessions."""
        self._look(alive)
        now = self._clock()
        return [name for name, one in self._pending.items() if now - one.since > PATIENCE]

    def admit(self, name: str, address: str, alive: set[str]) -> None:
        """Register the session `name` as waiting, or raise NotAdmitted at a limit. alive: ids of all sessions."""
        if self._pages.full:
            REFUSED["full"] += 1
            log.warning("a page was refused: %d of %d are open", len(self._pages.pages), self._pages.limit)
            words = server_full(self._pages.limit, "This page retries until there is room.")
            raise NotAdmitted(*words, again=FULL_AGAIN)
        self._look(alive)
        most = min(MAX_PENDING, self._pages.limit - len(self._pages.pages))
        if len(self._pending) >= most or not self._may_wait(address):
            REFUSED["busy"] += 1
            log.warning("a page was refused: %d wait for their browsers", len(self._pending))
            raise NotAdmitted(*BUSY, again=BUSY_AGAIN)
        self._pending[name] = PendingPage(address, self._clock())

    def lacks_a_seat(self, address: str, alive: set[str]) -> bool:
        """Return whether only the limit on pages refuses a new session of `address`. alive: ids of all sessions."""
        self._look(alive)
        return len(self._pages.pages) + len(self._pending) >= self._pages.limit and self._may_wait(address)

    def _may_wait(self, address: str) -> bool:
        """Return whether the limits on waiting pages, in all and for `address`, allow one more."""
        own = sum(one.address == address for one in self._pending.values())
        return len(self._pending) < MAX_PENDING and own < MAX_PENDING // 2

    def _look(self, alive: set[str]) -> None:
        """Remove sessions that are ready or have ended from the waiting ones."""
        unready = alive - self._pages.ready
        self._pending = {known: one for known, one in self._pending.items() if known in unready}


def install() -> None:
    """Check each new session of this process before it is built; a second call has no effect."""
    if getattr(ApplicationContext, MARK, False):
        return
    admission, create = Admission(session_limiter()), ApplicationContext.create_session_if_needed

    async def create_if_admitted(
        context: ApplicationContext, session_id: str, request: Any = None, token: str | None = None
    ) -> Any:
        """Replace Bokeh's create_session_if_needed; raise NotAdmitted for a refused session."""
        alive = session_ids(context)
        if session_id not in alive:
            if late := admission.late(alive):
                await end_late(context, late)
                alive = session_ids(context)
            address = getattr(request, "remote_ip", None) or ""
            if admission.lacks_a_seat(address, alive):  # end a page only if this admits the new one
                await end_longest_left(context, session_limiter().ready)
                alive = session_ids(context)
            admission.admit(session_id, address, alive)
        return await create(context, session_id, request, token)

    ApplicationContext.create_session_if_needed = create_if_admitted
    DocHandler.write_error = _explained(DocHandler.write_error)
    setattr(ApplicationContext, MARK, True)


async def end_late(context: ApplicationContext, names: Collection[str]) -> None:
    """End the sessions with these ids, and their connections.

    A browser that is only slow reloads its page, as after a reconnect to an ended page.
    """
    for session in [one for one in context.sessions if one.id in names]:
        log.warning("ended a page that was not drawn within %d s", PATIENCE)
        for connection in connections(session):
            _hang_up(connection)
        await discard(context, session)


def _hang_up(connection: ServerConnection) -> None:
    """Close a connection without waiting for WebSocket's closing handshake: its browser may never read or answer."""
    handler = socket_of(connection)
    protocol = handler.ws_connection
    handler.close(GONE, "this page was not drawn in time")
    handler.on_close()  # Tornado calls it again later, which has no effect in Bokeh
    handler.connection = None
    if protocol is not None:
        protocol.stream.close()


async def end_longest_left(context: ApplicationContext, ready: set[str]) -> None:
    """End the page that has been without a browser for longest; does nothing if all pages in `ready` have browsers."""
    left = [one for one in context.sessions if one.id in ready and not one.connection_count]
    if left:
        await discard(context, max(left, key=lambda one: one.milliseconds_since_last_unsubscribe))


def _explained(write_error: Any) -> Any:
    """Return a replacement of `write_error` that responds to NotAdmitted with an HTML page that explains the reason."""

    def explain(handler: RequestHandler, status_code: int, **given: Any) -> None:
        """Write the response to a failed request."""
        trouble = given.get("exc_info", (None, None))[1]
        if not isinstance(trouble, NotAdmitted):
            write_error(handler, status_code, **given)
            return
        handler.set_header("Content-Type", "text/html; charset=utf-8")
        handler.set_header("Cache-Control", "no-store")
        again = str(random.randrange(trouble.again, 2 * trouble.again))  # spreads the retries of many browsers
        for header in ("Retry-After", "Refresh"):
            handler.set_header(header, again)
        handler.finish(filled(PAGE, title=trouble.title, words=trouble.words))

    return explain
