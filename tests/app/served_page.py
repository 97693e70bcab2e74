"""Scripts in processes of their own, and the browser's side of a page that such a script serves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping


def run_script(
    script: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script in its own process and return its output; fail if it fails or takes longer than 400 s."""
    command, env = [sys.executable, "-c", script, *arguments], {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


# The browser's side of a served page. opened(page) returns three functions: send a message, wait for a message, send
# a request and return (changes of the document until the reply, the reply).
CLIENT = """
import asyncio, json
from bokeh.util.token import generate_jwt_token, generate_session_id
from panel.io.server import get_server
from tornado.websocket import websocket_connect

async def opened(page):
    server = get_server({"/": page}, address="127.0.0.1", websocket_origin=["*"])
    server.start()
    protocols = ["bokeh", generate_jwt_token(generate_session_id())]
    client = await websocket_connect(f"ws://127.0.0.1:{server.port}/ws", subprotocols=protocols)

    async def message():
        header, _, content = [json.loads(await asyncio.wait_for(client.read_message(), 240)) for _ in range(3)]
        return header, content

    async def send(number, kind, content):
        for text in {"msgid": number, "msgtype": kind}, {}, content:
            await client.write_message(json.dumps(text))

    async def ask(number, kind, content):
        await send(number, kind, content)
        changes = []
        while True:
            header, content = await message()
            if header.get("reqid") == number:
                return changes, content
            changes += content.get("events", [])

    return send, message, ask

def changed(model, attr, new):
    return {"events": [{"kind": "ModelChanged", "model": {"id": model["id"]}, "attr": attr, "new": new}]}

def event(name, values):
    data = {"type": "event", "name": name, "values": {"type": "map", "entries": values}}
    return {"events": [{"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": data}]}
"""


# For scripts that serve `page` at /app with Panel, and open it as browsers do. No page without a browser is given up.
VISITS = """
import asyncio, json, sys, tornado.httpclient, tornado.websocket
import panel as pn
from bokeh.util.token import generate_jwt_token, generate_session_id, get_session_id, get_token_payload
from panel.io.server import get_server
from tornado.httpclient import HTTPRequest
from app.load.client import TOKEN

def started(page):
    server = get_server({"/app": page}, address="127.0.0.1", websocket_origin=["localhost"],
                        unused_session_lifetime_milliseconds=600_000)
    server.start()
    return server

async def get(server, query="", **headers):
    "Return the answer to a GET, the token in it, and the cookie."
    request = HTTPRequest(f"http://127.0.0.1:{server.port}/app{query}", headers=headers, request_timeout=240)
    answer = await tornado.httpclient.AsyncHTTPClient().fetch(request, raise_error=False)
    token = TOKEN.search(answer.body)
    return answer, token[1].decode() if token else "", answer.headers.get("Set-Cookie", "").partition(";")[0]

async def connect(server, token="", cookie="", query=""):
    "Return a WebSocket; without a token, one that no page has."
    headers = {"Cookie": cookie} if cookie else {}
    request = HTTPRequest(f"ws://127.0.0.1:{server.port}/app/ws{query}", headers=headers)
    protocols = ["bokeh", token or generate_jwt_token(generate_session_id())]
    return await tornado.websocket.websocket_connect(request, subprotocols=protocols)

async def heard(socket):
    "Return the next message, None at the end of the connection."
    return await asyncio.wait_for(socket.read_message(), 240)
"""
