"""Hosts on the allow-list only, and a cap on sessions."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.guard import host_name, is_allowed
from app.lobby import Lobby, session_limit

ALLOWED = {"lecture.example:5006", "localhost:5006"}


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:5006", "localhost"),
        ("LocalHost", "localhost"),
        ("[::1]:5006", "[::1]"),
        ("evil.example:5006", "evil.example"),
        ("", ""),
        ("[::1", ""),
    ],
)
def test_host_name(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    "host", ["localhost:5006", "localhost", "127.0.0.1:8080", "[::1]:5006", "lecture.example:5006", "LECTURE.example"]
)
def test_this_machine_and_listed_hosts_are_allowed(host: str) -> None:
    assert is_allowed(host, ALLOWED)


@pytest.mark.parametrize(
    "host",
    ["evil.example:5006", "", "localhost.evil.example", "127.0.0.1.evil.example", "x@localhost.evil", "null"],
)
def test_other_hosts_are_refused(host: str) -> None:
    assert not is_allowed(host, ALLOWED)


def test_a_star_allows_everybody() -> None:
    assert is_allowed("anything.example", {"*"})


def test_the_guard_refuses_a_rebound_name_and_sends_careful_headers() -> None:
    """In a process of its own: installing changes bokeh's handlers."""
    script = """
import asyncio, tornado.websocket, tornado.httpclient, tornado.httputil
from bokeh.server.server import Server
from app import guard
guard.install(); guard.install()

async def main():
    server = Server({"/": lambda document: None}, port=0, address="127.0.0.1")
    server.start()
    base = f"127.0.0.1:{server.port}"
    page = await tornado.httpclient.AsyncHTTPClient().fetch(f"http://{base}/")
    print(page.headers["X-Content-Type-Options"], page.headers["X-Frame-Options"])
    for host in (f"evil.example:{server.port}", base):
        headers = tornado.httputil.HTTPHeaders({"Host": host, "Origin": f"http://{host}"})
        request = tornado.httpclient.HTTPRequest(f"ws://{base}/ws", headers=headers)
        try:
            await tornado.websocket.websocket_connect(request, subprotocols=["bokeh", "token"])
            print(host.split(":")[0], "opened")
        except tornado.httpclient.HTTPClientError as error:
            print(host.split(":")[0], error.code)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["nosniff SAMEORIGIN", "evil.example 403"], done.stderr
    assert lines[2] != "127.0.0.1 403", done.stderr


def test_a_slash_behind_the_address_leads_to_the_page() -> None:
    """All addresses on a page are relative to its own. In a process of its own, as above."""
    script = """
import asyncio, tornado.httpclient
from bokeh.server.server import Server
from app import guard
guard.install(); guard.install()

async def main():
    apps = {"/": lambda document: None, "/app": lambda document: None}
    server = Server(apps, port=0, address="127.0.0.1", prefix="/deep")
    server.start()
    base = f"http://127.0.0.1:{server.port}/deep/"
    for path in ("", "app", "app/", "app/?scene=1.x", "app/autoload.js?bokeh-autoload-element=1"):
        page = await tornado.httpclient.AsyncHTTPClient().fetch(base + path)
        print(page.effective_url.removeprefix(base))

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    expected = ["", "app", "app", "app?scene=1.x", "app/autoload.js?bokeh-autoload-element=1"]
    assert done.stdout.splitlines() == expected, done.stderr


def test_the_lobby_is_full_at_its_limit() -> None:
    lobby, one, two = Lobby(2), object(), object()
    lobby.enter(one)
    assert not lobby.full
    lobby.enter(two)
    assert lobby.full
    lobby.leave(one)
    lobby.leave(one)
    assert not lobby.full


@pytest.mark.parametrize("text", ["0", "-3", "many", "1.5", ""])
def test_a_bad_limit_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDLAB_MAX_SESSIONS", text)
    with pytest.raises(ValueError, match="FIELDLAB_MAX_SESSIONS"):
        session_limit()
