"""Two who are at a page without a browser: one who sends nonsense, and the neighbour who must not notice."""

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

REST = 0.25  # seconds before a frame is confirmed: how fast frames come is not what is looked at
AGAIN = 2.0  # seconds after which the server is asked once more whether it has taken a message
PATIENCE = 300.0  # seconds, on a machine that does much else
LEAKS = ("Traceback", ".py", "site-packages", "/app/")  # what an answer to an error must not say


class FuzzError(AssertionError):
    """The server broke a promise; the text says which."""


async def fetch(address: str) -> Any:
    """Return the JSON that is answered there, whatever the status."""
    answer = await AsyncHTTPClient().fetch(address, request_timeout=PATIENCE, raise_error=False)
    try:
        return json.loads(answer.body)
    except ValueError:
        raise FuzzError(f"{address} is answered by {answer.code}: {answer.body[:500]!r}") from None


class Guest(Client):
    """A client that keeps the page's document, and confirms a few frames a second."""

    def __init__(self, address: str) -> None:
        super().__init__(address, PATIENCE)
        self.document: Any = {}

    @property
    def session(self) -> str:
        """The id of the page's session."""
        return get_session_id(self._token)

    async def pull(self) -> Any:
        """Ask for the document as the server has it, and return it."""
        self._pulled.clear()
        self._send("PULL-DOC-REQ", {})
        await self._wait(self._pulled, "its document")
        return self.document

    def _confirm_directly(self, message: bytes) -> None:
        asyncio.get_running_loop().call_later(REST, self._paint, message)

    def _paint(self, message: bytes) -> None:
        """Confirm a frame, unless the page was closed meanwhile."""
        with suppress(WebSocketClosedError):
            super()._confirm_directly(message)

    def _take(self, kind: str, content: str | bytes) -> None:
        if kind == "PULL-DOC-REPLY":
            self.document = json.loads(content)
        super()._take(kind, content)


class Visitor(Guest):
    """Sends fragments as they are, and comes back when the server hangs up."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.known, self.since = Known(), time.monotonic()
        self.refused = self.reopened = 0  # messages that were answered by an error; connections that were closed
        self._answered = asyncio.Event()

    async def send(self, fragments: Sequence[Fragment]) -> None:
        """Send them; a connection that is closed meanwhile is opened again when the server is asked next."""
        for fragment in fragments:
            if self._socket is None:
                return
            try:
                await self._socket.write_message(fragment, binary=isinstance(fragment, bytes))
            except WebSocketClosedError:
                return

    async def settled(self) -> bool:
        """Wait until the server has taken what was sent; False if it has hung up, which is an answer, too."""
        self._answered.clear()
        self._send_quietly("SERVER-INFO-REQ")
        reading = self.reading
        waiting = asyncio.create_task(self._answered.wait())
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            await asyncio.wait([waiting, reading], timeout=AGAIN, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done() or reading.done():
                break
            self._send_quietly("SERVER-INFO-REQ")  # the first one may have ended half a message
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
            self._socket.close()  # which the server has closed; it is forgotten only so
        await self.connect()

    def learn(self, foreign: Sequence[str] = ()) -> None:
        """Note which models the page has."""
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
    """Somebody whose lab runs, and who presses a key now and then."""

    async def lives(self) -> float:
        """Return after how many seconds its next frame and its next answer had come; FuzzError if they do not."""
        start, frames, answers = time.monotonic(), len(self.arrivals), len(self.answers)
        self.ask()
        while len(self.arrivals) == frames or len(self.answers) == answers:
            if self.reading.done() or time.monotonic() - start > PATIENCE:
                raise FuzzError("the neighbour's page stands still")
            await asyncio.sleep(0.02)
        return time.monotonic() - start


__all__ = ["ClientError", "FuzzError", "Neighbour", "Visitor", "fetch"]
