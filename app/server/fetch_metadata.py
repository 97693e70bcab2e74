"""Requests from pages of other origins, refused by the headers with which browsers mark them.

`Sec-Fetch-Site` says whether a request comes from a page of this server ("same-origin"), from the address bar ("none"),
or from a page of another origin, which includes another port of the same host ("same-site"). Another origin may link to
a page, that is, navigate to it with GET, and show it in a frame if the setting `embed` is set; it cannot load scripts,
pictures or data, nor send a form. Browsers without that header, and programs, are answered as before, except for a form
with a foreign `Origin`. WebSockets are not checked here: the allow-list applies to their origin (app/access.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from bokeh.server.util import check_allowlist
from tornado.httputil import HTTPServerRequest

from compute.settings import current

OWN = ("same-origin", "none")  # values of Sec-Fetch-Site
READS = ("GET", "HEAD")


def foreign(request: HTTPServerRequest, allowed: Iterable[str]) -> tuple[int, str] | None:
    """Return status and reason for a request that a page of another origin may not make, else None.

    allowed: origins as HOST:PORT, for browsers that send only `Origin`.
    """
    if "Upgrade" in request.headers:
        return None
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is None:
        own = request.method in READS or origin is None or _is_own(origin, request.headers.get("Host", ""), allowed)
    else:
        own = site in OWN or (request.method in READS and _navigates(request))
    return None if own else (403, "Pages of other origins may link to this server, and nothing else.")


def _is_own(origin: str, host: str, allowed: Iterable[str]) -> bool:
    """Return whether `origin` is that of this server: the host of the request, or one of the allow-list."""
    try:
        place = urlsplit(origin).netloc.lower()
    except ValueError:
        return False
    return bool(place) and (place == host.lower() or check_allowlist(place, list(allowed)))


def _navigates(request: HTTPServerRequest) -> bool:
    """Return whether the browser opens an address in a tab, or in a frame if pages may be embedded."""
    kinds = ("document", "iframe") if current().embed else ("document",)
    return request.headers.get("Sec-Fetch-Mode") == "navigate" and request.headers.get("Sec-Fetch-Dest") in kinds
