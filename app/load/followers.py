"""`fieldlab bench load --followers 200`: the pictures that each follower of a room gets, and the cost for the lecturer.

The lecturer is a tab that confirms every frame immediately and opens the room. The followers are WebSockets of another
process and confirm every picture immediately. The latency of a picture is the time from its capture (in its header) to
its arrival, both on this machine's monotonic clock: server and followers must run on the same machine.

With `--votes` the lecturer opens a story that asks a question, and each follower changes its vote once a second.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
import secrets
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError
from tornado.websocket import WebSocketClientConnection, websocket_connect

from app.load.client import Client, ClientError, models
from app.load.server import Server, Use, serving
from compute.cli import settings

WINDOW = 2560, 1440  # px
SETTLE = 3.0  # s between the last follower's connection and the measurement
BETWEEN = 0.4  # s between two key presses of the lecturer, on average
AT_ONCE = 20  # followers that connect at the same time
PATIENCE = 60.0  # seconds
STORY = "3-a-race-you-can-see"  # its first step asks a question while the lab runs
REVOTE = 1.0  # s between two votes of a follower


@dataclass(frozen=True)
class Audience:
    """Results of `followers` followers during `seconds`; nan for unknown values.

    frames, slowest: pictures per second of the median and of the slowest follower; latency, latency_p95: in s; answer,
    answer_p95, alone, alone_p95: s from a lecturer's key press to the resulting change, with followers and before they
    connect; memory, memory_before: bytes of the server's process with and without followers; server, clients:
    processors busy; voted, voted_p95: s from a vote to its answer; shown: frames per second of the lecturer's page, an
    upper bound for followers; bytes: size of a picture with its header; width, height: in pixels.
    """

    followers: int
    seconds: float
    frames: float
    slowest: float
    latency: float
    latency_p95: float
    answer: float
    answer_p95: float
    alone: float
    alone_p95: float
    shown: float
    memory: float
    memory_before: float
    server: float
    clients: float
    voted: float
    voted_p95: float
    bytes: float
    width: float
    height: float


class Lecturer(Client):
    """A tab that opens a room; `code` is the room's code, "" before."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.code = ""

    async def begin(self, votes: bool) -> None:
        """Open a room in a window that fits pictures of 512 cells a side; raise ClientError at a timeout.

        votes: whether to open STORY, too.
        """
        self._send_to("browser", list(zip(("width", "height"), WINDOW, strict=True)))
        self._send_to("audience", [("do", "begin")])
        end = time.monotonic() + PATIENCE
        while not self.code:
            if time.monotonic() > end:
                raise ClientError(f"the page at {self.address} opened no room within {PATIENCE:.0f} s")
            await asyncio.sleep(0.1)
        if votes:
            self.press("t")
            self._send_to("stories", [("open", STORY)])

    def _send_to(self, component: str, entries: Sequence[tuple[str, object]]) -> None:
        data = {"type": "map", "entries": [list(entry) for entry in entries]}
        self._event("data_event", ["model", {"id": self._document[component]}], ["data", data])

    def _find(self, part: object) -> None:
        super()._find(part)
        for model in models(part):
            if model.get("attributes", {}).get("class_name") == "AudienceCard":
                self._document["audience"] = model["id"]
            elif model.get("attributes", {}).get("class_name") == "StoryCard":
                self._document["stories"] = model["id"]

    def _change(self, event: Mapping[str, Any]) -> None:
        match event:
            case {"kind": "ModelChanged", "attr": "content", "new": {"entries": [*entries]}}:
                self.code = dict(entries).get("code", self.code)
        super()._change(event)


class Follower:
    """One follower. arrivals: (arrival, capture, bytes) of each picture, times by the monotonic clock.

    voted: s from each vote to its answer; a follower votes if the page's state has an open vote.
    """

    def __init__(self) -> None:
        self.arrivals: list[tuple[float, float, int]] = []
        self.voted: list[float] = []
        self.picture = b""  # the latest
        self._token = secrets.token_urlsafe(12)
        self._vote: dict[str, Any] = {}  # of the latest state
        self._voted_at = time.monotonic() - random.uniform(0, REVOTE)
        self._socket: WebSocketClientConnection | None = None

    async def connect(self, address: str) -> None:
        """Connect to the WebSocket at `address`."""
        self._socket = await websocket_connect(address)
        protocol: Any = self._socket.protocol
        protocol.stream.set_nodelay(True)  # like browsers

    async def follow(self) -> None:
        """Confirm every message; raise ClientError when the server closes the connection."""
        if self._socket is None:
            raise ClientError("the follower is not connected")
        while True:
            message = await self._socket.read_message()
            now = time.monotonic()
            if not isinstance(message, bytes):
                raise ClientError(f"the server closed a follower's connection: {self._socket.close_reason}")
            length = int.from_bytes(message[:4], "little")
            head = json.loads(message[4 : 4 + length])
            if "answer" in head:
                if not head["answer"]["choice"]:
                    raise ClientError(f"a vote was refused: {head['answer']['said']}")
                self.voted.append(now - self._voted_at)
                continue
            if len(message) > 4 + length:
                self.arrivals.append((now, head["at"], len(message)))
                self.picture = message[4 + length :]
            self._socket.write_message(f"ok {head['number']}")
            self._vote = head.get("state", {"vote": self._vote}).get("vote", {})
            if self._vote.get("open") and now >= self._voted_at + REVOTE:
                choice = random.randint(1, len(self._vote["choices"]))
                self._voted_at = now
                self._socket.write_message(f"vote {self._vote['number']} {choice} {self._token}")

    def leave(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()


async def crowd(address: str, count: int, seconds: float) -> dict[str, float]:
    """Connect `count` followers to the room's WebSocket at `address`, and return their results."""
    followers = [Follower() for _ in range(count)]
    tasks: list[asyncio.Task[None]] = []
    try:
        for begin in range(0, count, AT_ONCE):
            some = followers[begin : begin + AT_ONCE]
            await asyncio.gather(*(one.connect(address) for one in some))
            tasks += [asyncio.create_task(one.follow()) for one in some]
        await _pass(tasks, SETTLE)
        for one in followers:
            one.arrivals.clear()
            one.voted.clear()
        sys.stdout.write("there\n")
        sys.stdout.flush()
        start, used = time.monotonic(), time.process_time()
        await _pass(tasks, seconds)
        length, used = time.monotonic() - start, time.process_time() - used
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in followers:
            one.leave()
    rates = [len(one.arrivals) / length for one in followers]
    every = [arrival for one in followers for arrival in one.arrivals] or [(nan, nan, 0)]
    late = [came - looked for came, looked, _ in every]
    voted = [late for one in followers for late in one.voted]
    width, height = size_of(followers[0].picture)
    return {
        "width": width, "height": height, "seconds": length, "frames": float(np.median(rates)), "slowest": min(rates),
        "latency": float(np.quantile(late, 0.5)), "latency_p95": float(np.quantile(late, 0.95)),
        "voted": _quantile(voted, 0.5), "voted_p95": _quantile(voted, 0.95),
        "bytes": float(np.median([size for *_, size in every])), "clients": used / length,
    }  # fmt: skip


def size_of(picture: bytes) -> tuple[float, float]:
    """Return (width, height) of an image in pixels; nan for other data."""
    try:
        return Image.open(io.BytesIO(picture)).size
    except UnidentifiedImageError:
        return nan, nan


async def _pass(tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
    """Wait `seconds`; raise ClientError if a follower loses its connection."""
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()


async def audience(server: Server, page: str, count: int, seconds: float, votes: bool) -> Audience:
    """Return the results of `count` followers of the page at the address `page`, and of its lecturer."""
    lecturer = Lecturer(page)
    try:
        await lecturer.open()
        await lecturer.run()
        await lecturer.begin(votes)
        await asyncio.sleep(SETTLE)
        alone = await _answers(lecturer, seconds)
        before = server.use()
        room = f"{page.partition('?')[0].rpartition('/')[0].replace('http', 'ws', 1)}/follow/{lecturer.code}/ws"
        command = (sys.executable, "-P", "-m", __name__, room, str(count), str(seconds))
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
        if process.stdout is None or await process.stdout.readline() != b"there\n":
            raise ClientError(f"the followers could not connect; their process ended with {await process.wait()}")
        lecturer.arrivals.clear()
        start = time.perf_counter()
        during, (busy, found) = await asyncio.gather(
            _answers(lecturer, seconds), _watched(server, process.stdout.read())
        )
        shown = len(lecturer.arrivals) / (time.perf_counter() - start)
        if await process.wait():
            raise ClientError("a follower lost its connection")
    finally:
        await lecturer.close()
    after = server.use()
    return Audience(
        followers=count, answer=_quantile(during, 0.5), answer_p95=_quantile(during, 0.95),
        alone=_quantile(alone, 0.5), alone_p95=_quantile(alone, 0.95),
        memory=after.memory if after else nan, memory_before=before.memory if before else nan,
        server=busy, shown=shown, **json.loads(found),
    )  # fmt: skip


async def _watched(server: Server, reading: Any) -> tuple[float, bytes]:
    """Await `reading`; return the processors that the server kept busy during that time, and the result."""
    before, start = server.use(), time.monotonic()
    found = await reading
    after = server.use()
    return _busy(before, after, time.monotonic() - start), found


def _busy(before: Use | None, after: Use | None, seconds: float) -> float:
    return (after.server - before.server) / seconds if before and after else nan


async def _answers(lecturer: Client, seconds: float) -> list[float]:
    """Press keys for `seconds`; return the time to each answer in s."""
    lecturer.answers.clear()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        lecturer.send_change()
        await asyncio.sleep(BETWEEN)
    return list(lecturer.answers)


def _quantile(values: Sequence[float], part: float) -> float:
    return float(np.quantile(values, part)) if values else nan


def measure(page: str | None, count: int, seconds: float, votes: bool = False) -> Audience:
    """Measure `count` followers of the page at that address, or of a new server. Raise ClientError or OSError.

    votes: whether the followers vote.
    """
    if page:
        return asyncio.run(audience(Server(page), page, count, seconds, votes))
    with serving({settings.VARIABLE: json.dumps({"followers": count})}) as server:
        return asyncio.run(audience(server, server.address, count, seconds, votes))


ROWS = (  # field of Audience, label, factor, unit
    ("followers", "followers", 1, ""),
    ("seconds", "measured for", 1, "s"),
    ("frames", "pictures each, median", 1, "a second"),
    ("slowest", "slowest follower", 1, "a second"),
    ("shown", "the lecturer's own page", 1, "a second"),
    ("width", "a picture's width", 1, "px"),
    ("height", "its height", 1, "px"),
    ("bytes", "its size", 1e-3, "kB"),
    ("latency", "latency, median", 1e3, "ms"),
    ("latency_p95", "latency, p95", 1e3, "ms"),
    ("answer", "lecturer's key, median", 1e3, "ms"),
    ("answer_p95", "lecturer's key, p95", 1e3, "ms"),
    ("alone", "without followers, median", 1e3, "ms"),
    ("alone_p95", "without followers, p95", 1e3, "ms"),
    ("voted", "answer to a vote, median", 1e3, "ms"),
    ("voted_p95", "answer to a vote, p95", 1e3, "ms"),
    ("memory_before", "server's memory before", 2**-20, "MB"),
    ("memory", "and afterwards", 2**-20, "MB"),
    ("server", "server", 1, "processors"),
    ("clients", "followers", 1, "processors"),
)


def words(found: Audience) -> str:
    """Return a measurement as lines of text."""
    values = asdict(found)
    lines = (f"{label:28}{values[name] * scale:10.4g} {unit}".rstrip() for name, label, scale, unit in ROWS)
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run the followers: address, count, seconds; the second line of output is their results as JSON."""
    parser = argparse.ArgumentParser(prog="followers")
    parser.add_argument("address")
    parser.add_argument("count", type=int)
    parser.add_argument("seconds", type=float)
    chosen = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(asyncio.run(crowd(chosen.address, chosen.count, chosen.seconds))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
