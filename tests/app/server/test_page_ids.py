"""A WebSocket joins only a page that the server issued, and only from the browser that requested it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from app.server.page_ids import GONE, NO_COOKIE, PageOwners, keys_of, names_session
from tests.app.served_page import run_script

KEY, OTHER = "a" * 43, "b" * 43
SERVER = """
import asyncio, json, sys
from http.cookies import SimpleCookie
import tornado.httpclient, tornado.websocket
from bokeh.util.token import generate_jwt_token, generate_session_id, get_session_id
from panel.io.server import get_server
from tornado.httpclient import HTTPRequest
from app.server import access
from app.load.client import TOKEN
from app.server import page_ids
from compute.cli import settings

settings.hand_on(settings.Settings(embed=tuple(sys.argv[1:])))
access.install(); page_ids.install(); page_ids.install()
built = []

async def main():
    server = get_server({"/app": lambda: built.append(1) or "page"}, address="127.0.0.1",
                        websocket_origin=["localhost"], unused_session_lifetime_milliseconds=600_000)
    server.start()
    address, client = f"127.0.0.1:{server.port}/app", tornado.httpclient.AsyncHTTPClient()

    async def get(query="", **headers):
        request = HTTPRequest(f"http://{address}{query}", headers=headers, request_timeout=240)
        answer = await client.fetch(request, raise_error=False)
        token = TOKEN.search(answer.body)
        return answer, token[1].decode() if token else ""

    async def join(token, cookie="", query=""):
        request = HTTPRequest(f"ws://{address}/ws{query}", headers={"Cookie": cookie} if cookie else {})
        try:
            socket = await tornado.websocket.websocket_connect(request, subprotocols=["bokeh", token])
        except tornado.httpclient.HTTPClientError as error:
            return error.code
        said = await asyncio.wait_for(socket.read_message(), 240)
        sockets.append(socket)
        return json.loads(said)["msgtype"] if said else socket.close_code

    def cookie(answer):
        return answer.headers["Set-Cookie"].partition(";")[0]

    sockets, found = [], {}
    for name, query, headers in (
        ("argument", "?bokeh-session-id=evil1", {}), ("token", "?bokeh-token=" + generate_jwt_token("evil1"), {}),
        ("header", "", {"Bokeh-Session-Id": "evil1"}), ("encoded", "?bokeh%2Dsession-id=evil1", {}),
    ):
        found[name] = (await get(query, **headers))[0].code
    found["built for these"] = len(built)
    first, token = await get()
    found["attributes"] = sorted(part.strip() for part in first.headers["Set-Cookie"].split(";")[1:])
    own, stranger = cookie(first), cookie((await get())[0])
    found["unknown"] = await join(generate_jwt_token(generate_session_id()), own)
    found["built for a WebSocket"] = len(built) - 2
    found["without"], found["stranger"] = await join(token), await join(token, stranger)
    found["malformed"] = await join(token, own[:-1])
    found["forged token"] = await join(generate_jwt_token(get_session_id(token)), stranger)
    found["query"] = await join(token, own, "?bokeh-session-id=" + get_session_id(token))
    found["own"] = await join(token, own)
    found["again"] = await join(token, own)
    second, other = await get(Cookie=own)
    found["second tab"] = "Set-Cookie" in second.headers, await join(other, own)
    print(json.dumps(found))

asyncio.run(main())
"""


def served(*embed: str) -> dict[str, object]:
    """Return the results of SERVER's requests to a server with this setting."""
    done = run_script(SERVER, *embed)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, object]:
    return served()


@pytest.mark.parametrize("name", ["argument", "token", "header", "encoded"])
def test_a_request_cannot_choose_its_session(found, name):
    assert found[name] == 400
    assert found["built for these"] == 0


def test_the_cookie_is_same_site_only_and_hidden_from_scripts(found):
    assert found["attributes"] == ["HttpOnly", "Path=/", "SameSite=Strict"]


def test_a_websocket_creates_no_page(found):
    assert found["unknown"] == GONE
    assert found["built for a WebSocket"] == 0


def test_a_websocket_needs_the_cookie_of_its_page(found):
    assert found["without"] == found["malformed"] == NO_COOKIE
    assert found["stranger"] == found["forged token"] == GONE
    assert found["query"] == 400
    assert found["own"] == "ACK"


def test_a_reconnect_takes_over_from_the_older_connection(found):
    """Panel's session allows any number of connections; app/upstream/dead_connections.py closes the older one."""
    assert found["again"] == "ACK"


def test_tabs_of_one_browser_share_the_cookie(found):
    assert found["second tab"] == [False, "ACK"]


def test_an_embedded_page_joins_without_a_cookie_once_embedding_is_allowed():
    found = served("https://course.example")
    assert found["without"] == "ACK"  # a frame of another site: its browser stored no cookie
    assert found["stranger"] == GONE
    assert found["own"] == GONE  # now without a cookie


def request(cookies: str, host: str = "localhost:5006", path: str = "/app", **headers: str) -> HTTPServerRequest:
    """Return a GET request with these cookies."""
    given = HTTPHeaders({"Host": host, "Cookie": cookies, **headers})
    connection = SimpleNamespace(context=SimpleNamespace(remote_ip="127.0.0.1", protocol="http"))
    return HTTPServerRequest(headers=given, start_line=RequestStartLine("GET", path, "HTTP/1.1"), connection=connection)


def test_cookies_of_another_port_or_of_another_form_are_left_out():
    own, other = "fieldlab_browser_5006_01234567", "fieldlab_browser_5007_01234567"
    sent = request(f"{own}={KEY}; {other}={OTHER}; fieldlab_browser_5006_x=short; user=somebody")
    assert keys_of(sent) == {own: KEY}
    assert keys_of(request(f"fieldlab_browser__01234567={KEY}", host="lab.example")) == {
        "fieldlab_browser__01234567": KEY
    }


def test_pages_share_the_key_of_their_browser():
    """A link on another site hides the cookie, so the browser gets a second one; later requests send both."""
    owners, first, second, third = PageOwners(), *(type("Session", (), {})() for _ in range(3))
    key = owners.bind(first, [])
    assert owners.bind(second, []) != key
    assert owners.bind(third, [OTHER, key]) == key
    assert owners.join(first, [OTHER, key], embedded=False)
    assert not owners.join(first, [OTHER], embedded=False)


def test_a_prepared_page_has_no_owner():
    owners, session = PageOwners(), type("Session", (), {})()
    assert not owners.join(session, [KEY], embedded=True)
    assert not owners.join(session, [], embedded=True)


def test_a_closed_page_releases_its_memory():
    owners, session = PageOwners(), type("Session", (), {})()
    owners.bind(session, [KEY])
    assert owners.keys() == {KEY}
    del session
    assert owners.keys() == set()


def test_session_ids_are_found_in_queries_and_headers():
    assert names_session(request("", path="/app?bokeh-session-id="))
    assert names_session(request("", **{"bokeh-session-id": "x"}))
    assert not names_session(request("", path="/app?session=x"))
