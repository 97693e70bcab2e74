"""Connection limits: idle connections are closed, excess ones are refused immediately, fast senders are slowed down."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from types import SimpleNamespace

import pytest
from bokeh.server.connection import ServerConnection

from app.server.connections import FULL, LINGER, Allowance, session_of
from tests.app.served_page import run_script

pytestmark = pytest.mark.extended

SERVED = """
import asyncio, resource, sys
most, patience = int(sys.argv[1]), float(sys.argv[2])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
from bokeh.server.server import Server
from app.server import access
from app.server import connections
access.install()
if patience:
    connections.PATIENCE = patience
    connections.install(); connections.install()

async def main():
    server = Server({"/app": lambda document: None}, port=0, address="127.0.0.1")
    server.start()
    print(server.port, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
ASKED = b"GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def served(most: int = 1024, patience: float = 1.0) -> Iterator[int]:
    """Yield the port of a server that may have `most` descriptors and waits `patience` seconds for a request."""
    pytest.importorskip("resource")
    command = [sys.executable, "-c", SERVED, str(most), str(patience)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout
            yield int(process.stdout.readline())
        finally:
            process.kill()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def answer(port: int) -> bytes:
    """Return the response to a request, b"" if the connection was closed."""
    with closing(connected(port)) as own:
        own.sendall(ASKED)
        try:
            return own.recv(65536)
        except ConnectionResetError:
            return b""


def is_closed(own: socket.socket) -> bool:
    """Wait until the server has closed the connection; fail after its timeout."""
    return own.recv(1) == b""


def test_silent_and_slow_connections_are_closed() -> None:
    """Connections: silent, one byte every 50 ms, idle after a response, and with half a request body."""
    with served() as port, ExitStack() as stack:
        silent, slow, idle, half = [stack.enter_context(closing(connected(port))) for _ in range(4)]
        idle.sendall(ASKED)
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")
        half.sendall(b"POST /app HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf")
        began = time.monotonic()
        try:
            for byte in ASKED[:-1] * 9:
                slow.sendall(bytes([byte]))
                time.sleep(0.05)
            pytest.fail("the slow connection is still open")
        except OSError:
            pass
        assert 0.5 < time.monotonic() - began < 15
        for one in (silent, half):
            assert is_closed(one)
        while idle.recv(65536):
            pass


def test_an_excess_connection_is_refused_immediately() -> None:
    """The established connections continue to work."""
    with served(most=120, patience=300) as port, ExitStack() as stack:
        first = stack.enter_context(closing(connected(port)))
        crowd = [stack.enter_context(closing(connected(port))) for _ in range(110)]
        began = time.monotonic()
        assert all(one == b"" or one.startswith(b"HTTP/1.1 503") for one in [answer(port) for _ in range(20)])
        assert time.monotonic() - began < 10
        time.sleep(2 * LINGER)  # until refused connections that did not close are dropped
        refused = answer(port)
        assert refused.startswith(b"HTTP/1.1 503")
        assert refused.endswith(FULL.encode())
        first.sendall(ASKED)
        assert first.recv(65536).startswith(b"HTTP/1.1 200")
        for one in crowd[:60]:
            one.close()
        end = time.monotonic() + 20
        while not answer(port).startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_an_allowance_is_spent_and_restored() -> None:
    now = [0.0]
    allowance = Allowance(100, 10, lambda: now[0])
    assert [allowance.spend(40) for _ in range(3)] == [0, 0, 2]
    now[0] = 2
    assert allowance.spend(10) == 1
    now[0] = 1000
    assert [allowance.spend(100), allowance.spend(10)] == [0, 1]


FLOODED = """
import asyncio, json, time, tornado.websocket
from bokeh.server.server import Server
from bokeh.util.token import generate_jwt_token, generate_session_id
from app.server import message_bounds
from app.tab import frame_channel
from app.server import connections
message_bounds.install(); frame_channel.install(); connections.install()
PARTS = json.dumps({"msgid": "1", "msgtype": "PATCH-DOC"}), "{}", json.dumps({"events": "x" * (4 * 2**20 - 200)})

async def main():
    server = Server({"/": lambda document: None}, port=0, address="127.0.0.1")
    server.start()
    protocols = ["bokeh", generate_jwt_token(generate_session_id())]
    sent, began = 0, time.monotonic()

    async def flood():
        nonlocal sent
        socket = await tornado.websocket.websocket_connect(f"ws://127.0.0.1:{server.port}/ws", subprotocols=protocols)
        for _ in range(100):
            for part in PARTS:
                await socket.write_message(part)
            sent += 1
            if sent % 4 == 0:  # coming back gives no new allowance
                socket.close()
                socket = await tornado.websocket.websocket_connect(
                    f"ws://127.0.0.1:{server.port}/ws", subprotocols=protocols)

    task = asyncio.create_task(flood())
    await asyncio.sleep(4)
    print(sent)
    task.cancel()

asyncio.run(main())
"""


def test_messages_of_four_megabytes_are_read_slowly() -> None:
    """In 4 s a page may send 24 MiB; without a limit it was several hundred."""
    done = run_script(FLOODED)
    assert 2 <= int(done.stdout) < 14


def test_a_detached_connection_has_no_session() -> None:
    """A message can arrive after Bokeh has discarded the page; found with 70 000 random messages."""
    session = SimpleNamespace(subscribe=lambda connection: None, unsubscribe=lambda connection: None)
    connection = ServerConnection(None, None, None, session)
    assert session_of(connection) is session
    connection.detach_session()
    assert session_of(connection) is None
