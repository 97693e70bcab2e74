"""A browser tab without a browser: opens the page, confirms every frame immediately, and presses keys.

It implements the client side of Bokeh's protocol: GET, WebSocket, the whole document, "ready", the size of each new
plot, and the number of each received frame. It draws nothing, so that measurements cover the server and its engines
only. Like a browser it stores the cookies of its GET, sends them with the WebSocket, and uploads files in pieces.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import time
from collections.abc import Awaitable, Iterator, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeVar

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.simple_httpclient import HTTPTimeoutError
from tornado.websocket import WebSocketClientConnection, websocket_connect

from app.tab import frame_channel
from app.tab.stream import FAST

TOKEN = re.compile(rb'"token":\s*"([^"]+)"')
LONGEST_MESSAGE = 64 * 2**20  # bytes
PATIENCE = 60.0  # s, default of Client
PLOT = 400  # px: inner width and height reported for every plot
LOOK = 0.1  # s between two checks of the lab's state
STATE = re.compile(r"class=(?:&#x27;|.)state (\w+)")  # state in the HTML of the status bar, with escaped quotes
AT_WORK = ("running", "complete")  # states in which a lab has started
PIECE = 2**20  # bytes of a file in one message
READING = "Reading"  # first word of a file field's label until the lab answers
REJECTED = "Rejected"  # first word of the label after a refusal
KEY = "h"  # opens and closes the list of keys; the server answers with a change of the dialog
Reply = TypeVar("Reply")


class ClientError(RuntimeError):
    """Raised if the server does not answer as expected; the message names the missing answer."""


class Client:
    """One tab. `open` returns after the first frame; `run` waits until the lab runs.

    patience: timeout in s for building the page and for its first frame; cookies: the browser's cookies by name, to
    which those of the page are added. arrivals: arrival times of frames; answers: seconds from a key press to the
    resulting change; both by time.perf_counter.
    """

    def __init__(
        self, address: str, patience: float = PATIENCE, cookies: MutableMapping[str, str] | None = None
    ) -> None:
        self.address, self._patience = address, patience
        self.cookies = {} if cookies is None else cookies
        self.arrivals: list[float] = []
        self.answers: list[float] = []
        self.received = 0  # bytes
        self._token = ""
        self._socket: WebSocketClientConnection | None = None
        self._frames: WebSocketClientConnection | None = None  # the page's WebSocket for frames
        self._key = ""  # key for opening it
        self._framing: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._sent = 0  # number of messages, used as their ids
        self._document: dict[str, str] = {}  # role -> id of each model that receives messages
        self._fields: dict[str, tuple[str, str]] = {}  # label before [ -> ids of a file field and its data
        self._labels: dict[str, str] = {}  # id of a file field's data -> label
        self._dialogs: set[str] = set()  # ids; KEY opens one of them
        self._answers: dict[str, str] = {}  # id of a source or ticket -> id of its Acknowledgement model
        self._pressed = 0.0
        self.state = ""  # of the lab: "running", "paused" …
        self._ready, self._pulled, self._first = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def open(self) -> None:
        """Open the page and wait for its first frame; raise ClientError at a timeout."""
        answer = await self._within_patience(AsyncHTTPClient().fetch(self._request(self.address)))
        for line in answer.headers.get_list("Set-Cookie"):
            keep_cookies(self.cookies, line)
        found = TOKEN.search(answer.body)
        if found is None:
            raise ClientError(f"the page at {self.address} names no session")
        self._token = found[1].decode()
        await self.connect()
        self._send("PULL-DOC-REQ", {})
        await self._wait(self._pulled, "its document")
        self._event("document_ready")
        await self._wait(self._first, "its first frame")

    async def connect(self) -> None:
        """Open the page's WebSocket, or reopen it after it was closed: the server keeps a page for a while."""
        address = re.sub(r"^http", "ws", self.address.partition("?")[0]) + "/ws"
        self._ready.clear()
        protocols = ["bokeh", self._token]
        self._socket = await self._within_patience(
            websocket_connect(self._request(address), subprotocols=protocols, max_message_size=LONGEST_MESSAGE)
        )
        protocol: Any = self._socket.protocol
        protocol.stream.set_nodelay(True)  # like browsers; tornado's clients would wait for each answer
        self._reader = asyncio.create_task(self._read())
        await self._wait(self._ready, "that it is ready")

    def _request(self, address: str) -> HTTPRequest:
        """Return a request with this browser's cookies."""
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        return HTTPRequest(
            address,
            headers=headers if self.cookies else None,
            connect_timeout=self._patience,
            request_timeout=self._patience,
        )

    async def _within_patience(self, answer: Awaitable[Reply]) -> Reply:
        """Return the answer to a request; raise ClientError in place of Tornado's timeout error."""
        try:
            return await answer
        except HTTPTimeoutError:
            raise ClientError(f"the page at {self.address} did not answer within {self._patience:.0f} s") from None

    async def run(self) -> None:
        """Wait until the lab runs, for a link until its scene is restored; raise ClientError at a timeout."""
        end = time.perf_counter() + self._patience
        while self.state not in AT_WORK:
            if time.perf_counter() > end:
                waited = f"after {self._patience:.0f} s"
                raise ClientError(f"the lab at {self.address} is {self.state!r} {waited}, not running")
            await asyncio.sleep(LOOK)

    def press(self, key: str) -> None:
        """Press a key on the page."""
        self._message(self._document["browser"], [["key", key]])

    def _message(self, model: str, entries: list[list[Any]]) -> None:
        """Send a custom message to a component."""
        data = {"type": "map", "entries": entries}
        self._event("data_event", ["model", {"id": model}], ["data", data])

    async def _wait(self, what: asyncio.Event, words: str) -> None:
        """Wait for an event until the timeout or the end of the connection. words: name of the awaited answer."""
        waiter = asyncio.create_task(what.wait())
        reader = [self._reader] if self._reader else []
        done, _ = await asyncio.wait([waiter, *reader], timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        for ended in done - {waiter}:
            await ended  # raises the error that ended it
        if not what.is_set():
            raise ClientError(f"the page at {self.address} did not send {words} within {self._patience:.0f} s")

    @property
    def reading(self) -> asyncio.Task[None]:
        """The task that reads the server's messages; it ends with a ClientError when the server closes the page."""
        if self._reader is None:
            raise ClientError("the tab was not opened")
        return self._reader

    def choose(self, lab: int) -> None:
        """Switch to another lab's tab, by its number in the header."""
        self.set(self._document["tabs"], "active", lab)

    def send_change(self) -> None:
        """Press KEY unless the answer to the last press is pending."""
        if not self._pressed:
            self._pressed = time.perf_counter()
            self.press(KEY)

    async def upload(self, field: str, name: str, data: bytes) -> str:
        """Send a file to the field with the label `field`, without its [...]; return its label after the lab's answer.

        Raise ClientError at a timeout of the field or of the answer.
        """
        end = time.perf_counter() + self._patience
        while field not in self._fields:  # a page's side bar is built after its first frame
            if time.perf_counter() > end:
                raise ClientError(f"no field {field!r} appeared within {self._patience:.0f} s")
            await asyncio.sleep(LOOK)
        model, label = self._fields[field]
        before = self._labels[label]
        self._message(model, [["status", "initializing"]])
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)]
        for number, piece in enumerate(pieces, 1):
            packed = {"type": "bytes", "data": base64.b64encode(gzip.compress(piece, 1)).decode()}
            self._message(model, [
                ["status", "upload_event"], ["chunk", number], ["total_chunks", len(pieces)], ["name", name],
                ["mime_type", ""], ["data", packed],
            ])  # fmt: skip
        self._message(model, [["status", "finished"]])
        end = time.perf_counter() + self._patience
        while (label_text := self._labels[label]) == before or label_text.startswith(READING):
            if time.perf_counter() > end:
                raise ClientError(f"{name} was not answered within {self._patience:.0f} s: {label_text}")
            await asyncio.sleep(LOOK)
        return label_text

    async def close(self) -> None:
        """Close the tab."""
        for task in (self._reader, self._framing):
            if task is not None:
                task.cancel()
        for socket in (self._socket, self._frames):
            if socket is not None:
                socket.close()

    # -- receiving

    async def _read(self) -> None:
        """Read all messages: a header, metadata, content, and a header and bytes for each buffer."""
        while True:
            header = json.loads(await self._fragment())
            await self._fragment()
            content = await self._fragment()
            for _ in range(header.get("num_buffers", 0)):
                await self._fragment()
                await self._fragment()
            self._take(header["msgtype"], content)

    async def _read_frames(self) -> None:
        """Open the connection for frames and confirm each frame."""
        address = re.sub(r"^http(.*/)[^/]*$", r"ws\1", self.address.partition("?")[0]) + frame_channel.PATH[1:]
        self._frames = await self._within_patience(websocket_connect(address, max_message_size=LONGEST_MESSAGE))
        protocol: Any = self._frames.protocol
        protocol.stream.set_nodelay(True)
        await self._frames.write_message(f"page {self._key}")
        while isinstance(message := await self._frames.read_message(), bytes):
            self.received += len(message)
            self._confirm_directly(message)

    async def _fragment(self) -> str | bytes:
        fragment = await self._socket.read_message() if self._socket else None
        if fragment is None:
            raise ClientError(f"the server closed the page at {self.address}")
        self.received += len(fragment)
        return fragment

    def _take(self, kind: str, content: str | bytes) -> None:
        if kind == "PATCH-DOC":
            for event in json.loads(content)["events"]:
                self._change(event)
        elif kind == "ACK":
            self._ready.set()
        elif kind == "PULL-DOC-REPLY":
            self._find(json.loads(content))
            self._pulled.set()

    def _change(self, event: Mapping[str, Any]) -> None:
        """Handle one change of the document."""
        match event:
            case {"kind": "ColumnDataChanged", "model": {"id": model}, "data": data} if model in self._answers:
                self.set(self._answers[model], "transport", FAST)
                self._framing = self._framing or asyncio.create_task(self._read_frames())
                self._confirm(self._answers[model], number_of(data))
            case {"kind": "ModelChanged", "model": {"id": model}, "attr": "value", "new": [number, _]} if (
                model in self._answers
            ):
                self._confirm(self._answers[model], number)
            case {"kind": "ModelChanged", "model": {"id": model}, "attr": "open"} if model in self._dialogs:
                if self._pressed:
                    self.answers.append(time.perf_counter() - self._pressed)
                    self._pressed = 0.0
            case {"kind": "ModelChanged", "model": {"id": model}, "attr": "label", "new": str(text)} if (
                model in self._labels
            ):
                self._labels[model] = text
            case {"kind": "ModelChanged", "attr": "text", "new": str(text)} if found := STATE.search(text):
                self.state = found[1]
            case _:
                self._find(event)

    def _find(self, part: object) -> None:
        """Store the ids of models that receive messages, and report the size of new plots."""
        for model in models(part):
            name, own, attributes = model["name"], model["id"], model.get("attributes", {})
            if name == "Figure":
                self.set(own, "inner_width", PLOT)
                self.set(own, "inner_height", PLOT)
            elif name == "CustomJS" and (args := arguments_of(attributes)).keys() >= {"source", "answer", "ticket"}:
                self._answers |= {args["source"]: args["answer"], args["ticket"]: args["answer"]}
                self._key = str(dict(attributes["args"]["entries"]).get("page", ""))
            elif attributes.get("class_name") == "Browser":
                self._document["browser"] = own
            elif attributes.get("class_name") == "Dialog":
                self._dialogs.add(attributes["data"]["id"])
            elif attributes.get("class_name") == "FileInput":
                data = attributes["data"]
                label = data["attributes"].get("label", "")
                self._fields[label.partition(" [")[0]] = own, data["id"]
                self._labels[data["id"]] = label
            elif attributes.get("class_name") == "TabMenu":
                self._document["tabs"] = attributes["data"]["id"]

    def _confirm(self, answer: str, number: int) -> None:
        self.arrivals.append(time.perf_counter())
        self.set(answer, "value", [number, 0.001])
        self._first.set()

    def _confirm_directly(self, message: bytes) -> None:
        """Confirm a frame of the page's frame channel."""
        source, number = frame_channel.number_of(message)
        self.arrivals.append(time.perf_counter())
        if self._frames is not None:
            self._frames.write_message(f"frame {source} {number} 0.001")
        self._first.set()

    # -- sending

    def set(self, model: str, attribute: str, value: object) -> None:
        """Change a property of a model on the server, as a browser does after a slider was moved."""
        change = {"kind": "ModelChanged", "model": {"id": model}, "attr": attribute, "new": value}
        self._send("PATCH-DOC", {"events": [change]})

    def _event(self, name: str, *values: list[Any]) -> None:
        data = {"type": "event", "name": name, "values": {"type": "map", "entries": list(values)}}
        event = {"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": data}
        self._send("PATCH-DOC", {"events": [event]})

    def _send(self, kind: str, content: object) -> None:
        self._sent += 1
        header = {"msgid": str(self._sent), "msgtype": kind}
        if self._socket is not None:
            for part in (header, {}, content):
                self._socket.write_message(json.dumps(part))


def keep_cookies(cookies: MutableMapping[str, str], line: str) -> None:
    """Store the cookies of one Set-Cookie header, and remove expired ones. Domain, path and age are ignored."""
    try:
        found = SimpleCookie(line)
    except CookieError:
        return
    for name, cookie in found.items():
        if cookie["max-age"] == "0" or not cookie.value:
            cookies.pop(name, None)
        else:
            cookies[name] = cookie.coded_value


def arguments_of(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of the models among a CustomJS's arguments, by name."""
    args = attributes.get("args")
    entries = args.get("entries", []) if isinstance(args, Mapping) else []
    return {name: model["id"] for name, model in entries if isinstance(model, Mapping) and "id" in model}


def number_of(data: Mapping[str, Any]) -> int:
    """Return the frame number in these columns."""
    return int(dict(data["entries"])["number"][0])


def models(part: object) -> Iterator[Mapping[str, Any]]:
    """Yield every model defined within `part`, a piece of a document's JSON."""
    if isinstance(part, Mapping):
        if part.get("type") == "object" and "id" in part:
            yield part
        for inner in part.values():
            yield from models(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from models(inner)
