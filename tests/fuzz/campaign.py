"""Random messages sent to a served app in batches; after each batch the server must be unharmed.

Checks: a neighbour's page continues with its values; /health reports ok; the widgets, session, engine and link of each
page agree; no engine restarts; our code raised no exception.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from app.load.client import models
from app.load.server import Server, Use, serving
from compute import labs
from compute.cli import settings
from tests.fuzz.messages import Hostile
from tests.fuzz.users import User, disagreement
from tests.fuzz.visitors import ClientError, FuzzError, Guest, Neighbour, Visitor, fetch

ROOT = Path(__file__).resolve().parent.parent.parent
ROOM = {"FIELDLAB_MAX_SESSIONS": "500"}  # closed pages remain for half a minute
LABS = tuple(lab.LAB for lab in labs.LABS)  # tabs of the page
TOGETHER = 6  # pages that send at a time
PLANTED = re.compile(r"\(id='new\d*'")  # a model that a message added to its own page; it may break that page
AT_ONCE = 0.7  # share of the harmless messages that are followed by the next without waiting for the server
CLOSING = ("garbage", "wrong_head", "wrong_order", "wrong_content", "too_much", "wrong_blocks", "frame", "confirmation")
PAGE = 2000  # messages from a page before another page is opened
TOKEN = 200.0  # seconds in which a page's WebSocket can be reopened; Bokeh's tokens are valid for 300
LOOK = 0.1  # seconds between two checks of an expected change
PULL = 25  # sequences between two checks of the whole document and the link
CALM = 300.0  # timeout in s until widgets, session, engine and link agree


@contextmanager
def fuzzed_server(said: Path) -> Iterator[Server]:
    """Serve the app with the limits for public servers; its output goes to the file `said`."""
    chosen = msgspec.json.encode(settings.PRESETS["public"]).decode()
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {settings.VARIABLE: chosen, "PYTHONPATH": path, "FIELDLAB_METRICS": "1"} | ROOM
    with serving(environment, ("tests.fuzz.served",), said) as server:
        yield server


@dataclass
class Found:
    """Results of a campaign."""

    sent: Counter[str] = field(default_factory=Counter)
    refused: int = 0  # by an error reply
    closed: int = 0  # connections, by the server
    pages: int = 0
    slowest: float = 0.0  # seconds for the neighbour's next frame and answer
    use: list[Use] = field(default_factory=list)  # of the server's process after each batch
    raised: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)  # maximum s, by kind of message or by lab
    restarts: int = 0

    @property
    def ours(self) -> list[str]:
        """Return exceptions from our code, except those about a model that a message added to its own page."""
        return [what for what in self.raised if "/" in what.partition(" ")[0] and not PLANTED.search(what)]

    def words(self) -> str:
        """Return a summary in lines."""
        longest = sorted(self.longest.items(), key=lambda one: one[1], reverse=True)
        return "\n".join([
            f"{self.sent.total()} sent: {', '.join(f'{kind} {n}' for kind, n in self.sent.most_common())}",
            f"{self.refused} refused, {self.closed} connections closed, {self.pages} pages",
            f"{self.restarts} engine restarts, the neighbour waited {self.slowest:.1f} s at most",
            "longest: " + ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in longest[:5]),
            "MB of memory: " + ", ".join(f"{one.memory / 2**20:.0f}" for one in self.use),
            *(f"{times:6d} {what}" for what, times in self.raised.most_common()),
        ])  # fmt: skip


class Attacker:
    """Sends random messages from one page after the other; counts results in `found`.

    foreign: ids of another page's models.
    """

    def __init__(self, address: str, found: Found, seed: str, foreign: Sequence[str]) -> None:
        self._address, self._found, self._foreign = address, found, foreign
        self._random = random.Random(seed)
        self._visitor: Visitor | None = None
        self._sent = 0

    async def send(self, count: int) -> None:
        """Send `count` messages."""
        for _ in range(count):
            visitor = self._visitor
            if visitor is None or self._sent % PAGE == 0 or time.monotonic() - visitor.since > TOKEN:
                visitor = await self._open()
            self._sent += 1
            await self._send(visitor)

    async def leave(self) -> None:
        """Close the current page, if any."""
        visitor, self._visitor = self._visitor, None
        if visitor is not None:
            self._found.refused += visitor.refused
            self._found.closed += visitor.reopened
            await visitor.close()

    async def _open(self) -> Visitor:
        """Open a page, at a random lab."""
        await self.leave()
        visitor = self._visitor = Visitor(self._address)
        await visitor.open()
        if lab := self._random.randrange(len(LABS)):
            visitor.choose(lab)
            await asyncio.sleep(1)
        await visitor.pull()
        visitor.learn(self._foreign)
        self._found.pages += 1
        return visitor

    async def _send(self, visitor: Visitor) -> None:
        """Send a message, and mostly wait until it is processed; reconnect if the server closes the connection."""
        kind, fragments = Hostile(self._random, visitor.known).message()
        self._found.sent[kind] += 1
        began = time.monotonic()
        await visitor.send(fragments)
        if kind not in CLOSING and self._random.random() < AT_ONCE and not visitor.reading.done():
            return
        there = await visitor.settled()
        self._found.longest[kind] = max(self._found.longest.get(kind, 0.0), time.monotonic() - began)
        if not there:
            try:
                await visitor.return_()
            except ClientError:  # the message closed the page, as a browser may
                await self.leave()


class Campaign:
    """One run against `server`; random numbers begin with `seed`."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.seed, self.random, self.found = server, seed, random.Random(seed), Found()
        self._root = server.address.rpartition("/")[0]
        self._neighbour_values: Mapping[str, Any] = {}

    @asynccontextmanager
    async def neighbour(self) -> AsyncIterator[Neighbour]:
        """Open a page that must not be disturbed."""
        one = Neighbour(self.server.address)
        try:
            await one.open()
            await one.lives()
            yield one
        finally:
            await one.close()

    async def truth(self, query: str = "") -> Any:
        """Return the server's state of its pages."""
        return await fetch(f"{self._root}/truth?{query}")

    async def look(self, neighbour: Neighbour) -> None:
        """Check the server's state; raise FuzzError if it is wrong."""
        self.found.slowest = max(self.found.slowest, await neighbour.lives())
        health, truth = await fetch(f"{self._root}/health"), await self.truth()
        if health["status"] != "ok":
            raise FuzzError(f"/health says {health}")
        self.found.restarts = sum(one["restarts"] for one in health["engines"].values())
        self.found.raised = Counter(truth["raised"])
        values = next(iter(truth["pages"][neighbour.session]["labs"].values()))["values"]
        if values != (self._neighbour_values or values):
            raise FuzzError(f"the neighbour's values are {values}, not {self._neighbour_values}")
        self._neighbour_values = values
        if use := self.server.use():
            self.found.use.append(use)

    async def _together(
        self, count: int, batch: int, doing: Sequence[Callable[[int], Awaitable[None]]], neighbour: Neighbour
    ) -> None:
        """Do `count` actions in total, shared among `doing`, and check after each `batch`."""
        while (done := self.found.sent.total()) < count:
            share, many = min(batch, count - done), len(doing)
            await asyncio.gather(*(do(share // many + (share % many > n)) for n, do in enumerate(doing)))
            await self.look(neighbour)

    # -- messages

    async def messages(self, count: int, batch: int, pages: int = TOGETHER) -> Found:
        """Send `count` messages, from `pages` pages at a time, and check after each `batch`."""
        async with self.neighbour() as neighbour:
            await self.look(neighbour)
            foreign = [one["id"] for one in models(neighbour.document)]
            attackers = [Attacker(self.server.address, self.found, f"{self.seed} {n}", foreign) for n in range(pages)]
            try:
                await self._together(count, batch, [one.send for one in attackers], neighbour)
            finally:
                for one in attackers:
                    await one.leave()
            await self.look(neighbour)
        return self.found

    # -- values

    async def sequences(self, count: int, batch: int) -> Found:
        """Do `count` short sequences of user actions, on a page of each lab; after each, all values must agree."""
        async with self.neighbour() as neighbour:
            guests = [Guest(self.server.address) for _ in LABS]
            try:
                users = [await self._user(guest, lab) for lab, guest in enumerate(guests)]
                await self.look(neighbour)
                await self._together(count, batch, [partial(self._use, user) for user in users], neighbour)
            finally:
                for guest in guests:
                    await guest.close()
        return self.found

    async def _user(self, guest: Guest, lab: int) -> User:
        """Return a simulated user at the tab of that lab."""
        await guest.open()
        if lab:
            guest.choose(lab)
            await self._shown(guest, LABS[lab])
        self.found.pages += 1
        user = User(guest, random.Random(self.random.random()))
        user.look_around(await guest.pull())
        user.open_groups()
        return user

    async def _shown(self, guest: Guest, lab: str) -> None:
        """Wait until the server reports that this page shows that lab."""
        end = time.monotonic() + CALM
        while (shown := (await self.truth(f"page={guest.session}"))["pages"][guest.session]["shown"]) != lab:
            if time.monotonic() > end:
                raise FuzzError(f"a page that was to show {lab} shows {shown} after {CALM:.0f} s")
            await asyncio.sleep(LOOK)

    async def _use(self, user: User, count: int) -> None:
        for number in range(count):
            if number % PULL == 0:
                await self._agree(user, whole=True)
                user.look_around(await user.guest.pull())
            user.act(user.random.randrange(1, 7))
            await self._agree(user)
            self.found.sent[user.lab] += 1
        await self._agree(user, whole=True)

    async def _agree(self, user: User, whole: bool = False) -> None:
        """Wait until widgets, session and engine, and if `whole` link and document, agree."""
        began = time.monotonic()
        while True:
            if user.guest.reading.done():
                raise FuzzError(f"the page of {user.lab} was closed after {user.done}")
            page = (await self.truth(f"page={user.guest.session}"))["pages"][user.guest.session]
            user.lab, state = page["shown"], page["labs"][page["shown"]]
            wrong = disagreement(state, whole)
            if not wrong and whole:
                wrong = user.unlike(await user.guest.pull(), state)
            waited = time.monotonic() - began
            if not wrong:
                self.found.longest[user.lab] = max(self.found.longest.get(user.lab, 0.0), waited)
                return
            if waited > CALM:
                raise FuzzError(f"{user.lab} after {user.done}: {wrong}")
            await asyncio.sleep(LOOK)
