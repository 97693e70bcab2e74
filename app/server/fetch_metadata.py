"""Cross-origin requests, refused by the Fetch Metadata headers of browsers.

`Sec-Fetch-Site` is "same-origin" for requests of this server's pages, "none" for the address bar, "same-site" for other
ports and subdomains, else "cross-site". Other origins may navigate to a page with GET, and frame it if the setting
`embed` is not empty. Scripts, pictures, data and forms of other origins get 403. Browsers send the header only over TLS
or to the same machine. Without it only forms are checked, by their `Origin` header; programs send neither.
The allow-list of app/server/access.py applies to WebSockets, so this module ignores them.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from bokeh.server.util import check_allowlist
from tornado.httputil import HTTPServerRequest

from compute.cli.settings import current

OWN = ("same-origin", "none")  # values of Sec-Fetch-Site
READS = ("GET", "HEAD")


def foreign(request: HTTPServerRequest, allowed: Iterable[str]) -> tuple[int, str] | None:
    """Return status and reason if a request of another origin is not allowed, else None.

    allowed: additional origins of this server as HOST:PORT, compared with the `Origin` header.
    """
    if "Upgrade" in request.headers:
        return None
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is None:
        own = request.method in READS or origin is None or _is_own(origin, request.headers.get("Host", ""), allowed)
    else:
        own = site in OWN or (request.method in READS and _navigates(request))
    return None if own else (403, "Pages of other origins can only link to this server.")


def _is_own(origin: str, host: str, allowed: Iterable[str]) -> bool:
    """Return whether `origin` is the host of the request or in the allow-list."""
    try:
        place = urlsplit(origin).netloc.lower()
    except ValueError:
        return False
    return bool(place) and (place == host.lower() or check_allowlist(place, list(allowed)))


def _navigates(request: HTTPServerRequest) -> bool:
    """Return whether the browser navigates a tab, or a frame if pages may be embedded."""
    kinds = ("document", "iframe") if current().embed else ("document",)
    return request.headers.get("Sec-Fetch-Mode") == "navigate" and request.headers.get("Sec-Fetch-Dest") in kinds
