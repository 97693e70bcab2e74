"""Measurements of 1, 8, 16 … tabs on one server: frame rates, answer times and resource usage."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

from app.load.client import Client
from app.load.server import Server, Use
from app.tab.lab_view import first_values, parts_of
from app.tab.session import Session
from compute.engine import EnginePool, messages
from compute.engine.api import LabHandle
from compute.export.link import NAME, RUN, packed
from compute.export.scene import Scene
from compute.labs import LABS, lab_class
from compute.measure.statistics import Spread

SETTLE = 4.0  # s after the last tab was opened: the start of a tab is excluded
BETWEEN = 3.0  # s between two key presses of one tab, on average
PIXELS = (256, 256)  # (height, width) of the pictures without a server: those of a tab of 1280 x 720
UNDER_WAY = 2  # frames in flight per lab without a server, as for a tab


@dataclass(frozen=True)
class Load:
    """Results of `tabs` tabs during `seconds`; nan for unknown values.

    frames: frames/s per tab, slowest: of the slowest tab; answer, answer_p95: s from a key press to the resulting
    change on the page, median and 95th percentile; server, engines, clients: processors busy; memory: bytes of the
    server's process; received: bytes/s of all tabs.
    """

    tabs: int
    seconds: float
    frames: Spread
    slowest: float
    answer: float
    answer_p95: float
    server: float
    engines: float
    clients: float
    memory: float
    received: float

    @property
    def total(self) -> float:
        """Frames per second of all tabs together."""
        return self.frames.median * self.tabs


def address(server: str, lab: str, values: Mapping[str, Any]) -> str:
    """Return the URL of the page that opens `lab` with `values`; without a query if these are the page's defaults.

    The link contains the tab's initial values, too: a link without a backend would select the host.
    """
    if lab == LABS[0].LAB and all(LABS[0].param[name].default == value for name, value in values.items()):
        return server
    return f"{server}?{NAME}={packed(Scene(lab, {**_first(lab), **values}))}&{RUN}=1"


def _first(lab: str) -> dict[str, Any]:
    """Return the initial values of a tab."""
    found = lab_class(lab)
    return first_values(found, parts_of(found))


async def loads(
    server: Server, page: str, counts: Sequence[int], seconds: float, opened: Callable[[int], None]
) -> AsyncIterator[Load]:
    """Yield the Load for each of `counts` in rising order; tabs are opened one after the other and stay open.

    page: their URL; opened(n) is called after each. Raise ClientError if the server refuses or loses a tab.
    """
    tabs: list[Client] = []
    try:
        for count in sorted(counts):
            while len(tabs) < count:
                tab = Client(page)
                tabs.append(tab)
                await tab.open()
                await tab.run()
                opened(len(tabs))
            await _pass(tabs, SETTLE)
            yield await _measure(server, tabs, seconds)
    finally:
        for tab in tabs:
            await tab.close()


async def _measure(server: Server, tabs: Sequence[Client], seconds: float) -> Load:
    before, own, received, start = server.use(), time.process_time(), _received(tabs), time.perf_counter()
    for tab in tabs:
        tab.arrivals.clear()
        tab.answers.clear()
    await asyncio.gather(_pass(tabs, seconds), *(_press(tab, seconds) for tab in tabs))
    length = time.perf_counter() - start
    after, used = server.use(), time.process_time() - own
    rates = [len(tab.arrivals) / length for tab in tabs]
    answers = [answer for tab in tabs for answer in tab.answers] or [nan]
    server_busy, engines_busy = _busy(before, after, length)
    return Load(
        tabs=len(tabs),
        seconds=length,
        frames=Spread.of(rates),
        slowest=min(rates),
        answer=float(np.quantile(answers, 0.5)),
        answer_p95=float(np.quantile(answers, 0.95)),
        server=server_busy,
        engines=engines_busy,
        clients=used / length,
        memory=after.memory if after else nan,
        received=(_received(tabs) - received) / length,
    )


def _busy(before: Use | None, after: Use | None, seconds: float) -> tuple[float, float]:
    """Return the processors that the server and its engines kept busy."""
    if before is None or after is None:
        return nan, nan
    return (after.server - before.server) / seconds, (after.engines - before.engines) / seconds


def _received(tabs: Sequence[Client]) -> int:
    return sum(tab.received for tab in tabs)


async def _pass(tabs: Sequence[Client], seconds: float) -> None:
    """Wait `seconds`; raise ClientError if a tab loses its connection."""
    await asyncio.wait([tab.reading for tab in tabs], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for tab in tabs:
        if tab.reading.done():
            tab.reading.result()


async def _press(tab: Client, seconds: float) -> None:
    """Press keys at random intervals."""
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        await asyncio.sleep(min(random.uniform(0.5, 1.5) * BETWEEN, end - now))
        tab.send_change()


def engine_alone(lab: str, values: Mapping[str, Any], tabs: int, seconds: float) -> float:
    """Return the total frame rate of `tabs` labs on one engine without a server.

    The labs use the backend and the steps per frame of a new tab. Raise ValueError for values that the lab refuses.
    """
    pace = parts_of(lab_class(lab)).pace
    values = {"device_index": 0, **_first(lab), **values}
    pool, counts = EnginePool(), [0] * tabs
    refused: list[str] = []
    handles: list[LabHandle] = []

    def listener(index: int) -> Callable[[messages.Event], None]:
        """Return the listener of one lab, which releases the next frame for each received one."""

        def take(event: messages.Event) -> None:
            """Handle an event of the lab."""
            if isinstance(event, messages.FrameReady):
                counts[index] = event.frame.number
                handles[index].frames_through(event.frame.number + UNDER_WAY)
            elif isinstance(event, messages.Refused):
                refused.append(event.text)

        return take

    try:
        engine = pool.get(Session.engine_for(values))
        handles.extend(engine.open(lab, values, listener(index), PIXELS) for index in range(tabs))
        for handle in handles:
            handle.pace(pace)
            handle.frames_through(UNDER_WAY)
            handle.run()
        while not all(counts):
            if refused:
                raise ValueError(refused[0])
            time.sleep(0.05)
        time.sleep(1.0)
        before, start = sum(counts), time.perf_counter()
        time.sleep(seconds)
        return (sum(counts) - before) / (time.perf_counter() - start)
    finally:
        pool.close()
