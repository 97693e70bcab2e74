"""Host headers: syntax check, and support for IPv6 addresses.

A Host header is `NAME`, `NAME:PORT`, `[IPV6]` or `[IPV6]:PORT`. Tornado accepts more (`localhost:abc`), and Panel
splits the header at every colon. A request with a malformed header gets 400 before a page is built. `install` replaces
Panel's function, which fails for `[::1]:5006`, too. A Content-Security-Policy has no syntax for IPv6 addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tornado.httputil import HTTPServerRequest

from app.upstream.internals import wrap_location_params

HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~-]{1,253})(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
MOST_PORT = 65535
MARK = "fieldlab_hosts"


def malformed(request: HTTPServerRequest) -> tuple[int, str] | None:
    """Return status and reason if the Host header of a request is malformed, else None. It may be missing."""
    host = request.headers.get("Host", "")
    return (400, "The Host header must be NAME or NAME:PORT.") if host and not is_host(host) else None


def is_host(text: str) -> bool:
    """Return whether `text` is a well-formed Host header."""
    found = HOST.fullmatch(text)
    return found is not None and int(found["port"] or 0) <= MOST_PORT


def socket_sources(host: str) -> str:
    """Return the WebSocket sources of a Content-Security-Policy for a page at `host`, each after a space.

    Older browsers do not include WebSockets in 'self'. Browsers report an IPv6 address as an invalid source, so none
    is listed, and 'self' applies.
    """
    return f" ws://{host} wss://{host}" if is_host(host) and not host.startswith("[") else ""


def install() -> None:
    """Replace Panel's parser of request addresses. Harmless if called twice."""
    wrap_location_params(_with_ipv6)


def _with_ipv6(given: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a parser that also reads addresses with an IPv6 host."""
    if getattr(given, MARK, False):
        return given

    def location_params(protocol: str | None, host: str | None, uri: str | None) -> dict[str, Any]:
        """Return the parameters of Panel's Location for a request."""
        found = HOST.fullmatch(host or "")
        if host is None or found is None or not host.startswith("["):
            return dict(given(protocol, host, uri))
        stand_in = host.replace(found["name"], "ipv6")
        params = given(protocol, stand_in, uri)
        return {**params, "hostname": found["name"], "href": params["href"].replace(stand_in, host, 1)}

    setattr(location_params, MARK, True)
    return location_params
