"""Host headers: their syntax, and two places that cannot handle an IPv6 address.

A Host header is `NAME`, `NAME:PORT`, `[IPV6]` or `[IPV6]:PORT`. Tornado lets more through (`localhost:abc`), and Panel
splits whatever arrives at every colon, so a request with another Host header gets 400 before anything is built for it.
Panel's split fails for `[::1]:5006`, too; `install` replaces it. A Content-Security-Policy has no syntax for an IPv6
address at all.
"""

from __future__ import annotations

import re
from typing import Any

from panel.io import location
from tornado.httputil import HTTPServerRequest

HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~-]{1,253})(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
MOST_PORT = 65535
MARK = "fieldlab_hosts"


def malformed(request: HTTPServerRequest) -> tuple[int, str] | None:
    """Return status and reason for a request whose Host header is malformed, else None; a missing one is not."""
    host = request.headers.get("Host", "")
    return (400, "The Host header must be NAME or NAME:PORT.") if host and not is_host(host) else None


def is_host(text: str) -> bool:
    """Return whether `text` is a well-formed Host header."""
    found = HOST.fullmatch(text)
    return found is not None and int(found["port"] or 0) <= MOST_PORT


def socket_sources(host: str) -> str:
    """Return the WebSocket sources of a Content-Security-Policy for a page at `host`, each after a space.

    Current browsers include them in 'self'; older ones do not. An IPv6 address cannot be named: browsers report it as
    an invalid source, and 'self' has to do.
    """
    return f" ws://{host} wss://{host}" if is_host(host) and not host.startswith("[") else ""


def install() -> None:
    """Replace the function by which Panel reads an address. Harmless if called twice."""
    given = location._get_location_params  # noqa: SLF001 Panel has no other place for it
    if getattr(given, MARK, False):
        return

    def location_params(protocol: str | None, host: str | None, uri: str | None) -> dict[str, Any]:
        """Return the parameters of Panel's Location for a request."""
        found = HOST.fullmatch(host or "")
        if host is None or found is None or not host.startswith("["):
            return dict(given(protocol, host, uri))
        stand_in = host.replace(found["name"], "ipv6")
        params = given(protocol, stand_in, uri)
        return {**params, "hostname": found["name"], "href": params["href"].replace(stand_in, host, 1)}

    setattr(location_params, MARK, True)
    location._get_location_params = location_params  # noqa: SLF001 as above
