"""Followers and lecturer's windows over real WebSockets: path prefix, hostile and slow clients, ended rooms."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from app.features.audience import handlers
from app.features.audience.broadcast import BROKEN, BUSY, ENDED, UNKNOWN
from app.features.audience.rooms import OVER, TOO_MANY_VOTES, Rooms, ViewerRefused
from app.page.explain import LABELS, WORDS
from tests.app.features.audience.test_broadcast import Onlooker
from tests.app.features.audience.test_rooms import Fed
from tests.app.server.test_access import SERVED
from tests.app.server.test_access import serving as serving_itself

PREFIX = "/lectures/fieldlab"
PATIENCE = 60.0  # seconds


class Served(Application):
    """Server that serves only the audience's addresses."""

    prefix = PREFIX

    def find_handler(self, request: Any, **options: Any) -> Any:
        return handlers.delegate(self, request) or super().find_handler(request, **options)


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Rooms:
    rooms = Rooms()
    monkeypatch.setattr(handlers, "rooms", lambda: rooms)
    return rooms


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """Yield "host:port/prefix" of a running server."""
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Served())
    server.add_sockets(sockets)
    yield f"127.0.0.1:{sockets[0].getsockname()[1]}{PREFIX}"
    server.stop()
    await server.close_all_connections()


def served(test: Callable[[str], Awaitable[None]]) -> None:
    """Run `test(address)` against a running server."""

    async def run() -> None:
        async with serving() as address:
            await asyncio.wait_for(test(address), PATIENCE)

    asyncio.run(run())


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[WebSocketClientConnection]:
    """Yield the WebSocket connection of a viewer."""
    socket = await websocket_connect(f"ws://{address}/ws")
    try:
        yield socket
    finally:
        socket.close()


TOKEN = "abcdefghij-_0123"


async def until(condition: Callable[[], Any]) -> None:
    """Wait until the condition is true; `served` limits the time."""
    while not condition():  # noqa: ASYNC110 the conditions that are polled send no event
        await asyncio.sleep(0.005)


async def message(socket: WebSocketClientConnection) -> tuple[dict[str, Any], bytes]:
    """Return the header and the picture of the next message."""
    data = await socket.read_message()
    assert isinstance(data, bytes)
    length = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + length]), data[4 + length :]


async def closed(socket: WebSocketClientConnection) -> tuple[int | None, str | None]:
    """Return (code, reason) with which the server closed the connection."""
    while await socket.read_message() is not None:
        pass
    return socket.close_code, socket.close_reason


def test_a_follower_gets_words_and_pictures_and_a_slow_one_the_newest(rooms):
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        async with connected(f"{address}/follow/{code.lower()}") as socket:
            await until(lambda: len(feed.followers))
            feed.followers.show_state({"lab": "Diffusion"})
            head, picture = await message(socket)
            assert (head["state"], picture) == ({"lab": "Diffusion"}, b"")
            for number in range(100):
                feed.followers.show_picture(b"%d" % number, 1.0)
            await socket.write_message(f"ok {head['number']}")
            head, picture = await message(socket)
            assert picture == b"99"
            assert feed.followers.counts.dropped == 99
        await until(lambda: not len(feed.followers))

    served(test)


@pytest.mark.parametrize("sent", ["", "ok 7", "ok ١", "do next", "ok 1 ", b"ok 1", "x" * 1000, "ok " + "1" * 20,
                                  "vote", "vote 1 1", f"vote 1 1 {TOKEN}x", f"vote 1 10 {TOKEN}", f"vote 1 -1 {TOKEN}",
                                  f"vote 123456 1 {TOKEN}", f"vote 1 1 {TOKEN[:-1]}<", f"vote 1 ١ {TOKEN}",
                                  f"vote 1 1 {TOKEN}".encode(), "do vote"])  # fmt: skip
def test_who_sends_anything_else_than_a_confirmation_is_out(rooms, sent):
    """The message "do next" belongs to the lecturer's window; 7 was never sent; the digit is an Arabic 1."""
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        async with connected(f"{address}/follow/{code}") as socket:
            await until(lambda: len(feed.followers))
            feed.followers.show_state({"lab": "Diffusion"})
            await socket.write_message(sent, binary=isinstance(sent, bytes))
            found, _ = await closed(socket)
            assert found == BROKEN or len(sent) > handlers.MOST_MESSAGE  # Tornado does not read it
            await until(lambda: not len(feed.followers))
            assert feed.acts == []
            assert feed.poll.counts == [0, 0]

    served(test)


async def answer(socket: WebSocketClientConnection) -> dict[str, Any]:
    """Return the answer to a vote."""
    head, picture = await message(socket)
    assert (list(head), picture) == (["answer"], b"")
    return head["answer"]


def test_votes_are_answered_in_words_and_count_once_per_token(rooms):
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        async with connected(f"{address}/follow/{code}") as one, connected(f"{address}/follow/{code}") as other:
            await until(lambda: len(feed.followers) == 2)
            for socket in (one, other):  # the same phone, whose first connection has not ended yet
                await socket.write_message(f"vote 1 1 {TOKEN}")
                found = await answer(socket)
                assert (found["vote"], found["choice"]) == (1, 1)
                assert "is counted" in found["said"]
            assert feed.poll.counts == [1, 0]
            await one.write_message(f"vote 1 2 {TOKEN}")
            assert "is changed" in (await answer(one))["said"]
            await one.write_message(f"vote 1 9 {TOKEN}")
            assert await answer(one) == {"vote": 1, "choice": 0, "said": "This vote has the choices 1 to 2, not 9."}
            assert feed.poll.counts == [0, 1]
            feed.poll.close()
            await one.write_message(f"vote 1 1 {TOKEN}")
            assert await answer(one) == {"vote": 1, "choice": 0, "said": "The vote is closed."}
            assert feed.poll.counts == [0, 1]
            feed.followers.show_state({"lab": "Diffusion"})  # answers are not confirmed
            head, _ = await message(one)
            await one.write_message(f"ok {head['number']}")
            await one.write_message(f"vote 1 1 {TOKEN}")
            assert (await answer(one))["said"] == "The vote is closed."

    served(test)


def test_a_connection_has_one_token_and_a_limited_rate_of_votes(rooms):
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        async with connected(f"{address}/follow/{code}") as socket:
            await socket.write_message(f"vote 1 1 {TOKEN}")
            await answer(socket)
            await socket.write_message(f"vote 1 1 {TOKEN[::-1]}")
            assert (await closed(socket))[0] == BROKEN
            assert feed.poll.counts == [1, 0]
        async with connected(f"{address}/follow/{code}") as socket:
            for _ in range(10 * handlers.VOTES[0]):
                await socket.write_message(f"vote 1 2 {TOKEN}")
            assert await closed(socket) == (BUSY, TOO_MANY_VOTES)
            assert feed.poll.counts == [0, 1]
            await until(lambda: not len(feed.followers))

    served(test)


def test_a_vote_that_arrives_after_the_end_of_its_room_does_not_count(rooms):
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        async with connected(f"{address}/follow/{code}") as socket:
            await until(lambda: len(feed.followers))
            rooms.end(code)
            with suppress(WebSocketClosedError):
                await socket.write_message(f"vote 1 1 {TOKEN}")
            assert await closed(socket) == (ENDED, OVER)
            assert feed.poll.counts == [0, 0]

    served(test)


def test_two_hundred_phones_vote_at_once(rooms):
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        async with AsyncExitStack() as stack:
            sockets = [await stack.enter_async_context(connected(f"{address}/follow/{code}")) for _ in range(200)]
            await asyncio.gather(*(one.write_message(f"vote 1 {1 + i % 2} {i:016d}") for i, one in enumerate(sockets)))
            for one in sockets:
                assert "counted" in (await answer(one))["said"]
            assert feed.poll.counts == [100, 100]

    served(test)


def test_who_confirms_what_he_does_not_read_is_out(rooms):
    """A client can learn message numbers without reading, since they are the same for all clients."""
    feed, reader = Fed(), Onlooker()
    code = rooms.open(feed)
    feed.followers.join(reader)

    async def test(address: str) -> None:
        place, path = address.split("/", 1)
        host, port = place.split(":")
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, (host, int(port)))
            await loop.sock_sendall(deaf, HANDSHAKE.format(path=f"/{path}/follow/{code}/ws").encode())
            await until(lambda: len(feed.followers) == 2)
            while len(feed.followers) == 2:
                feed.followers.show_picture(bytes(100_000), 0.0)
                reader.paint(feed.followers)
                with suppress(OSError):  # the server has closed the connection
                    await loop.sock_sendall(deaf, masked(f"ok {reader.heads[-1]['number']}"))
                await asyncio.sleep(0.002)

    served(test)


HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: c29tZXRoaW5nIG9mIG91cnM=\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def masked(text: str) -> bytes:
    """Return a short text message as a client's WebSocket frame, with a mask of zeros."""
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode()


def test_wrong_codes_are_answered_alike_and_an_ended_room_says_so(rooms):
    feed = Fed()
    code = rooms.open(feed)

    async def test(address: str) -> None:
        async with connected(f"{address}/follow/{code}") as socket:
            await until(lambda: len(feed.followers))
            rooms.end(code)
            assert await closed(socket) == (ENDED, "The lecturer has ended the room. Thank you for following.")
        for one in (code, "QQQQQQ"):
            async with connected(f"{address}/follow/{one}") as socket:
                assert await closed(socket) == (UNKNOWN, "There is no room with this code, or it is over.")

    served(test)


def test_a_page_is_the_same_for_every_code_and_runs_no_script_but_ours(rooms):
    code = rooms.open(Fed())

    async def test(address: str) -> None:
        client = AsyncHTTPClient()
        ask = partial(client.fetch, request_timeout=240)
        pages = [await ask(f"http://{address}/follow/{one}") for one in (code, "QQQQQQ", "")]
        assert len({page.body for page in pages}) == 1
        policy = pages[0].headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert f"ws://{address.removesuffix(PREFIX)}" in policy
        assert b"<script>" not in pages[0].body
        for kind in ("follow", "lecturer"):
            page = (await client.fetch(f"http://{address}/{kind}/x", request_timeout=240)).body.decode()
            for name in handlers.FILES:
                if name in page:
                    found = await client.fetch(f"http://{address}/{kind}/{name}", request_timeout=240)
                    assert found.headers["Content-Type"] == f"{handlers.FILES[name]}; charset=utf-8"
            assert page.count("http") == 0  # no resource is loaded from another host

    served(test)


@pytest.mark.parametrize(
    "path", [f"{PREFIX}/follow/passwd.js", f"{PREFIX}/follow/follow.html", f"{PREFIX}/follow/../app.js",
             f"{PREFIX}/follow/A-B", f"{PREFIX}/follow/{13 * 'A'}", f"{PREFIX}/lecturer/{65 * 'a'}",
             f"{PREFIX}/lecturer/", f"{PREFIX}/follow/ABC/ws/x", "/follow/QQQQQQ"]
)  # fmt: skip
def test_nothing_else_is_answered(rooms, path):
    async def test(address: str) -> None:
        with pytest.raises(HTTPClientError) as refused:
            await AsyncHTTPClient().fetch(f"http://{address.removesuffix(PREFIX)}{path}", request_timeout=240)
        assert refused.value.code == 404

    served(test)


def test_a_lecturers_window_may_ask_for_its_acts_alone(rooms):
    feed = Fed()
    token = rooms.window(feed)

    async def test(address: str) -> None:
        async with connected(f"{address}/lecturer/{token}") as socket:
            await until(lambda: len(feed.windows))
            for act in handlers.ACTS:
                await socket.write_message(f"do {act}")
            await until(lambda: len(feed.acts) == 4)
            assert feed.acts == ["next", "previous", "freeze", "vote"]
            await socket.write_message("do end")
            assert (await closed(socket))[0] == BROKEN
        async with connected(f"{address}/lecturer/{token[:-1]}") as socket:
            assert (await closed(socket))[0] == UNKNOWN

    served(test)


def test_who_tries_codes_is_known_by_the_address_that_he_comes_from(rooms, monkeypatch):
    asked: list[tuple[str, str]] = []

    def follow(code: str, viewer: object, address: str) -> Fed:
        asked.append((code, address))
        raise ViewerRefused(UNKNOWN, "no room")

    monkeypatch.setattr(rooms, "follow", follow)

    async def test(address: str) -> None:
        async with connected(f"{address}/follow/qqqqqq") as socket:
            assert (await closed(socket))[0] == UNKNOWN

    served(test)
    assert asked == [("QQQQQQ", "127.0.0.1")]


def test_foreign_hosts_and_origins_are_refused_here_too():
    """The whole installation in a server process, as app_hooks installs it."""
    ours = "from app.features.audience.mode import AudienceMode as a; a.install(); a.install()"
    served_here = SERVED.replace("operations.install(); operations.install()", ours)
    assert served_here != SERVED
    own = "http://localhost:PORT"
    asked = [
        {"kind": "http", "path": "/follow/QQQQQQ", "host": "localhost", "origin": None},
        {"kind": "http", "path": "/follow/QQQQQQ", "host": "evil.example", "origin": None},
        {"kind": "http", "path": "/follow/follow.js", "host": "evil.example", "origin": None},
        {"kind": "ws", "path": "/follow/QQQQQQ/ws", "host": "localhost:PORT", "origin": own},
        {"kind": "ws", "path": "/follow/QQQQQQ/ws", "host": "localhost:PORT", "origin": "http://evil.example"},
        {"kind": "ws", "path": "/lecturer/x/ws", "host": "evil.example", "origin": own},
    ]
    with serving_itself(script=served_here) as answers:
        found = answers(asked)
    assert [status for status, *_ in found] == [200, 403, 403, 101, 403, 403]
    headers = found[0][1]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]


def test_a_follower_s_script_finds_every_module_that_it_imports_and_the_words_of_the_page():
    imported = re.findall(r"from '\./([a-z]+\.js)'", handlers.file_text("follow.js"))
    assert {"explain.js", "words.js", "viewer.js"} <= set(imported) <= set(handlers.FILES)
    words, labels = re.findall(r"= (\{.*\});$", handlers.file_text("words.js"), re.MULTILINE)
    assert (json.loads(words), json.loads(labels)) == (WORDS, LABELS)
