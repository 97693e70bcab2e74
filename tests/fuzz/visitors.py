"""Two clients without a browser: an attacker that sends random messages, and a neighbour that must not be disturbed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bokeh.util.token import get_session_id
from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClosedError

from app.load.client import Client, ClientError, models
from tests.fuzz.messages import Fragment, Known

REST = 0.25  # seconds before a frame is confirmed: the frame rate is not tested
AGAIN = 2.0  # seconds between two requests for the same answer
PATIENCE = 300.0  # timeout in s, on a busy machine
LEAKS = ("Traceback", ".py", "site-packages", "/app/")  # texts that an answer to an error must not contain


class FuzzError(AssertionError):
    """The server broke a promise; the text describes it."""


async def fetch(address: str) -> Any:
    """Return the JSON at an address, whatever the status."""
    answer = await AsyncHTTPClient().fetch(address, request_timeout=PATIENCE, raise_error=False)
    try:
        return json.loads(answer.body)
    except ValueError:
        raise FuzzError(f"{address} is answered by {answer.code}: {answer.body[:500]!r}") from None


class Guest(Client):
    """A client that stores the page's document, and confirms a few frames per second."""

    def __init__(self, address: str) -> None:
        super().__init__(address, PATIENCE)
        self.document: Any = {}

    @property
    def session(self) -> str:
        """Return the id of the page's session."""
        return get_session_id(self._token)

    async def pull(self) -> Any:
        """Request the document from the server, and return it."""
        self._pulled.clear()
        self._send("PULL-DOC-REQ", {})
        await self._wait(self._pulled, "its document")
        return self.document

    def _confirm_directly(self, message: bytes) -> None:
        asyncio.get_running_loop().call_later(REST, self._paint, message)

    def _paint(self, message: bytes) -> None:
        """Confirm a frame, unless the page has been closed."""
        with suppress(WebSocketClosedError):
            super()._confirm_directly(message)

    def _take(self, kind: str, content: str | bytes) -> None:
        if kind == "PULL-DOC-REPLY":
            self.document = json.loads(content)
        super()._take(kind, content)


class Visitor(Guest):
    """Sends fragments unchanged, and reconnects when the server closes the connection."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.known, self.since = Known(), time.monotonic()
        self.refused = self.reopened = 0  # messages answered with an error; closed connections
        self._answered = asyncio.Event()

    async def send(self, fragments: Sequence[Fragment]) -> None:
        """Send the fragments; a closed connection is reopened by the next call of `return_`."""
        for fragment in fragments:
            if self._socket is None:
                return
            try:
                await self._socket.write_message(fragment, binary=isinstance(fragment, bytes))
            except WebSocketClosedError:
                return

    async def settled(self) -> bool:
        """Wait until the server has processed all messages; return False if it has closed the connection instead."""
        self._answered.clear()
        self._send_quietly("SERVER-INFO-REQ")
        reading = self.reading
        waiting = asyncio.create_task(self._answered.wait())
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            await asyncio.wait([waiting, reading], timeout=AGAIN, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done() or reading.done():
                break
            self._send_quietly("SERVER-INFO-REQ")  # the first request may have completed a partial message
        waiting.cancel()
        if reading.done():
            if not isinstance(ended := reading.exception(), ClientError | WebSocketClosedError):
                raise FuzzError(f"the client could not read what the server sent: {ended!r}")
            return False
        if not self._answered.is_set():
            raise FuzzError(f"the server did not answer within {PATIENCE:.0f} s")
        return True

    async def return_(self) -> None:
        """Open the WebSocket again."""
        self.reopened += 1
        if self._socket is not None:
            self._socket.close()  # already closed by the server; this releases it
        await self.connect()

    def learn(self, foreign: Sequence[str] = ()) -> None:
        """Store the models of the page."""
        found = {one["id"]: (one["name"], tuple(one.get("attributes", ()))) for one in models(self.document)}
        tables = [one for one in models(self.document) if one["name"] == "ColumnDataSource"]
        sources = [one["id"] for one in tables if one.get("attributes", {}).get("name") == "frames"]
        self.known.models, self.known.browser = found, self._document.get("browser", "")
        self.known.sources, self.known.foreign = tuple(sources), tuple(foreign)

    def _send_quietly(self, kind: str) -> None:
        try:
            self._send(kind, {})
        except WebSocketClosedError:
            return

    def _take(self, kind: str, content: str | bytes) -> None:
        if kind == "SERVER-INFO-REPLY":
            self._answered.set()
        elif kind == "ERROR":
            self.refused += 1
            if leak := next((words for words in LEAKS if words in str(content)), None):
                raise FuzzError(f"an error reply says {leak}: {content[:300]!r}")
        super()._take(kind, content)


class Neighbour(Guest):
    """A page with a running lab, on which a key is pressed from time to time."""

    async def lives(self) -> float:
        """Return the seconds until its next frame and its next answer; raise FuzzError if they do not arrive."""
        start, frames, answers = time.monotonic(), len(self.arrivals), len(self.answers)
        self.send_change()
        while len(self.arrivals) == frames or len(self.answers) == answers:
            if self.reading.done() or time.monotonic() - start > PATIENCE:
                raise FuzzError("the neighbour's page stands still")
            await asyncio.sleep(0.02)
        return time.monotonic() - start


__all__ = ["ClientError", "FuzzError", "Neighbour", "Visitor", "fetch"]
