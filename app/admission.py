"""Who gets a page, asked before anything of it is built; how many pages are open, and the engines that they share.

A page costs a fifth of a second of the builder's thread (app/builder.py), and some MB until its browser has been silent
for a while; a bare GET is enough to have one built. So there may be at most WAITING pages whose browser has not yet
said that it is ready, half of them for one address, and none above the cap on open pages. Everybody else gets a few
hundred bytes with the status 503, which is no session; that page tries again by itself. A WebSocket, which would have a
session built as well, is closed.

Nor does it wait for ever: a session whose browser holds a connection and has not said within PATIENCE that it is ready
is ended when the next newcomer comes, and its connections are closed.

A closed page lives on for 15 to 32 s, as its browser may come back. It holds no seat that somebody else wants: when all
are taken, the one that has been without a browser for longest is ended. Who comes back to such a page, or after a
restart of the server, is told that it is gone, and loads it anew with the state in its address.

So a flood of GETs costs at most WAITING pages in the time that bokeh keeps unused sessions (15 to 32 s): a tenth to a
fifth of the builder. What it can do is to keep newcomers waiting; who has a page keeps it.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from bokeh.protocol.exceptions import ProtocolError
from bokeh.server.connection import ServerConnection
from bokeh.server.contexts import ApplicationContext
from bokeh.server.views.doc_handler import DocHandler
from tornado.web import HTTPError, RequestHandler

from app.markup import filled
from app.server.page_ids import GONE
from app.upstream.internals import connections, discard, session_ids, socket_of
from compute import settings
from compute.backends import preferred
from compute.engine import EnginePool, Supervisor

if TYPE_CHECKING:
    from app.page import Page


CROWD = 8  # open pages: each is refreshed more seldom where there are more


class SessionLimiter:
    """The engines of this process and the pages that use them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pages: dict[Page, str] = {}
        self._engines: EnginePool | None = None

    @property
    def crowding(self) -> int:
        """How many times more seldom a page is refreshed than if it was alone: 1 for CROWD pages or fewer."""
        return max(1, -(-len(self.pages) // CROWD))

    @property
    def engines(self) -> EnginePool:
        """The engines, started when first asked for."""
        if self._engines is None:
            self._engines = EnginePool()
            atexit.register(self._engines.close)
        return self._engines

    def started_engines(self) -> Mapping[str, Supervisor]:
        """Those that run, by name; none before the first is asked for."""
        return self._engines.list() if self._engines else {}

    def warm(self) -> None:
        """Start the engines that the first visitor's page uses, so that he does not wait for their processes.

        The host's, and that of the first GPU where labs compute on one. Does not wait for them.
        """
        self.engines.get("host")
        if (device := preferred().device) != "host":
            self.engines.get(f"{device}:0")

    @property
    def full(self) -> bool:
        """Whether no further page may be opened."""
        return len(self.pages) >= self.limit

    @property
    def ready(self) -> set[str]:
        """Ids of the sessions whose pages are open."""
        return set(self.pages.values())

    def add(self, page: Page, session: str) -> None:
        """Count `page`, which belongs to the session of that id, as open."""
        self.pages[page] = session

    def remove(self, page: Page) -> None:
        """Forget `page`; harmless if it was never counted."""
        self.pages.pop(page, None)


def session_limit() -> int:
    """FIELDLAB_MAX_SESSIONS, or this server's setting; ValueError if it is not a positive whole number."""
    text = os.environ.get("FIELDLAB_MAX_SESSIONS", str(settings.current().sessions))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"FIELDLAB_MAX_SESSIONS must be a whole number of at least 1, not {text!r}")
    return int(text)


@cache
def session_limiter() -> SessionLimiter:
    """This process's limiter."""
    return SessionLimiter(session_limit())


WAITING = 24  # pages that are built and whose browser has not yet said that it is ready
PATIENCE = 60.0  # s in which it must: 4 MB of scripts take 32 at 1 Mbit/s, and a slow phone as long again to draw
BUSY_AGAIN, FULL_AGAIN = 4, 10  # s after which a browser tries again by itself, at least, and less than twice that
MARK = "fieldlab_admission"
log = logging.getLogger(__name__)
REFUSED: Counter[str] = Counter()  # pages that were not built, by "full" or "busy", since the start
BUSY = "Many pages are being opened just now", "This one tries again by itself in a few seconds."
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Fieldlab</title><style>
body {{ font: 18px/1.5 Roboto, Helvetica, Arial, sans-serif; max-width: 34em; margin: 15vh auto; padding: 0 24px; }}
body {{ color-scheme: light dark; }} h1 {{ font-size: 28px; }}
</style></head><body><h1>{title}</h1><p>{words}</p></body></html>
"""


def server_full(limit: int, then: str) -> tuple[str, str]:
    """Return the title and the words for who finds the server with as many pages as it may have, `limit`.

    then: what is to be done, or happens by itself.
    """
    return "Every seat is taken", (
        f"This Fieldlab serves {limit} browser tabs at a time, so that it stays quick for each of them. Close a tab "
        f"that is no longer needed. {then} Who runs the server can allow more: its setting sessions."
    )


class NotAdmitted(ProtocolError, HTTPError):
    """A page that is not built; `title` and `words` say why, `again` after how many seconds to try again at least."""

    def __init__(self, title: str, words: str, again: int) -> None:
        HTTPError.__init__(self, 503, reason="Service Unavailable")
        self.title, self.words, self.again = title, words, again

    def __str__(self) -> str:
        return self.title


class Waiting(NamedTuple):
    """A page that waits for its browser: the address that asked for it, and since when, in s of the clock."""

    address: str
    since: float


class Admission:
    """The pages of one process that wait for their browser, by the ids of their sessions."""

    def __init__(self, pages: SessionLimiter, clock: Callable[[], float] = time.monotonic) -> None:
        self._pages, self._clock = pages, clock
        self._waiting: dict[str, Waiting] = {}

    def late(self, alive: set[str]) -> list[str]:
        """Return the ids of the sessions that wait for longer than PATIENCE. alive: ids of all sessions."""
        self._look(alive)
        now = self._clock()
        return [name for name, one in self._waiting.items() if now - one.since > PATIENCE]

    def admit(self, name: str, address: str, alive: set[str]) -> None:
        """Count the session `name` as waiting; NotAdmitted if there may be no other. alive: ids of all sessions."""
        if self._pages.full:
            REFUSED["full"] += 1
            log.warning("a page was refused: %d of %d are open", len(self._pages.pages), self._pages.limit)
            words = server_full(self._pages.limit, "This page tries again by itself until there is room.")
            raise NotAdmitted(*words, again=FULL_AGAIN)
        self._look(alive)
        most = min(WAITING, self._pages.limit - len(self._pages.pages))
        if len(self._waiting) >= most or not self._may_wait(address):
            REFUSED["busy"] += 1
            log.warning("a page was refused: %d wait for their browsers", len(self._waiting))
            raise NotAdmitted(*BUSY, again=BUSY_AGAIN)
        self._waiting[name] = Waiting(address, self._clock())

    def lacks_a_seat(self, address: str, alive: set[str]) -> bool:
        """Whether a newcomer of `address` would be admitted if one more seat was free. alive: ids of all sessions."""
        self._look(alive)
        return len(self._pages.pages) + len(self._waiting) >= self._pages.limit and self._may_wait(address)

    def _may_wait(self, address: str) -> bool:
        """Whether one more page may wait, of all and of those of `address`."""
        own = sum(one.address == address for one in self._waiting.values())
        return len(self._waiting) < WAITING and own < WAITING // 2

    def _look(self, alive: set[str]) -> None:
        """Forget who waits no longer: he is ready, or gone."""
        there = alive - self._pages.ready
        self._waiting = {known: one for known, one in self._waiting.items() if known in there}


def install() -> None:
    """Ask before any session of this process is built for a visitor; harmless if called twice."""
    if getattr(ApplicationContext, MARK, False):
        return
    admission, create = Admission(session_limiter()), ApplicationContext.create_session_if_needed

    async def create_if_admitted(
        context: ApplicationContext, session_id: str, request: Any = None, token: str | None = None
    ) -> Any:
        """Bokeh's create_session_if_needed; NotAdmitted for a new session that is not admitted."""
        alive = session_ids(context)
        if session_id not in alive:
            if late := admission.late(alive):
                await end_late(context, late)
                alive = session_ids(context)
            address = getattr(request, "remote_ip", None) or ""
            if admission.lacks_a_seat(address, alive):  # no page is ended for who is not admitted even so
                await end_longest_left(context, session_limiter().ready)
                alive = session_ids(context)
            admission.admit(session_id, address, alive)
        return await create(context, session_id, request, token)

    ApplicationContext.create_session_if_needed = create_if_admitted
    DocHandler.write_error = _explained(DocHandler.write_error)
    setattr(ApplicationContext, MARK, True)


async def end_late(context: ApplicationContext, names: Collection[str]) -> None:
    """End the sessions of these ids, and the connections of their browsers.

    A browser that is only slow loads its page anew, as one that comes back to a page that is gone.
    """
    for session in [one for one in context.sessions if one.id in names]:
        log.warning("ended a page that was not drawn within %d s", PATIENCE)
        for connection in connections(session):
            _hang_up(connection)
        await discard(context, session)


def _hang_up(connection: ServerConnection) -> None:
    """End a connection now: its browser may read nothing, and answer nothing, for as long as it likes."""
    handler = socket_of(connection)
    protocol = handler.ws_connection
    handler.close(GONE, "this page was not drawn in time")
    handler.on_close()  # which Tornado calls later, once more: Bokeh then finds nothing to do
    handler.connection = None
    if protocol is not None:
        protocol.stream.close()


async def end_longest_left(context: ApplicationContext, ready: set[str]) -> None:
    """End the page whose browser left before all others did. Does nothing if each of the `ready` has its browser."""
    left = [one for one in context.sessions if one.id in ready and not one.connection_count]
    if left:
        await discard(context, max(left, key=lambda one: one.milliseconds_since_last_unsubscribe))


def _explained(write_error: Any) -> Any:
    """`write_error`, but why there is no room is said on a page of its own."""

    def explain(handler: RequestHandler, status_code: int, **given: Any) -> None:
        """The reply to a request that failed."""
        trouble = given.get("exc_info", (None, None))[1]
        if not isinstance(trouble, NotAdmitted):
            write_error(handler, status_code, **given)
            return
        handler.set_header("Content-Type", "text/html; charset=utf-8")
        handler.set_header("Cache-Control", "no-store")
        again = str(random.randrange(trouble.again, 2 * trouble.again))  # a hall does not try at the same moment
        for header in ("Retry-After", "Refresh"):
            handler.set_header(header, again)
        handler.finish(filled(PAGE, title=trouble.title, words=trouble.words))

    return explain
