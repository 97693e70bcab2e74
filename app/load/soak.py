"""`make soak`: opens, uses and closes tabs at random for half an hour; the server's memory must stay constant.

A tab that stays open longer has visited more labs, so readings with open tabs are not comparable. After every ROUNDS
rounds all tabs are closed, and when their sessions have ended, the soak reads the allocations that the server reports,
the memory and descriptors of its process, and the memory of its engines. The first third of these readings is
discarded: libraries fill their tables, and freed memory is reused. A line is fitted to the rest, and its slope is
judged with its confidence interval: "flat" if the slope is significantly below the allowed growth, "grows" if it is
significantly above, "undecided" if the soak was too short. The record is written after each round, so that an
interrupted soak keeps its curves.

`--visits` opens and closes pages one after another instead (app/load/visits.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit
from tornado.httpclient import AsyncHTTPClient

from app.load import visits
from app.load.client import Client, ClientError
from app.load.server import Server, Use, serving
from app.server.serve import METRICS
from compute.files.files import whole
from compute.measure.conditions import provenance

SCHEMA = "fieldlab-soak/2"
RECORD, VISITS_RECORD = Path("build/soak.json"), Path("build/soak_visits.json")
KEYS = (" ", "s", "r", "h", "e", "u", "p", "l")
USED, REST = 10.0, 2.0  # s of a round in which tabs are used, and s of rest before a reading
ROUNDS = 3  # rounds between two readings without tabs
SESSION_LIFETIME = 45.0  # s until the sessions of closed tabs end: Bokeh keeps them for up to 32 s or longer
COLLECTED = 15.0  # s until their memory is freed: Panel collects after 5 s, an engine after 10 s
SESSION_DEADLINE = 600.0  # time limit in s for the end of sessions, for a machine busy with other work
LEAST = 3  # minimum of readings without tabs
PATIENCE = 300.0  # s for a tab; long, as the soak measures memory, not speed, also on a machine busy with other work
HALF_AN_HOUR = 30.0  # in minutes
GROWTH = 0.03  # allowed growth of the server's memory in half an hour, and of its engines', as a fraction
DESCRIPTORS = 4.0  # allowed growth of the number of descriptors
FLAT, UNDECIDED = "flat", "undecided"
SHOWN = {  # judged quantities: label, unit
    "memory": ("its process, MB", 2**20),
    "blocks": ("Python's blocks, 1000", 1000),
    "malloc": ("malloc, MB", 2**20),
    "descriptors": ("descriptors", 1),
    "engines_memory": ("memory of the engines, MB", 2**20),
}


@dataclass(frozen=True)
class Held:
    """Memory and descriptors of the server `minutes` after the start, with `tabs` tabs open of `opened` opened so far.

    blocks, malloc: the server's own report of its allocations, see compute.machine.freed_memory; 0 if unavailable.
    """

    minutes: float
    tabs: int
    use: Use
    opened: int = 0
    blocks: int = 0
    malloc: int = 0


async def soak(server: Server, tabs: int, minutes: float, report: Callable[[Sequence[Held]], object]) -> list[Held]:
    """Return the readings after each round, and after every ROUNDS without tabs; report(readings so far) follows each.

    Raise ClientError if the server refuses or loses a tab.
    """
    end, start = time.monotonic() + 60 * minutes, time.monotonic()
    clients: list[Client] = []
    found: list[Held] = []
    opened = 0

    async def look() -> None:
        """Read the server's memory and descriptors."""
        blocks, malloc = await _allocated(server)
        if use := server.use():
            found.append(Held((time.monotonic() - start) / 60, len(clients), use, opened, blocks, malloc))
            report(found)

    try:
        while time.monotonic() < end or len(alone(found)) < LEAST:
            for _ in range(ROUNDS):
                opened += await _round(server, clients, tabs)
                await look()
                await _leave(clients, max(1, tabs // 2))
            await _leave(clients, len(clients))
            await _wait_for_sessions(server)
            await look()
    finally:
        await _leave(clients, len(clients))
    return found


async def _allocated(server: Server) -> tuple[int, int]:
    """Return the server's allocated Python blocks and bytes of the C library, from its metrics; 0 if unknown."""
    address = f"{server.address.rpartition('/')[0]}/metrics"
    answer = await AsyncHTTPClient().fetch(address, request_timeout=PATIENCE, raise_error=False)
    lines = dict(line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if line.startswith("fieldlab_"))
    return int(float(lines.get("fieldlab_python_blocks", 0))), int(float(lines.get("fieldlab_malloc_bytes", 0)))


async def _wait_for_sessions(server: Server) -> None:
    """Wait until the server has discarded the pages of closed tabs; raise ClientError if it keeps one."""
    health, end = f"{server.address.rpartition('/')[0]}/health", time.monotonic() + SESSION_DEADLINE
    await asyncio.sleep(SESSION_LIFETIME)
    while kept := json.loads((await AsyncHTTPClient().fetch(health, request_timeout=PATIENCE)).body)["pages"]["open"]:
        if time.monotonic() > end:
            raise ClientError(f"the server keeps {kept} pages of tabs that were closed {SESSION_DEADLINE:.0f} s ago")
        await asyncio.sleep(REST)
    await asyncio.sleep(COLLECTED)


def alone(found: Sequence[Held]) -> list[Held]:
    """Return the readings without tabs."""
    return [held for held in found if not held.tabs]


async def _round(server: Server, clients: list[Client], tabs: int) -> int:
    """Open tabs until `tabs` are open, and use them; return the number of opened tabs."""
    opened = tabs - len(clients)
    while len(clients) < tabs:
        tab = Client(server.address, PATIENCE)
        clients.append(tab)
        await tab.open()
    await asyncio.gather(*(_use(tab) for tab in clients))
    await asyncio.sleep(REST)
    return opened


async def _leave(clients: list[Client], count: int) -> None:
    """Close `count` random tabs."""
    for tab in random.sample(clients, count):
        clients.remove(tab)
        await tab.close()


async def _use(tab: Client) -> None:
    """Press keys and switch between labs for USED seconds."""
    end = time.monotonic() + USED
    while time.monotonic() < end:
        await asyncio.sleep(random.uniform(0.2, 2.0))
        if random.random() < 0.15:
            tab.choose(random.randrange(3))
        else:
            tab.press(random.choice(KEYS))
    tab.choose(0)


def _print_reading(held: Held) -> None:
    use = held.use
    parts = f"{use.memory / 2**20:7.1f} MB  {use.descriptors} descriptors  engines {use.engines_memory / 2**20:.1f} MB"
    sys.stderr.write(f"{held.minutes:5.1f} min  {held.tabs:3} tabs of {held.opened:4}  {parts}\n")


@dataclass(frozen=True)
class Judged:
    """One quantity without tabs: its trend in half an hour, and the allowed growth."""

    trend: Trend
    allowed: float

    @property
    def verdict(self) -> str:
        """Return "flat", "grows" or "undecided"."""
        return self.trend.verdict(self.allowed)


def judged(found: Sequence[Held]) -> dict[str, Judged]:
    """Return the judged quantities by name: memory, malloc and engines_memory in bytes, blocks, descriptors."""
    counted = alone(found)
    counted = counted[len(counted) // 3 :]
    minutes = [held.minutes for held in counted]
    memory = [float(held.use.memory) for held in counted]
    blocks, malloc = [float(held.blocks) for held in counted], [float(held.malloc) for held in counted]
    descriptors = [float(held.use.descriptors) for held in counted]
    engines = [float(held.use.engines_memory) for held in counted]

    def judge(values: Sequence[float], allowed: float) -> Judged:
        """Return the trend of `values` with the allowed growth."""
        return Judged(Trend.of(minutes, values).times(HALF_AN_HOUR), allowed)

    allocated = {"blocks": blocks, "malloc": malloc} if all(blocks) else {}
    return {
        "memory": judge(memory, GROWTH * fmean(memory or [0.0])),
        **{name: judge(values, GROWTH * fmean(values or [0.0])) for name, values in allocated.items()},
        "descriptors": judge(descriptors, DESCRIPTORS),
        "engines_memory": judge(engines, GROWTH * fmean(engines or [0.0])),
    }


def verdict(found: Sequence[Held]) -> str:
    """Return "flat" if all quantities are flat, "grows" if one grows, else "undecided".

    If the server reports its allocations, the size of its process is ignored: allocators keep freed memory in steps of
    tens of MB, and over an hour these steps can hide a leak or look like one.
    """
    each = judged(found)
    verdicts = {one.verdict for name, one in each.items() if name != "memory" or "blocks" not in each}
    return FLAT if verdicts == {FLAT} else "grows" if "grows" in verdicts else UNDECIDED


def record_of(found: Sequence[Held], tabs: int) -> dict[str, Any]:
    """Return the record of a soak so far: readings, trends and verdict."""
    rounds = [
        {"minutes": held.minutes, "tabs": held.tabs, "opened": held.opened, **asdict(held.use)}
        | {"blocks": held.blocks, "malloc": held.malloc}
        for held in found
    ]
    trends = {
        name: {key: value if isfinite(value) else None for key, value in asdict(each.trend).items()}
        | {"allowed": each.allowed, "verdict": each.verdict}
        for name, each in judged(found).items()
    }
    outcome = {"tabs": tabs, "verdict": verdict(found), "in_half_an_hour": trends, "rounds": rounds}
    return {"schema": SCHEMA, **provenance("make soak", len(found))} | outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak, print its result, and return 0 if the verdict is "flat"."""
    parser = _options()
    chosen = parser.parse_args(arguments)
    if chosen.visits:
        if chosen.tabs or chosen.minutes:
            parser.error("--visits takes neither --tabs nor --minutes")
        return _visit(chosen.visits, chosen.out or VISITS_RECORD)
    chosen.tabs, chosen.minutes = chosen.tabs or 20, chosen.minutes or 30.0
    chosen.out = chosen.out or RECORD

    def report(found: Sequence[Held]) -> None:
        """Print a reading and update the record."""
        _print_reading(found[-1])
        with whole(chosen.out) as out:
            json.dump(record_of(found, chosen.tabs), out, indent=1, ensure_ascii=False)

    try:
        with serving({METRICS: "1"}) as server:
            found = asyncio.run(soak(server, chosen.tabs, chosen.minutes, report))
    except (ClientError, OSError) as error:
        sys.stderr.write(f"fieldlab: {error}\n")
        return 2
    _show(found, chosen.tabs)
    Console().print(f"{verdict(found)}; the curves are in {chosen.out}")
    return 0 if verdict(found) == FLAT else 1


def _visit(count: int, out: Path) -> int:
    """Open and close `count` pages; return 0 if the server does not leak."""
    command = f"python -m app.load.soak --visits {count}"
    found: list[visits.MemoryReading] = []

    def report(reading: visits.MemoryReading, counts: Counter[str]) -> None:
        """Print a reading and update the record."""
        found.append(reading)
        sys.stderr.write(f"{visits.words(reading, counts)}\n")
        with whole(out) as file:
            json.dump(visits.record_of(found, counts, command), file, indent=1, ensure_ascii=False)

    log = out.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with serving({METRICS: "1"}, output=log) as server:
            _, counts = asyncio.run(visits.visit_all(server, count, report))
    except (ClientError, OSError) as error:
        sys.stderr.write(f"fieldlab: {error}; the server's log is in {log}\n")
        return 2
    table = Table(title=f"{count} pages opened and closed", title_justify="left")
    for column in ("", "first", "last", "a visit", "interval", "allowed", ""):
        table.add_column(column, justify="right")
    for name, one in visits.judged(found).items():
        unit = visits.UNITS[name]
        first, last = (getattr(reading, name) / unit for reading in (found[0], found[-1]))
        low, high = one.low / unit, one.high / unit
        numbers = f"{one.slope / unit:.4f}", f"{low:.4f} to {high:.4f}", f"{one.allowed / unit:.4f}"
        table.add_row(visits.WORDS[name], f"{first:.1f}", f"{last:.1f}", *numbers, one.verdict)
    Console().print(table)
    Console().print(f"{visits.verdict(found)}; visits: {dict(counts)}; the readings are in {out}")
    return 0 if visits.verdict(found) == visits.FLAT else 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make soak",
        description="Open, use and close tabs of a new server at random, and test whether it leaks memory. "
        "Exit code 0: no leak; 1: memory grows, or the run was too short; 2: an error.",
    )
    parser.add_argument("--tabs", type=_tabs, help="tabs at the end of each round (default 20)")
    parser.add_argument("--minutes", type=_minutes, help="duration in minutes (default 30)")
    parser.add_argument(
        "--visits", type=_visits, metavar="N",
        help="open and close N pages instead, some with links and uploads, 4 at a time; the memory is read "
        "after 100 pages and ten times after that",
    )  # fmt: skip
    parser.add_argument(
        "--out", "--save", type=Path, metavar="FILE",
        help="the record, JSON: machine, versions, every reading, the trends and the verdict "
        f"(default {RECORD}; with --visits {VISITS_RECORD})",
    )  # fmt: skip
    return parser


def _visits(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= visits.MOST:
        raise argparse.ArgumentTypeError(f"visits must be a whole number from 1 to {visits.MOST}, not {text!r}")
    return int(text)


def _tabs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"tabs must be a whole number of at least 1, not {text!r}")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < inf:
        raise argparse.ArgumentTypeError(f"minutes must be a number above 0, not {text!r}")
    return minutes


def _show(found: Sequence[Held], tabs: int) -> None:
    title = f"after up to {tabs} tabs were closed, {found[-1].opened} in {found[-1].minutes:.0f} min"
    table = Table(title=title, title_justify="left")
    for column in ("", "first", "last", "in half an hour", "interval", "allowed", ""):
        table.add_column(column, justify="right")
    seen = alone(found)
    first, last = ({**asdict(one.use), "blocks": one.blocks, "malloc": one.malloc} for one in (seen[0], seen[-1]))
    for name, each in judged(found).items():
        words, unit = SHOWN[name]
        numbers = first[name], last[name], each.trend.slope, each.trend.low, each.trend.high, each.allowed
        one, two, slope, low, high, allowed = (f"{value / unit:.1f}" for value in numbers)
        table.add_row(words, one, two, slope, f"{low} to {high}", allowed, each.verdict)
    Console().print(table)


# -- trend of repeated readings

SURE = 0.95  # confidence level of the interval
ROUNDING = 16 * np.finfo(float).eps  # relative to a value: smaller residuals are rounding errors of the sums


@dataclass(frozen=True)
class Trend:
    """The slope of a line through a series, and its confidence interval [low, high] at the level SURE."""

    slope: float
    low: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float], values: Sequence[float]) -> Trend:
        """Return the least-squares trend of `values` per unit of time; the interval is infinite for too few values.

        The memory after one round depends on the memory after the round before, so n readings contain less information
        than n independent ones: the interval is that of n (1 - r) / (1 + r) values, where r is the lag-1
        autocorrelation of the residuals (Santer et al., J. Geophys. Res. 105, 7337 (2000), equations 4 to 6).
        """
        x, y = np.array(times, float), np.array(values, float)
        if len(x) < 3 or np.ptp(x) == 0:
            return cls(0.0, -inf, inf)
        x -= x.mean()
        slope = float(x @ y / (x @ x))
        residuals = y - y.mean() - slope * x
        squares = float(residuals @ residuals)
        if squares <= len(x) * (ROUNDING * float(np.abs(y).max())) ** 2:
            return cls(slope, slope, slope)
        alike = min(max(float(residuals[:-1] @ residuals[1:]) / squares, 0.0), 1.0)
        free = len(x) * (1 - alike) / (1 + alike) - 2
        if free <= 0:
            return cls(slope, -inf, inf)
        error = sqrt(squares / free / float(x @ x)) * float(stdtrit(free, (1 + SURE) / 2))
        return cls(slope, slope - error, slope + error)

    def times(self, span: float) -> Trend:
        """Return the trend for a unit of time that is `span` times as long."""
        return Trend(span * self.slope, span * self.low, span * self.high)

    def verdict(self, allowed: float) -> str:
        """Return "flat" if the interval is at most `allowed`, "grows" if it is above, else "undecided"."""
        return "flat" if self.high <= allowed else "grows" if self.low > allowed else "undecided"


if __name__ == "__main__":
    sys.exit(main())
