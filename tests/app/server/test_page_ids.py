"""A WebSocket joins only a page that the server issued, and only from the browser that requested it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from app.server.page_ids import GONE, NO_COOKIE, PageOwners, keys_of
from tests.app.served_page import VISITS, run_script

KEY, OTHER = "a" * 43, "b" * 43
SERVER = """
from app.server import access, page_ids
from compute.cli import settings

settings.hand_on(settings.Settings(embed=tuple(sys.argv[1:])))
access.install(); page_ids.install(); page_ids.install()
built, sockets, found = [], [], {}

async def main():
    server = started(lambda: built.append(1) or "page")

    async def join(token, cookie="", query=""):
        try:
            socket = await connect(server, token, cookie, query)
        except tornado.httpclient.HTTPClientError as error:
            return error.code
        said = await heard(socket)
        sockets.append(socket)
        return json.loads(said)["msgtype"] if said else socket.close_code

    for name, query, headers in (
        ("argument", "?bokeh-session-id=evil1", {}), ("token", "?bokeh-token=" + generate_jwt_token("evil1"), {}),
        ("header", "", {"Bokeh-Session-Id": "evil1"}), ("encoded", "?bokeh%2Dsession-id=evil1", {}),
    ):
        found[name] = (await get(server, query, **headers))[0].code
    found["built for these"] = len(built)
    first, token, own = await get(server)
    found["attributes"] = sorted(part.strip() for part in first.headers["Set-Cookie"].split(";")[1:])
    *_, stranger = await get(server)
    found["unknown"] = await join("", own)
    found["built for a WebSocket"] = len(built) - 2
    found["without"], found["stranger"] = await join(token), await join(token, stranger)
    found["malformed"] = await join(token, own[:-1])
    found["forged token"] = await join(generate_jwt_token(get_session_id(token)), stranger)
    found["query"] = await join(token, own, "?bokeh-session-id=" + get_session_id(token))
    found["own"] = await join(token, own)
    found["again"] = await join(token, own)
    _, other, cookie = await get(server, Cookie=own)
    found["second tab"] = bool(cookie), await join(other, own)
    print(json.dumps(found))

asyncio.run(main())
"""


def served(*embed: str) -> dict[str, object]:
    """Return the results of SERVER's requests to a server with this setting."""
    done = run_script(VISITS + SERVER, *embed)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, object]:
    return served()


def test_a_request_cannot_choose_its_session(found):
    assert [found[name] for name in ("argument", "token", "header", "encoded")] == [400] * 4
    assert found["built for these"] == 0


def test_the_cookie_is_same_site_only_and_hidden_from_scripts(found):
    assert found["attributes"] == ["HttpOnly", "Path=/", "SameSite=Strict"]


def test_a_websocket_needs_the_cookie_of_its_page(found):
    assert found["without"] == found["malformed"] == NO_COOKIE
    assert found["stranger"] == found["forged token"] == GONE
    assert found["query"] == 400
    assert (found["unknown"], found["built for a WebSocket"]) == (GONE, 0)
    assert (found["own"], found["second tab"]) == ("ACK", [False, "ACK"])  # tabs of a browser share the cookie
    assert found["again"] == "ACK"  # a reconnect takes over; app/upstream/dead_connections.py closes the older one


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


def test_a_closed_page_releases_its_memory():
    owners, session = PageOwners(), type("Session", (), {})()
    assert not any(owners.join(session, keys, embedded=True) for keys in ([KEY], []))  # a prepared page has no owner
    owners.bind(session, [KEY])
    assert owners.keys() == {KEY}
    del session
    assert owners.keys() == set()
