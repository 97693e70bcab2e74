"""Who may talk to this server, and at which address: hosts on the allow-list only, with headers that keep a browser
careful.

Tornado accepts a WebSocket whose Origin equals its Host before bokeh's allow-list is asked, so a name that an attacker
re-binds to this machine would pass. Checking the Host itself closes that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from bokeh.server.views.doc_handler import DocHandler
from bokeh.server.views.ws import WSHandler
from tornado.web import HTTPError, RequestHandler

LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}  # names that nobody else can bind to this machine
MARK = "fieldlab_guard"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'self'; object-src 'none'; base-uri 'self'",
}


def host_name(host: str) -> str:
    """The name in a Host header, without its port, in lower case; "" if there is none."""
    try:
        name = urlsplit(f"//{host.strip()}").hostname or ""
    except ValueError:
        return ""
    return f"[{name}]" if ":" in name else name.lower()


def is_allowed(host: str, allowed: Iterable[str]) -> bool:
    """Whether the Host header `host` names this machine's loopback or a host of the allow-list ("*" allows all)."""
    names = {host_name(entry) for entry in allowed}
    return host_name(host) in LOOPBACK | names or any(name.startswith("*") for name in names)


def install() -> None:
    """Check Host (and Origin) before a WebSocket is opened, and send careful headers; harmless if called twice."""
    if getattr(WSHandler, MARK, False):
        return
    prepare = WSHandler.prepare

    def guarded(handler: WSHandler) -> Any:
        allowed = handler.application.websocket_origins
        origin = handler.request.headers.get("Origin")
        names = [handler.request.host] + ([urlsplit(origin).netloc] if origin else [])
        if not all(is_allowed(name, allowed) for name in names):
            raise HTTPError(403, reason="this host is not on the allow-list")
        return prepare(handler)

    def careful(handler: RequestHandler) -> None:
        for name, value in HEADERS.items():
            handler.set_header(name, value)

    WSHandler.prepare = guarded
    DocHandler.prepare = _straight(DocHandler.prepare)
    DocHandler.set_default_headers = careful
    setattr(WSHandler, MARK, True)


def _straight(prepare: Callable[[DocHandler], Any]) -> Callable[[DocHandler], Any]:
    """`prepare`, but the address of an app with a slash behind it leads to the one without.

    All that a page needs has an address relative to its own: with the slash, nothing of it would be found.
    """

    def straight(handler: DocHandler) -> Any:
        path, _, query = handler.request.uri.partition("?")
        if handler.application_context.url != "/" and path.endswith("/"):
            name = path.rstrip("/").rpartition("/")[2]
            return handler.redirect(f"../{name}" + (f"?{query}" if query else ""))
        return prepare(handler)

    return straight
