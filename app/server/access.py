"""Request checks and security headers for everything that this server serves.

`install` adds a check before Tornado chooses the handler of a request. It reads only the request's head and answers
4xx to a host or origin that is not on the allow-list of `--allow-websocket-origin`, to an address that no page uses,
and to a body or token that is too large. The check covers plain GETs as well as WebSockets: Tornado accepts a WebSocket
whose Origin equals its Host before Bokeh consults its allow-list, so a name that an attacker re-binds to this machine
(DNS rebinding) would pass; and a page costs its session when the server sends it, whatever the host.

Every answer carries `headers`. Pages also carry a Content-Security-Policy: scripts come from this server's files, or
are inline scripts that the server wrote into the page, marked by the page's nonce. Scripts in markup are refused:
`<img onerror=…>`, `<script>…</script>`, `javascript:` addresses, and files of other servers.

The policy has to allow two things that Bokeh and Panel depend on: 'unsafe-eval', because both compile functions from
text that the server sends (CustomJS, formatters), and `blob:`, from which Panel loads the modules of its components.
The policy therefore does not stop an attacker that can already run JavaScript, nor markup that runs none: a foreign
style or link would be shown. It is the second line of defence; the first is that foreign text never becomes markup
(app.page.markup).
"""

from __future__ import annotations

import logging
import re
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from http.client import responses
from typing import Any
from urllib.parse import unquote, urlsplit

import bokeh.util.token as bokeh_token
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import match_host
from bokeh.server.views.doc_handler import DocHandler
from bokeh.settings import settings
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, HTTPServerRequest, ResponseStartLine
from tornado.web import OutputTransform

from app.server import fetch_metadata, hosts, tokens
from app.server.message_bounds import bounded_zlib
from app.server.page_ids import names_session
from app.server.server_log import log_request
from compute.cli.serve_options import LOOPBACK
from compute.cli.settings import current

MOST_BODY = 2**16  # bytes of a request's body: the pages post nothing, a log-in form may
MOST_PAYLOAD = 2**20  # bytes of an unpacked session token, which contains a request's head: 64 kB at most
MOST_ID = 200  # characters of a session's id
COMPONENTS = ("app", "panel", "panel_material_ui")  # packages whose listed files Panel's /components/ may serve
MARK = "fieldlab_access"
log = logging.getLogger(__name__)
REFUSED: Counter[int] = Counter()  # requests, by status, since the start
PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; "
    "connect-src 'self' blob:{sockets}; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors {frames}"
)
SCRIPT = re.compile(r"<script(?=[\s>])")


def headers(request: HTTPServerRequest) -> dict[str, str]:
    """Return the headers of every answer. The setting `embed` lists the origins whose pages may frame the page."""
    found = {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Content-Security-Policy": f"frame-ancestors {frames()}; object-src 'none'; base-uri 'self'",
    }
    if current().embed:
        return found  # Cross-Origin-Opener-Policy would block windows opened by a sandboxed frame
    found["X-Frame-Options"] = "SAMEORIGIN"
    if request.protocol == "https" or host_name(request.headers.get("Host", "")) in LOOPBACK:
        # Browsers ignore the header on insecure origins and log an error.
        found["Cross-Origin-Opener-Policy"] = "same-origin"
    return found


def frames() -> str:
    """Return the origins that may show a page in a frame, as a source list of the policy."""
    return " ".join(("'self'", *current().embed))


def host_name(host: str) -> str:
    """Return the name in a Host header in lower case, without its port; "" for a malformed header."""
    try:
        name = "" if re.search(r"[@/\\?#]", host) else urlsplit(f"//{host.strip()}").hostname or ""
    except ValueError:
        return ""
    return f"[{name}]" if ":" in name else name.lower()


def is_allowed(host: str, allowed: Iterable[str]) -> bool:
    """Return True if the Host header `host` names this machine's loopback or a host of the allow-list.

    The patterns are those of Bokeh's allow-list: a "*" matches one part of a name or address, so "*.uni.example"
    matches "lab.uni.example" but neither "uni.example" nor "a.lab.uni.example"; a lone "*", with or without a port,
    matches every host. Ports are ignored here, because a proxy may serve another port; Bokeh compares them when it
    checks the Origin.
    """
    name = host_name(host)
    patterns = (entry.rpartition(":")[0] if re.search(r":(\d+|\*)$", entry) else entry for entry in allowed)
    return bool(name) and (name in LOOPBACK or any(match_host(name, pattern.lower()) for pattern in patterns))


class RefusedRequest(HTTPMessageDelegate):
    """Answer a request with a status and a sentence, and discard its body."""

    def __init__(self, request: HTTPServerRequest, status: int, words: str) -> None:
        self._request, self._status, self._words = request, status, f"{words}\n".encode()

    def data_received(self, chunk: bytes) -> None:
        """Discard the body."""

    def finish(self) -> None:
        """Send the refusal and close the connection."""
        size = str(len(self._words))
        given = HTTPHeaders({"Content-Type": "text/plain; charset=utf-8", "Content-Length": size})
        given.update(headers(self._request))
        given["Connection"] = "close"
        connection = self._request.connection
        if connection is not None:
            body = None if self._request.method == "HEAD" else self._words
            connection.write_headers(ResponseStartLine("", self._status, responses[self._status]), given, body)
            connection.finish()


class SecurityHeaders(OutputTransform):
    """Add the security headers to every answer, unless its handler set them."""

    def __init__(self, request: HTTPServerRequest) -> None:
        super().__init__(request)
        self._headers = headers(request)

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers to the first chunk of an answer; Tornado calls it with the status and the first bytes."""
        for name, value in self._headers.items():
            headers.setdefault(name, value)
        headers.pop("Server", None)  # Tornado's name and version
        return status_code, headers, chunk


def refusal(request: HTTPServerRequest, allowed: Iterable[str], prefix: str = "") -> tuple[int, str] | None:
    """Return (status, reason) if the request is refused, otherwise None."""
    allowed, hosts = list(allowed), [request.headers.get("Host", "")]
    if "Upgrade" in request.headers:  # only browsers send an Origin; other WebSocket clients may have none
        origins = (request.headers.get(name) for name in ("Origin", "Sec-WebSocket-Origin"))
        hosts += [origin.partition("://")[2] for origin in origins if origin is not None]
    if not all(is_allowed(host, allowed) for host in hosts):
        return 403, "This host is not on the allow-list. To add it: fieldlab serve --origin HOST:PORT"
    path = unquote(request.path)
    if not path.isprintable() or "\\" in path or ".." in path.split("/"):
        return 400, "There is no such address."
    first, _, rest = path.removeprefix(prefix).removeprefix("/").partition("/")
    module = rest.partition("/")[0]
    if first == "components" and (module.partition(".")[0] not in COMPONENTS or module not in sys.modules):
        return 404, "There is no such component."
    length = request.headers.get("Content-Length", "0")
    if "Transfer-Encoding" in request.headers or not re.fullmatch(r"[0-9]{1,9}", length) or int(length) > MOST_BODY:
        return 413, f"A request's body must have at most {MOST_BODY} bytes, and say how many."
    return _session_refusal(request)


def _session_refusal(request: HTTPServerRequest) -> tuple[int, str] | None:
    """Return (status, reason) for a request that names a session or has an unreadable token, otherwise None."""
    if names_session(request):
        return 400, "The server chooses the id of each page. Open the address without bokeh-session-id and bokeh-token."
    if not all(map(_token_is_sound, _tokens(request))):
        return 400, "This session token cannot be read. Load the page again."
    return None


def _tokens(request: HTTPServerRequest) -> list[str]:
    """Return the session token of a WebSocket, its second subprotocol, in a list; an empty list without a token."""
    offered = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
    return [one.strip() for one in offered[1:2]]


def _token_is_sound(token: str) -> bool:
    """Return True if Bokeh can read the token. Bokeh itself verifies the signature of signed tokens."""
    try:
        name, payload = bokeh_token.get_session_id(token), bokeh_token.get_token_payload(token)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, bokeh_token.zlib.error):
        return False
    kinds = all(isinstance(payload.get(part, {}), dict) for part in ("headers", "cookies", "arguments"))
    return isinstance(name, str) and len(name) <= MOST_ID and isinstance(payload.get("session_expiry"), int) and kinds


def policy(nonce: str, host: str = "") -> str:
    """Return the Content-Security-Policy of a page. host: the Host header, for browsers whose 'self' excludes ws:."""
    return PAGE_POLICY.format(nonce=nonce, sockets=hosts.socket_sources(host), frames=frames())


def install() -> None:
    """Install these checks and headers for everything that is served; further calls have no effect."""
    if getattr(BokehTornado, MARK, False):
        return
    find, write = BokehTornado.find_handler, DocHandler.write

    def find_handler(server: BokehTornado, request: HTTPServerRequest, **options: Any) -> Any:
        """Return Bokeh's handler of a permitted request, or a RefusedRequest."""
        if SecurityHeaders not in server.transforms:
            server.add_transform(SecurityHeaders)
            server.settings["log_function"] = log_request  # Tornado's log function would record the client's address
        allowed = settings.allowed_ws_origin() or server.websocket_origins
        refused = hosts.malformed(request) or refusal(request, allowed, server.prefix)
        refused = refused or fetch_metadata.foreign(request, allowed)
        if refused is None:
            found = find(server, request, **options)
            if not tokens.is_unused(found):
                return found
            refused = 404, "There is no such address."
        REFUSED[refused[0]] += 1
        log.warning("refused with %d: %s", *refused)
        return RefusedRequest(request, *refused)

    def write_page(handler: DocHandler, chunk: Any) -> None:
        """Call DocHandler.write; a page gets its policy, and each of its scripts the nonce."""
        if isinstance(chunk, str):
            nonce = secrets.token_urlsafe(16)
            handler.set_header("Content-Security-Policy", policy(nonce, handler.request.host))
            chunk = SCRIPT.sub(f'<script nonce="{nonce}"', chunk)
        write(handler, chunk)

    BokehTornado.find_handler = find_handler
    DocHandler.write = write_page
    DocHandler.prepare = _straight(DocHandler.prepare)
    hosts.install()
    tokens.install()
    bokeh_token.zlib = bounded_zlib(MOST_PAYLOAD)
    setattr(BokehTornado, MARK, True)


def _straight(prepare: Callable[[DocHandler], Any]) -> Callable[[DocHandler], Any]:
    """Wrap `prepare` to redirect the address of an app with a trailing slash to the address without it.

    The URLs in a page are relative to the page's own address: with a trailing slash, all of them would be wrong.
    """

    def straight(handler: DocHandler) -> Any:
        """Redirect, or call `prepare`."""
        path, _, query = handler.request.uri.partition("?")
        if handler.application_context.url != "/" and path.endswith("/"):
            name = path.rstrip("/").rpartition("/")[2]
            return handler.redirect(f"../{name}" + (f"?{query}" if query else ""))
        return prepare(handler)

    return straight
