"""Connections that a browser has left without closing are closed."""

from __future__ import annotations

import json

import pytest

from app.upstream import dead_connections
from tests.app.served_page import run_script

pytestmark = pytest.mark.extended

# A page that writes a megabyte ten times a second, and a browser that has disappeared without closing: it reads
# nothing. Then the same browser with a second connection, which reads; then only a connection that reads nothing.
SCRIPT = """
import asyncio, json
from itertools import count
from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.models import Div
from bokeh.server.server import Server
from bokeh.server.views.ws import WSHandler
from bokeh.util.token import generate_jwt_token, generate_session_id
from tornado.websocket import websocket_connect
from app.upstream import dead_connections, patches

patches.install()
dead_connections.install()

def page(document):
    div = Div()
    document.add_root(div)
    numbers = count()
    document.add_periodic_callback(lambda: setattr(div, "text", str(next(numbers)) + "x" * 2**20), 100)

async def silent(port, token):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.transport.pause_reading()
    writer.write((f"GET /ws HTTP/1.1\\r\\nHost: localhost:{port}\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nSec-WebSocket-Version: 13\\r\\n"
        f"Sec-WebSocket-Protocol: bokeh, {token}\\r\\n\\r\\n").encode())
    return writer

async def until(condition):
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.02)

async def main():
    server = Server({"/": Application(FunctionHandler(page))}, port=0, address="127.0.0.1")
    server.start()
    token = generate_jwt_token(generate_session_id())
    gone = await silent(server.port, token)
    await until(lambda: server.get_sessions())
    (session,) = server.get_sessions()
    await until(lambda: session.connection_count == 1)
    (first,) = session._subscribed_connections
    await until(lambda: len(first._socket.ws_connection.stream._write_buffer) > 2**19)  # it is stuck
    back = await websocket_connect(f"ws://localhost:{server.port}/ws", subprotocols=["bokeh", token])
    patches = 0
    async with asyncio.timeout(120):
        while patches < 3:
            patches += '"PATCH-DOC"' in str(await back.read_message())
    await until(lambda: session.connection_count == 1)
    alone = first not in session._subscribed_connections
    back.close()
    await until(lambda: session.connection_count == 0)
    assert WSHandler.ping_interval == dead_connections.PING
    WSHandler.ping_interval = 0.5
    again = await silent(server.port, token)
    await until(lambda: session.connection_count == 1)
    await until(lambda: session.connection_count == 0)  # no answer to a ping
    print(json.dumps({"patches": patches, "alone": alone}))

asyncio.run(main())
"""


def test_a_page_uses_its_newest_connection_and_silent_ones_are_closed():
    done = run_script(SCRIPT)
    assert json.loads(done.stdout) == {"patches": 3, "alone": True}
    assert 10 <= dead_connections.PING <= 30  # s; a page is stuck for at most twice that
