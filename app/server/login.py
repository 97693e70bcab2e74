"""Login and logout for `--auth`, replacing Panel's handlers.

`POST /login` with a correct name and password creates a login: a random key, sent to the browser as a cookie and stored
in memory with the user's name. A login ends by `POST /logout`, by another login of the same browser, after
`config.oauth_expiry` days (1), or when the process ends. All copies of the cookie are then invalid, and the WebSockets
of its pages are closed. Panel's cookie is a signed user name, which a server cannot revoke.

The cookie is HttpOnly, Secure over TLS, and limited to the server's prefix. It is SameSite=Lax, not Strict: a link on a
course page must find the user logged in. Browsers send a Lax cookie with links of other sites but not with their forms,
frames and scripts; forms of other sites also get 403 (app/server/fetch_metadata.py).

The form contains the address to open after the login. Only paths below the prefix are accepted, and the redirect is
relative to the form's address, so it cannot lead to another server.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast
from urllib.parse import urlencode
from weakref import WeakSet

import jinja2
import panel as pn
from bokeh.server.tornado import BokehTornado
from panel.auth import BasicAuthProvider, BasicLoginHandler, LogoutHandler
from panel.io.resources import BASIC_LOGIN_TEMPLATE, CDN_DIST
from tornado.web import RequestHandler
from tornado.websocket import WebSocketHandler

from app.server import access
from app.server.page_ids import GONE
from app.upstream.internals import is_valid_login, login_address
from compute.cli import settings

COOKIE = "fieldlab_login"
DAY = 86_400  # s
MOST_LOGINS = 10_000  # above that the oldest ends
PAGE = Path(__file__).parent.parent / "static" / "login.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "
PATH = re.compile(r"(?:[\w.~-]+/)*[\w.~-]*", re.ASCII)  # below the prefix
QUERY = re.compile(r"[\w.~%=&+:;,@!/*()-]*", re.ASCII)
EMBEDDED = (
    "--auth with --embed: frames work only on pages of the same site (course.uni.example embeds lab.uni.example); "
    "browsers send no login cookie in frames of other sites"
)
log = logging.getLogger(__name__)


class Login:
    """The login of one browser. ends: in s of the clock; sockets: the connections of its pages."""

    def __init__(self, user: str, ends: float) -> None:
        self.user, self.ends = user, ends
        self.sockets: WeakSet[WebSocketHandler] = WeakSet()


class Logins:
    """The live logins by key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live: dict[str, Login] = {}  # the oldest first

    def begin(self, user: str, seconds: float) -> str:
        """Create a login that expires after `seconds`, and return its key."""
        now = self._clock()
        for old in [key for key, login in self._live.items() if login.ends <= now]:
            self.end(old)
        if len(self._live) >= MOST_LOGINS:
            self.end(next(iter(self._live)))
        key = secrets.token_urlsafe(32)
        self._live[key] = Login(user, now + seconds)
        return key

    def find(self, key: str) -> Login | None:
        """Return the login of a key, None if the key is unknown or expired."""
        login = self._live.get(key)
        return login if login is not None and self._clock() < login.ends else None

    def end(self, key: str) -> None:
        """Remove a login and close the connections of its pages. Unknown keys are ignored."""
        login = self._live.pop(key, None)
        for socket in list(login.sockets) if login is not None else ():
            socket.close(GONE, "logged out")  # the page reloads and shows the login form


@cache
def logins() -> Logins:
    """Return the logins of this process."""
    return Logins()


def user_of(handler: RequestHandler) -> str | None:
    """Return the user of a request's login cookie, or None; register a WebSocket with the login."""
    login = logins().find(handler.get_cookie(COOKIE, "") or "")
    if login is None:
        return None
    if isinstance(handler, WebSocketHandler):
        login.sockets.add(handler)
    return login.user


def own_path(text: str, prefix: str) -> str:
    """Return the part of `text`, a path and query, below the prefix; "" for any other text."""
    path, _, query = text.partition("?")
    if not path.startswith(f"{prefix}/"):
        return ""
    below = path.removeprefix(f"{prefix}/")
    if not PATH.fullmatch(below) or {".", ".."} & set(below.split("/")) or not QUERY.fullmatch(query):
        return ""
    return f"{below}?{query}" if query else below


def install() -> None:
    """Replace Panel's handlers if basic authentication is enabled. Harmless if called twice."""
    if not pn.config.basic_auth or pn.config.oauth_provider:
        return
    if settings.current().embed:
        log.warning(EMBEDDED)
    BasicAuthProvider.get_user = property(lambda _provider: user_of)
    BasicLoginHandler.get, BasicLoginHandler.post = _show_form, _log_in
    LogoutHandler.get, LogoutHandler.post = _confirm, _log_out


def _show_form(handler: BasicLoginHandler) -> None:
    """Answer GET /login."""
    target = own_path(handler.get_argument("next", ""), handler.application.prefix)
    _write(handler, "login", target=target, error=bool(handler.get_argument("error", "")))


def _log_in(handler: BasicLoginHandler) -> None:
    """Answer POST /login: create a login and redirect to the requested page, or back to the form."""
    prefix, user = handler.application.prefix, handler.get_argument("username", "")
    target = own_path(f"{prefix}/{handler.get_argument('next', '')}", prefix)
    if not user or not is_valid_login(handler, user, handler.get_argument("password", "")):
        again = urlencode({"error": "1", "next": f"{prefix}/{target}"})
        handler.redirect(f"{_name(login_address(handler))}?{again}", status=303)
        return
    logins().end(handler.get_cookie(COOKIE, "") or "")
    days = float(pn.config.oauth_expiry)  # a text if the environment says it
    secure = handler.request.protocol == "https"
    kept = {"path": _cookie_path(handler), "httponly": True, "secure": secure, "samesite": "Lax"}
    handler.set_cookie(COOKIE, logins().begin(user, days * DAY), expires_days=days, **kept)
    handler.redirect(f"./{target}", status=303)


def _confirm(handler: LogoutHandler) -> None:
    """Answer GET /logout with a button: a link must not end a login."""
    _write(handler, "logout")


def _log_out(handler: LogoutHandler) -> None:
    """Answer POST /logout: end the login and redirect to the form."""
    logins().end(handler.get_cookie(COOKIE, "") or "")
    handler.clear_cookie(COOKIE, path=_cookie_path(handler))
    handler.redirect(_name(login_address(handler)), status=303)


def _cookie_path(handler: RequestHandler) -> str:
    """Return the path of the cookie: Panel's option `cookie_path`, else the server's prefix."""
    chosen: str = pn.config.cookie_path
    prefix: str = cast(BokehTornado, handler.application).prefix
    return prefix or "/" if chosen == "/" else chosen


def _name(endpoint: str) -> str:
    """Return the last part of an endpoint, for relative links between these pages."""
    return endpoint.rpartition("/")[2]


@cache
def _page() -> jinja2.Template:
    """Return the template of both pages, with autoescaping."""
    return jinja2.Environment(autoescape=True).from_string(PAGE.read_text(encoding="utf-8"))


def _write(handler: RequestHandler, form: str, target: str = "", error: bool = False) -> None:
    """Write the login or logout page; the login form by Panel's option `basic_login_template` if set."""
    handler.set_header("Cache-Control", "no-store")
    chosen = getattr(handler, "_login_template", BASIC_LOGIN_TEMPLATE)
    if chosen is not BASIC_LOGIN_TEMPLATE:
        words = "Wrong name or password." if error else ""
        endpoint = _name(handler.request.path)
        handler.finish(chosen.render(login_endpoint=endpoint, errormessage=words, PANEL_CDN=CDN_DIST, next=target))
        return
    handler.set_header("Content-Security-Policy", f"{POLICY}frame-ancestors {access.frames()}")
    handler.finish(_page().render(form=form, endpoint=_name(handler.request.path), target=target, error=error))
