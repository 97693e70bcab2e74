"""Log-in and log-out for `--auth`, in place of Panel's.

`POST /login` with a right name and password starts a login: a random key, which the browser gets as a cookie and the
server keeps with the user's name. A request belongs to the user whose login its cookie names. A login ends with
`POST /logout`, with another log-in of the same browser, after `config.oauth_expiry` days (1), or with the server's
process; then its cookie, and every copy of it, is worthless, and the connections of its pages are closed. Panel signs
the user's name instead and cannot take that back.

The cookie is HttpOnly, Secure behind TLS, and limited to the server's prefix. It is SameSite=Lax, not Strict: a link on
a course's page must find the user logged in. Lax sends it with such links only, and what they can do is to open a page.
Forms of other sites are refused before they get here (app/server/fetch_metadata.py).

The address to open after the log-in comes with the form. Only paths below the prefix count, and the redirect is
relative to the form's own address, so it cannot leave the server.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from urllib.parse import urlencode
from weakref import WeakSet

import jinja2
import panel as pn
from panel.auth import BasicAuthProvider, BasicLoginHandler, LogoutHandler
from panel.io.resources import BASIC_LOGIN_TEMPLATE, CDN_DIST
from tornado.web import RequestHandler
from tornado.websocket import WebSocketHandler

from app import access
from app.admission import GONE
from compute import settings

COOKIE = "fieldlab_login"
DAY = 86_400  # s
MOST_LOGINS = 10_000  # the oldest end first; only users with a password start one
PAGE = Path(__file__).parent.parent / "static" / "login.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "
PATH = re.compile(r"(?:[\w.~-]+/)*[\w.~-]*", re.ASCII)  # below the prefix
QUERY = re.compile(r"[\w.~%=&+:;,@!/*()-]*", re.ASCII)
EMBEDDED = (
    "auth and embed: a page of another site cannot show Fieldlab in a frame, as browsers send no login cookie there. "
    "Frames work on pages of the same site, by its registered name: course.uni.example shows lab.uni.example"
)
log = logging.getLogger(__name__)


class Login:
    """One browser that has logged in as `user`; `ends` in s of the clock; `sockets`: its pages' connections."""

    def __init__(self, user: str, ends: float) -> None:
        self.user, self.ends = user, ends
        self.sockets: WeakSet[WebSocketHandler] = WeakSet()


class Logins:
    """The logins of this process by their keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live: dict[str, Login] = {}  # the oldest first

    def begin(self, user: str, seconds: float) -> str:
        """Start a login that lasts so many seconds, and return its key."""
        now = self._clock()
        for old in [key for key, login in self._live.items() if login.ends <= now]:
            self.end(old)
        if len(self._live) >= MOST_LOGINS:
            self.end(next(iter(self._live)))
        key = secrets.token_urlsafe(32)
        self._live[key] = Login(user, now + seconds)
        return key

    def find(self, key: str) -> Login | None:
        """Return the login of that key, None if there is none or it has expired."""
        login = self._live.get(key)
        return login if login is not None and self._clock() < login.ends else None

    def end(self, key: str) -> None:
        """End a login and close the connections of its pages; harmless if there is none."""
        login = self._live.pop(key, None)
        for socket in list(login.sockets) if login is not None else ():
            socket.close(GONE, "logged out")  # the page reloads, and asks for a password


@cache
def logins() -> Logins:
    """Return the logins of this process."""
    return Logins()


def user_of(handler: RequestHandler) -> str | None:
    """Return the user whose login the cookie of a request names, or None; a WebSocket is closed with that login."""
    login = logins().find(handler.get_cookie(COOKIE, "") or "")
    if login is None:
        return None
    if isinstance(handler, WebSocketHandler):
        login.sockets.add(handler)
    return login.user


def own_path(text: str, prefix: str) -> str:
    """Return what `text`, the path and query of an address of this server, has behind the prefix; "" for any other."""
    path, _, query = text.partition("?")
    if not path.startswith(f"{prefix}/"):
        return ""
    below = path.removeprefix(f"{prefix}/")
    if not PATH.fullmatch(below) or {".", ".."} & set(below.split("/")) or not QUERY.fullmatch(query):
        return ""
    return f"{below}?{query}" if query else below


def install() -> None:
    """Replace Panel's log-in if the server asks for passwords. On the loop; harmless if called twice."""
    if not pn.config.basic_auth or pn.config.oauth_provider:
        return
    if settings.current().embed:
        log.warning(EMBEDDED)
    BasicAuthProvider.get_user = property(lambda _provider: user_of)
    BasicLoginHandler.get, BasicLoginHandler.post = _show_form, _log_in
    LogoutHandler.get, LogoutHandler.post = _ask, _log_out


def _show_form(handler: BasicLoginHandler) -> None:
    """Answer GET /login."""
    asked = own_path(handler.get_argument("next", ""), handler.application.prefix)
    _write(handler, "login", asked=asked, error=bool(handler.get_argument("error", "")))


def _log_in(handler: BasicLoginHandler) -> None:
    """Answer POST /login: start a login and open the page that was asked for, or show the form again."""
    prefix, user = handler.application.prefix, handler.get_argument("username", "")
    asked = own_path(f"{prefix}/{handler.get_argument('next', '')}", prefix)
    if not user or not handler._validate(user, handler.get_argument("password", "")):  # noqa: SLF001 Panel's check
        again = urlencode({"error": "1", "next": f"{prefix}/{asked}"})
        handler.redirect(f"{_name(handler._login_endpoint)}?{again}", status=303)  # noqa: SLF001 of Panel's options
        return
    logins().end(handler.get_cookie(COOKIE, "") or "")
    days = float(pn.config.oauth_expiry)  # a text if the environment says it
    secure = handler.request.protocol == "https"
    kept = {"path": _cookie_path(handler), "httponly": True, "secure": secure, "samesite": "Lax"}
    handler.set_cookie(COOKIE, logins().begin(user, days * DAY), expires_days=days, **kept)
    handler.redirect(f"./{asked}", status=303)


def _ask(handler: LogoutHandler) -> None:
    """Answer GET /logout with a button: a link must not log anybody out."""
    _write(handler, "logout")


def _log_out(handler: LogoutHandler) -> None:
    """Answer POST /logout: end the login, and show the form."""
    logins().end(handler.get_cookie(COOKIE, "") or "")
    handler.clear_cookie(COOKIE, path=_cookie_path(handler))
    handler.redirect(_name(handler._login_endpoint), status=303)  # noqa: SLF001 of Panel's options


def _cookie_path(handler: RequestHandler) -> str:
    """Return the path of the cookie: Panel's option, else the server's prefix."""
    chosen: str = pn.config.cookie_path
    return handler.application.prefix or "/" if chosen == "/" else chosen


def _name(endpoint: str) -> str:
    """Return the last part of an endpoint, by which the pages here refer to each other."""
    return endpoint.rpartition("/")[2]


@cache
def _page() -> jinja2.Template:
    """Return the template of both pages; what is filled in is escaped."""
    return jinja2.Environment(autoescape=True).from_string(PAGE.read_text(encoding="utf-8"))


def _write(handler: RequestHandler, form: str, asked: str = "", error: bool = False) -> None:
    """Write one of the pages; the log-in by the template of the server's options, if one was chosen."""
    handler.set_header("Cache-Control", "no-store")
    chosen = getattr(handler, "_login_template", BASIC_LOGIN_TEMPLATE)
    if chosen is not BASIC_LOGIN_TEMPLATE:
        words = "This name and password do not go together." if error else ""
        endpoint = _name(handler.request.path)
        handler.finish(chosen.render(login_endpoint=endpoint, errormessage=words, PANEL_CDN=CDN_DIST, next=asked))
        return
    handler.set_header("Content-Security-Policy", f"{POLICY}frame-ancestors {access.frames()}")
    handler.finish(_page().render(form=form, endpoint=_name(handler.request.path), asked=asked, error=error))
