"""Access: hosts on the allow-list, security headers, malformed addresses, and the content of tokens."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from bokeh.util.token import get_token_payload
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from app.server.access import host_name, is_allowed, policy, refusal
from app.server.admission import session_limit
from tests.app.served_page import run_script

ALLOWED = {"lecture.example:5006", "localhost:5006"}


def pressed(data: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(data)).decode().rstrip("=")


def token(values: dict[str, Any]) -> str:
    """Return a session token that any client can forge."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def test_host_name() -> None:
    hosts = {"LocalHost:5006": "localhost", "[::1]:5006": "[::1]", "evil.example": "evil.example", "": "", "[::1": ""}
    assert {host: host_name(host) for host in hosts} == hosts


@pytest.mark.parametrize(
    ("patterns", "allowed", "refused"),
    [
        (
            ALLOWED,
            ["localhost:5006", "localhost", "127.0.0.1:8080", "[::1]:5006", "lecture.example:5006", "LECTURE.example"],
            ["evil.example:5006", "", "localhost.evil.example", "127.0.0.1.evil.example", "x@localhost.evil", "null"],
        ),
        *(({star}, ["anything.example"], []) for star in ("*", "*:5006")),
        *(  # a star stands for one part of a name
            (
                {pattern},
                ["lab.uni.example", "LAB.uni.example:5006", "localhost"],
                ["uni.example", "a.lab.uni.example", "evil.example", "evil.uni.example.evil", "lab.uni.evil",
                 "uni.example@evil.example"],
            )
            for pattern in ("*.uni.example:80", "*.uni.example")
        ),
        ({"192.168.*.*:5006"}, ["192.168.1.7", "192.168.200.1:5006"], ["192.169.1.7"]),
    ],
)  # fmt: skip
def test_hosts_are_allowed_by_patterns(patterns: set[str], allowed: list[str], refused: list[str]) -> None:
    """This machine is always allowed."""
    assert [host for host in allowed if not is_allowed(host, patterns)] == []
    assert [host for host in refused if is_allowed(host, patterns)] == []


SERVED = """
import asyncio, json, sys, tornado.websocket, tornado.httpclient, tornado.httputil
from panel.io.server import get_server
from bokeh.util.token import generate_jwt_token, generate_session_id
from app.server import access, operations

async def answer(port, kind, path, host, origin, method="GET", body=None, token=None, **more):
    headers = tornado.httputil.HTTPHeaders({"Host": host.replace("PORT", str(port)), **more})
    if origin:
        headers["Origin"] = origin.replace("PORT", str(port))
    address = f"{kind}://127.0.0.1:{port}{path}"
    request = tornado.httpclient.HTTPRequest(address, headers=headers, method=method, body=body,
                                             follow_redirects=False, allow_nonstandard_methods=True,
                                             request_timeout=240)
    try:
        if kind == "ws":
            token = generate_jwt_token(generate_session_id()) if token is None else token
            socket = await tornado.websocket.websocket_connect(request, subprotocols=["bokeh", token])
            socket.close()
            return 101, {}, ""
        client = tornado.httpclient.AsyncHTTPClient()
        found = await client.fetch(request, raise_error=False)
        return found.code, dict(found.headers), (found.body or b"").decode("latin-1")
    except tornado.httpclient.HTTPClientError as error:
        return error.code, {}, ""

async def main():
    operations.install(); operations.install()
    access.install(); access.install()
    own = {"address": "127.0.0.1", "static_dirs": {"/own": "."}}
    server = get_server({"/app": lambda: "page"}, websocket_origin=sys.argv[1:], **own)
    server._tornado._websocket_origins.add(f"localhost:{server.port}")
    server.start()
    for line in sys.stdin:
        print(json.dumps([await answer(server.port, **one) for one in json.loads(line)]), flush=True)

asyncio.run(main())
"""


Answers = Callable[[list[dict[str, Any]]], list[tuple[int, dict[str, str], str]]]


@contextmanager
def serving(*allowed: str, script: str = SERVED) -> Iterator[Answers]:
    """Yield a function that sends requests to a server and returns (status, headers, text) of each.

    The server runs in its own process, since installing changes Bokeh's handlers. allowed: hosts besides this machine.
    """
    command = [sys.executable, "-c", script, *allowed]
    with (
        TemporaryFile("w+") as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):

        def answers(requests: list[dict[str, Any]]) -> list[tuple[int, dict[str, str], str]]:
            """Send the requests and return the responses."""
            assert process.stdin
            assert process.stdout
            print(json.dumps(requests), file=process.stdin, flush=True)
            line = process.stdout.readline()
            if not line:
                said.seek(0)
                pytest.fail(said.read()[-3000:])
            return [(status, headers, words) for status, headers, words in json.loads(line)]

        yield answers


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with serving("*.uni.example:5006", "lab.example:80") as server:
        yield server


def ask(path: str, host: str = "localhost:PORT", **more: Any) -> dict[str, Any]:
    """Return a request for `serving`: a GET without an Origin, unless `more` says otherwise."""
    return {"kind": "http", "path": path, "host": host, "origin": None, **more}


HOSTS = {"localhost:PORT": True, "127.0.0.1:PORT": True, "lab.uni.example:5006": True, "lab.uni.example": True,
         "evil.example:PORT": False, "uni.example:5006": False, "localhost.evil.example": False, "": False}  # fmt: skip
ORIGINS = {"http://localhost:PORT": True, "https://lab.uni.example:5006": True, "http://evil.example": False,
           "null": False, "http://localhost.evil.example:PORT": False, "http://[::1": False}  # fmt: skip
PATHS = ("/app", "/app/autoload.js?bokeh-autoload-element=1", "/app/metadata", "/static/js/bokeh.min.js", "/",
         "/favicon.ico")  # fmt: skip


def test_every_address_is_for_allowed_hosts_only(answers: Answers) -> None:
    """Every pair of Host and Origin: a foreign Host gets 403 for any path; a WebSocket also needs an allowed Origin."""
    pages = [(path, host) for path in PATHS for host in HOSTS]
    sockets = [(host, origin) for host in HOSTS for origin in ORIGINS]
    requests = [ask(path, host) for path, host in pages]
    requests += [ask("/app/ws", host, kind="ws", origin=origin) for host, origin in sockets]
    found = [status for status, *_ in answers(requests)]
    wrong = []
    for (path, host), status in zip(pages, found, strict=False):
        if (status != 403) is not HOSTS[host]:
            wrong.append((path, host, status))
    for (host, origin), status in zip(sockets, found[len(pages) :], strict=True):
        if (status == 101) is not (HOSTS[host] and ORIGINS[origin]):
            wrong.append((host, origin, status))
    assert not wrong


def test_every_answer_has_security_headers(answers: Answers) -> None:
    """COOP only where browsers honour it: with TLS and on this machine."""
    requests = [ask(path) for path in (*PATHS, "/nowhere", "/health")] + [ask("/app", "evil.example")]
    for request, (status, headers, _) in zip(requests, answers(requests), strict=True):
        assert headers["X-Content-Type-Options"] == "nosniff", status
        assert headers["X-Frame-Options"] == "SAMEORIGIN"
        assert headers["Referrer-Policy"] == "same-origin"
        assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        foreign = request["host"] == "evil.example"
        assert headers.get("Cross-Origin-Opener-Policy") == (None if foreign else "same-origin")
        assert "Server" not in headers  # it would contain Tornado's version


def test_origins_that_may_frame_a_page_are_a_setting(limited: Callable[..., None]) -> None:
    limited(embed=("https://course.example", "https://*.uni.example:8443"))
    with serving() as server:
        found = server([ask("/app"), ask("/favicon.ico")])
    for _, headers, _ in found:
        (rule,) = (one for one in headers["Content-Security-Policy"].split(";") if "frame-ancestors" in one)
        assert rule.split() == ["frame-ancestors", "'self'", "https://course.example", "https://*.uni.example:8443"]
        assert "X-Frame-Options" not in headers  # it would forbid these frames
        assert "Cross-Origin-Opener-Policy" not in headers  # it would forbid windows opened by a sandboxed frame


def test_only_the_servers_own_scripts_run_on_a_page(answers: Answers) -> None:
    """Every script carries the nonce of its page's policy, and no two pages share a nonce."""
    nonces = []
    for status, headers, page in answers(2 * [ask("/app", "lab.example:80")]):
        assert status == 200
        rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
        nonce = re.search(r"'nonce-([\w-]{20,})'", rules["script-src"])
        assert nonce
        assert "unsafe-inline" not in rules["script-src"]
        assert "http" not in rules["script-src"]
        scripts = re.findall(r"<script[^>]*>", page)
        assert scripts
        assert all(f'nonce="{nonce[1]}"' in script for script in scripts)
        assert "wss://lab.example:80" in rules["connect-src"]
        nonces.append(nonce[1])
    assert nonces[0] != nonces[1]


@pytest.mark.parametrize("host", ["localhost; script-src *", "a b", "x\ny", "'unsafe-inline'"])
def test_a_host_adds_no_rule_to_the_policy(host: str) -> None:
    assert policy("n", host) == policy("n")


FORGED = [
    "x",
    "",
    "e30",
    token({"session_id": 1, "session_expiry": 2**40}),
    token({"session_id": "a", "session_expiry": "soon"}),
    token({"session_id": "a" * 5000, "session_expiry": 2**40}),
    token({"session_id": "a", "session_expiry": 2**40, "__bk__zlib_": "!"}),
    token({"session_id": "a", "session_expiry": 2**40, "headers": [1]}),
    token({"session_id": "a", "session_expiry": 2**40, "__bk__zlib_": pressed(b"[" + b" " * 2**24 + b"]")}),
]


def test_malformed_addresses_are_client_errors(answers: Answers) -> None:
    """The status is 4xx, never 500, and no address can cause the import of a module."""
    paths = ["/app/static/%00", "/app/static/..%2f..%2fetc%2fpasswd", "/components/../../etc/passwd", "/app/%0a",
             "/components/this/Is/_css/poem", "/components/antigravity/x/_css/y", "/components//x/_css/y",
             "/components/panel.pane.markup/HTML/nothing/x", "/components/panel/x/y/z", "/static/%5c..%5cx",
             "/own/%00", "/own/%0d",
             "/app?bokeh-session-id=" + "a" * 500, *(f"/app?bokeh-token={one}" for one in FORGED)]  # fmt: skip
    requests = [ask(path) for path in paths]
    requests += [ask("/app/ws", kind="ws", token=one) for one in FORGED]
    requests += [ask("/app", method="POST", body="x" * 70_000)]
    found = answers(requests)
    wrong = [(one["path"][:60], one.get("token", "")[:20], status, words[:80]) for one, (status, _, words)
             in zip(requests, found, strict=True) if not 400 <= status < 500]  # fmt: skip
    assert not wrong
    assert not any(str(Path(sys.prefix)) in words or "Traceback" in words for _, _, words in found)


@pytest.mark.parametrize(("length", "status"), [
    ("65536", None), ("000012", None), ("65537", 413), ("0" * 20 + "99999999", 413), ("9" * 5000, 413),
    ("٣", 413), ("-1", 413), ("", 413),
])  # fmt: skip
def test_a_body_that_is_too_large_is_refused(length: str, status: int | None) -> None:
    headers = HTTPHeaders({"Host": "localhost:5006"})
    headers["Content-Length"] = length
    request = HTTPServerRequest(start_line=RequestStartLine("POST", "/login", "HTTP/1.1"), headers=headers)
    found = refusal(request, ["localhost:5006"])
    assert (found and found[0]) == status


SECRET = "s3cret-of-a-visitor"


def test_a_token_contains_no_cookie_and_no_header(answers: Answers) -> None:
    """Neither the log-in cookie, which scripts must not read, nor the password of a proxy."""
    sent = {"Cookie": f"session={SECRET}", "Authorization": f"Basic {SECRET}", "X-Forwarded-User": SECRET}
    ((status, _, page),) = answers([ask("/app?ui=none", **sent)])
    assert status == 200
    (token,) = set(re.findall(r'"token":"([\w.-]+)"', page))
    payload = get_token_payload(token)
    assert SECRET not in repr(payload)
    assert payload["headers"] == {}
    assert payload["cookies"] == {}
    assert payload["arguments"]["ui"] == [b"none"]  # the page needs these


@pytest.mark.parametrize("path", [
    "/app/autoload.js?bokeh-autoload-element=1", '/app/autoload.js?bokeh-autoload-element=");alert(1);("',
    "/app/autoload.js", "/app/metadata", "/app/../app/autoload.js", "/app/%61utoload.js?bokeh-autoload-element=1",
])  # fmt: skip
def test_scripts_and_data_of_the_application_are_not_served(answers: Answers, path: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        ((status, headers, text),) = answers([ask(path, method=method)])
        assert status in {400, 404}
        assert "token" not in text
        assert "Access-Control-Allow-Origin" not in headers


def test_another_origin_cannot_load_a_page_as_a_script(answers: Answers) -> None:
    fetched = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    found = answers([ask("/app", **fetched), ask("/static/js/bokeh.min.js", **fetched), ask("/app", **linked)])
    assert [status for status, *_ in found] == [403, 403, 200]


@pytest.mark.parametrize("host", ["localhost:abc", "localhost:99999", "localhost:5006:1", "::1", "[::1", "a]b"])
def test_a_malformed_host_is_a_client_error(answers: Answers, host: str) -> None:
    """Such a host used to cause a broken page and a traceback."""
    ((status, _, text),) = answers([ask("/app", host)])
    assert (status, "Host" in text) == (400, True)


def test_a_trailing_slash_redirects_to_the_page() -> None:
    """All addresses on a page are relative to its own. Runs in its own process, as above."""
    script = """
import asyncio, tornado.httpclient
from bokeh.server.server import Server
from app.server import access
access.install(); access.install()

async def main():
    apps = {"/": lambda document: None, "/app": lambda document: None}
    server = Server(apps, port=0, address="127.0.0.1", prefix="/deep")
    server.start()
    base = f"http://127.0.0.1:{server.port}/deep/"
    for path in ("", "app", "app/", "app/?scene=1.x"):
        page = await tornado.httpclient.AsyncHTTPClient().fetch(base + path, request_timeout=240)
        print(page.effective_url.removeprefix(base))

asyncio.run(main())
"""
    assert run_script(script).stdout.splitlines() == ["", "app", "app", "app?scene=1.x"]


@pytest.mark.parametrize("text", ["0", "many", "1.5", ""])
def test_a_wrong_limit_is_refused_by_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDLAB_MAX_SESSIONS", text)
    with pytest.raises(ValueError, match="FIELDLAB_MAX_SESSIONS"):
        session_limit()
