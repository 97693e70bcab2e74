"""Page ids: the server issues them, and a WebSocket joins a page only from the browser that requested it.

A page is a Bokeh session. Bokeh accepts the id of a session from a query argument, from a header and from the token of
the WebSocket, and creates a session for any id that it does not know. A stranger could prepare a page and send a link
to it. Here the id always comes from the server: access.py refuses requests that name one, and a WebSocket with an
unknown id is closed with GONE, so that its page reloads.

The GET of a page sets a cookie with a random key unless the request brings one, and the page is bound to that key; the
WebSocket must bring the same cookie. The cookie is SameSite=Strict: a request that a link of another site causes does
not carry it. The browser may then have a key that the server cannot see. Therefore a new key gets an additional
cookie instead of replacing the old one, and the next answer deletes cookies with a key that no page uses.

A browser stores no such cookie for a page in a frame of another site. With the setting `embed`, a page that no browser
with a cookie has joined may be joined without one.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from bokeh.server.session import ServerSession
from bokeh.server.tornado import BokehTornado
from bokeh.server.views import ws
from bokeh.util.token import get_session_id
from panel.io.server import DocHandler
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from app.upstream.internals import wrap_open
from compute.cli.settings import current

COOKIE = "fieldlab_browser"  # with the port, as cookies are shared by the servers of a host, and eight random digits
PORT = re.compile(r":([0-9]{1,5})$", re.ASCII)
KEY = re.compile(r"[\w-]{43}", re.ASCII)
KEY_BYTES = 32
MOST_COOKIES = 20  # of a request that are read
TOKEN_LIFETIME = 7 * 24 * 3600  # seconds for which a page's token is valid, so that its browser may reconnect
GONE = 4410  # close code of a WebSocket without an existing page: app/upstream/reconnecting.js reloads the page
NO_COOKIE = 4411  # close code of a WebSocket without the cookie: a reload would not help
MARK = "fieldlab_page_ids"
log = logging.getLogger(__name__)


@dataclass
class PageOwner:
    """The browser of a page.

    key: value of its cookie, None for a page that was joined without one; joined: whether a WebSocket has joined.
    """

    key: str | None
    joined: bool = False


class PageOwners:
    """The owners of all pages of this process, by session."""

    def __init__(self) -> None:
        self._owners: WeakKeyDictionary[ServerSession, PageOwner] = WeakKeyDictionary()

    def keys(self) -> set[str]:
        """Return the keys to which pages are bound."""
        return {owner.key for owner in self._owners.values() if owner.key is not None}

    def bind(self, session: ServerSession, keys: Iterable[str]) -> str:
        """Bind `session` to one of the keys that its request brings, or to a new one; return the key."""
        known, given = self.keys(), list(keys)
        key = next((one for one in given if one in known), None)
        key = key or (given[0] if given else secrets.token_urlsafe(KEY_BYTES))
        self._owners[session] = PageOwner(key)
        return key

    def join(self, session: ServerSession, keys: Iterable[str], embedded: bool) -> bool:
        """Return whether a WebSocket with these keys may join `session`.

        embedded: whether other sites may show pages in a frame.
        """
        owner, given = self._owners.get(session), set(keys)
        if owner is None:  # prepared in advance and still unsent
            return False
        if embedded and not given and not owner.joined:
            owner.key = None
        allowed = owner.key in given if owner.key is not None else embedded and not given
        owner.joined |= allowed
        return allowed


def keys_of(request: HTTPServerRequest) -> dict[str, str]:
    """Return the keys in the cookies of a request by the names of the cookies; malformed ones are left out."""
    start = cookie_start(request)
    found = {name: cookie.value for name, cookie in request.cookies.items() if name.startswith(start)}
    return {name: key for name, key in list(found.items())[:MOST_COOKIES] if KEY.fullmatch(key)}


def cookie_start(request: HTTPServerRequest) -> str:
    """Return the part that the names of all cookies of this server have in common."""
    port = PORT.search(request.host)
    return f"{COOKIE}_{port[1] if port else ''}_"


def names_session(request: HTTPServerRequest) -> bool:
    """Return whether a request names the session that it wants, by an argument or a header."""
    return bool({"bokeh-session-id", "bokeh-token"} & request.arguments.keys()) or "Bokeh-Session-Id" in request.headers


def install() -> None:
    """Bind the pages of this process to their browsers. Calling it twice has no further effect."""
    if getattr(DocHandler, MARK, False):
        return
    owners, get_session = PageOwners(), DocHandler.get_session
    prepare = ws.WSHandler.prepare

    async def get_bound_session(handler: DocHandler) -> ServerSession:
        """Return the session of a GET, bound to its browser."""
        session: ServerSession = await get_session(handler)
        keys = keys_of(handler.request)
        own = owners.bind(session, keys.values())
        if own not in keys.values():
            name = f"{cookie_start(handler.request)}{secrets.token_hex(4)}"
            handler.set_cookie(name, own, expires_days=None, **cookie_options(handler))
        delete_unused(handler, keys, owners.keys())
        return session

    async def prepare_websocket(handler: ws.WSHandler) -> None:
        """Delete unused cookies with the answer to a WebSocket, too: a reload may repeat the request of a link."""
        await prepare(handler)
        delete_unused(handler, keys_of(handler.request), owners.keys())

    def owned(opened: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """Return the function that opens a WebSocket only for the browser that owns its page."""

        async def open_if_owned(handler: ws.WSHandler, token: str) -> None:
            """Open a WebSocket if its page exists and belongs to its browser; else close it."""
            sessions = {one.id: one for one in handler.application_context.sessions}
            session, keys = sessions.get(get_session_id(token)), keys_of(handler.request)
            if session is None or session.destroyed:
                handler.close(GONE, "this page does not exist any more")
            elif not owners.join(session, keys.values(), bool(current().embed)):
                log.warning("closed a WebSocket to the page of another browser")
                handler.close(GONE if keys else NO_COOKIE, "this page belongs to another browser")
            else:
                await opened(handler, token)

        return open_if_owned

    DocHandler.get_session, ws.WSHandler.prepare = get_bound_session, prepare_websocket
    wrap_open(owned)  # the token is passed on here only
    BokehTornado.session_token_expiration = property(lambda _server: TOKEN_LIFETIME)
    setattr(DocHandler, MARK, True)


def cookie_options(handler: RequestHandler) -> dict[str, Any]:
    """Return the attributes of the cookies of a server, behind TLS with Secure."""
    prefix: str = cast(BokehTornado, handler.application).prefix
    options: dict[str, Any] = {"path": prefix or "/", "httponly": True, "samesite": "Strict"}
    return options | ({"secure": True} if handler.request.protocol == "https" else {})


def delete_unused(handler: RequestHandler, keys: Mapping[str, str], used: Collection[str]) -> None:
    """Delete the cookies of a request with keys that no page uses. keys: of the request, by names of their cookies."""
    for name, key in keys.items():
        if key not in used:
            handler.clear_cookie(name, **cookie_options(handler))
