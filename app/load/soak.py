"""`make soak`: tabs that are opened, used and closed at random, for half an hour; what the server holds must stay flat.

A tab that stays longer has visited more labs, so what is held while tabs are open says little. After every few rounds
all of them are closed, and once their sessions are gone it is looked what the server holds: what its process says that
it has allocated, that process's memory and descriptors, and the memory of its engines. The first third is not counted:
libraries fill their tables, and memory that was freed is used again. A line goes through the rest, and its slope is
judged with its interval: "flat" where the slope is surely below what is allowed, "grows" where it is surely above,
"undecided" where the soak was too short to say. The record is written after each round, so that a soak that is ended
early keeps its curves.

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
from app.serve import METRICS
from compute.files import whole
from compute.measure.conditions import provenance

SCHEMA = "fieldlab-soak/2"
RECORD, VISITS_RECORD = Path("build/soak.json"), Path("build/soak_visits.json")
KEYS = (" ", "s", "r", "h", "e", "u", "p", "l")
USED, REST = 10.0, 2.0  # seconds of a round in which tabs are used, and after which it is looked what the server holds
ROUNDS = 3  # after which all tabs are closed
GONE = 45.0  # seconds after which their sessions are: Bokeh keeps them for up to 32, longer on a machine that is busy
COLLECTED = 15.0  # seconds after the last, in which all is given back: Panel collects after 5, an engine after 10
GONE_AT_LAST = 600.0  # seconds within which they must be, on a machine that is busy otherwise
LEAST = 3  # times that it is looked without tabs
PATIENCE = 300.0  # seconds for a tab: what is looked at is what is held, also on a machine that is busy otherwise
HALF_AN_HOUR = 30.0  # minutes, in which
GROWTH = 0.03  # part of its memory the server may grow by, and each of its engines
DESCRIPTORS = 4.0  # and so many descriptors more it may have
FLAT, UNDECIDED = "flat", "undecided"
SHOWN = {  # what is judged: in words, and in which unit
    "memory": ("its process, MB", 2**20),
    "blocks": ("Python's blocks, 1000", 1000),
    "malloc": ("malloc, MB", 2**20),
    "descriptors": ("descriptors", 1),
    "engines_memory": ("memory of the engines, MB", 2**20),
}


@dataclass(frozen=True)
class Held:
    """What the server held `minutes` after the start, while `tabs` were open, of `opened` that had been opened.

    blocks, malloc: what it says itself that it has allocated, see compute.freed_memory; 0 where it does not.
    """

    minutes: float
    tabs: int
    use: Use
    opened: int = 0
    blocks: int = 0
    malloc: int = 0


async def soak(server: Server, tabs: int, minutes: float, told: Callable[[Sequence[Held]], object]) -> list[Held]:
    """Return what `server` held after each round, and after every ROUNDS without tabs; told(all so far) is called then.

    ClientError if it refuses a tab or loses one.
    """
    end, start = time.monotonic() + 60 * minutes, time.monotonic()
    there: list[Client] = []
    found: list[Held] = []
    opened = 0

    async def look() -> None:
        """See what the server holds now."""
        blocks, malloc = await _allocated(server)
        if use := server.use():
            found.append(Held((time.monotonic() - start) / 60, len(there), use, opened, blocks, malloc))
            told(found)

    try:
        while time.monotonic() < end or len(alone(found)) < LEAST:
            for _ in range(ROUNDS):
                opened += await _round(server, there, tabs)
                await look()
                await _leave(there, max(1, tabs // 2))
            await _leave(there, len(there))
            await _gone(server)
            await look()
    finally:
        await _leave(there, len(there))
    return found


async def _allocated(server: Server) -> tuple[int, int]:
    """Blocks of Python's and bytes of the C library's that the server has allocated, by its metrics; 0 if unknown."""
    address = f"{server.address.rpartition('/')[0]}/metrics"
    answer = await AsyncHTTPClient().fetch(address, request_timeout=PATIENCE, raise_error=False)
    lines = dict(line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if line.startswith("fieldlab_"))
    return int(float(lines.get("fieldlab_python_blocks", 0))), int(float(lines.get("fieldlab_malloc_bytes", 0)))


async def _gone(server: Server) -> None:
    """Wait until the server has no page of a tab that was closed; ClientError if it keeps one."""
    health, end = f"{server.address.rpartition('/')[0]}/health", time.monotonic() + GONE_AT_LAST
    await asyncio.sleep(GONE)
    while kept := json.loads((await AsyncHTTPClient().fetch(health, request_timeout=PATIENCE)).body)["pages"]["open"]:
        if time.monotonic() > end:
            raise ClientError(f"the server keeps {kept} pages of tabs that were closed {GONE_AT_LAST:.0f} s ago")
        await asyncio.sleep(REST)
    await asyncio.sleep(COLLECTED)


def alone(found: Sequence[Held]) -> list[Held]:
    """Return what was held without tabs."""
    return [held for held in found if not held.tabs]


async def _round(server: Server, there: list[Client], tabs: int) -> int:
    """Open tabs until there are so many, and use them; return how many were opened."""
    opened = tabs - len(there)
    while len(there) < tabs:
        tab = Client(server.address, PATIENCE)
        there.append(tab)
        await tab.open()
    await asyncio.gather(*(_use(tab) for tab in there))
    await asyncio.sleep(REST)
    return opened


async def _leave(there: list[Client], count: int) -> None:
    """Close `count` of the tabs."""
    for tab in random.sample(there, count):
        there.remove(tab)
        await tab.close()


async def _use(tab: Client) -> None:
    """Press keys and go to other labs for a while."""
    end = time.monotonic() + USED
    while time.monotonic() < end:
        await asyncio.sleep(random.uniform(0.2, 2.0))
        if random.random() < 0.15:
            tab.choose(random.randrange(3))
        else:
            tab.press(random.choice(KEYS))
    tab.choose(0)


def _tell(held: Held) -> None:
    use = held.use
    parts = f"{use.memory / 2**20:7.1f} MB  {use.descriptors} descriptors  engines {use.engines_memory / 2**20:.1f} MB"
    sys.stderr.write(f"{held.minutes:5.1f} min  {held.tabs:3} tabs of {held.opened:4}  {parts}\n")


@dataclass(frozen=True)
class Judged:
    """One thing that a server holds without tabs: its trend in half an hour, and how much is allowed."""

    trend: Trend
    allowed: float

    @property
    def verdict(self) -> str:
        """Whether it is flat, grows, or whether that is undecided."""
        return self.trend.verdict(self.allowed)


def judged(found: Sequence[Held]) -> dict[str, Judged]:
    """Return what is judged of a server, by name: memory and engines_memory in bytes, descriptors."""
    counted = alone(found)
    counted = counted[len(counted) // 3 :]
    minutes = [held.minutes for held in counted]
    memory = [float(held.use.memory) for held in counted]
    blocks, malloc = [float(held.blocks) for held in counted], [float(held.malloc) for held in counted]
    descriptors = [float(held.use.descriptors) for held in counted]
    engines = [float(held.use.engines_memory) for held in counted]

    def judge(values: Sequence[float], allowed: float) -> Judged:
        """The trend of these."""
        return Judged(Trend.of(minutes, values).times(HALF_AN_HOUR), allowed)

    allocated = {"blocks": blocks, "malloc": malloc} if all(blocks) else {}
    return {
        "memory": judge(memory, GROWTH * fmean(memory or [0.0])),
        **{name: judge(values, GROWTH * fmean(values or [0.0])) for name, values in allocated.items()},
        "descriptors": judge(descriptors, DESCRIPTORS),
        "engines_memory": judge(engines, GROWTH * fmean(engines or [0.0])),
    }


def verdict(found: Sequence[Held]) -> str:
    """Return "flat" if everything is, "grows" if one thing does, or "undecided".

    Where the server says what it has allocated, that counts, and not the size of its process: the allocators keep what
    was freed, in steps of tens of MB, and the steps of an hour hide a leak as well as they look like one.
    """
    each = judged(found)
    verdicts = {one.verdict for name, one in each.items() if name != "memory" or "blocks" not in each}
    return FLAT if verdicts == {FLAT} else "grows" if "grows" in verdicts else UNDECIDED


def record_of(found: Sequence[Held], tabs: int) -> dict[str, Any]:
    """Return the record of a soak, or of its first rounds: what the server held after each, and what came of it."""
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
    """Soak, show what came of it, and return 0 if the server is flat."""
    parser = _options()
    chosen = parser.parse_args(arguments)
    if chosen.visits:
        if chosen.tabs or chosen.minutes:
            parser.error("--visits takes neither --tabs nor --minutes")
        return _visit(chosen.visits, chosen.out or VISITS_RECORD)
    chosen.tabs, chosen.minutes = chosen.tabs or 20, chosen.minutes or 30.0
    chosen.out = chosen.out or RECORD

    def told(found: Sequence[Held]) -> None:
        """Say and write down what the server holds after one round more."""
        _tell(found[-1])
        with whole(chosen.out) as out:
            json.dump(record_of(found, chosen.tabs), out, indent=1, ensure_ascii=False)

    try:
        with serving({METRICS: "1"}) as server:
            found = asyncio.run(soak(server, chosen.tabs, chosen.minutes, told))
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

    def told(reading: visits.MemoryReading, counts: Counter[str]) -> None:
        """Print a reading, and update the record."""
        found.append(reading)
        sys.stderr.write(f"{visits.words(reading, counts)}\n")
        with whole(out) as file:
            json.dump(visits.record_of(found, counts, command), file, indent=1, ensure_ascii=False)

    log = out.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with serving({METRICS: "1"}, said=log) as server:
            _, counts = asyncio.run(visits.visit_all(server, count, told))
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
        description="Open, use and close tabs of a server that is begun for it, at random, and judge whether it holds "
        "more and more. Exit code 0: flat; 1: it grows, or the soak was too short to say; 2: it failed.",
    )
    parser.add_argument("--tabs", type=_tabs, help="at the end of each round (default 20)")
    parser.add_argument("--minutes", type=_minutes, help="in all (default 30)")
    parser.add_argument(
        "--visits", type=_visits, metavar="N",
        help="instead: open and close N pages, with links and uploads among them, 4 at a time; the memory is read "
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


# -- whether what was counted again and again grows

SURE = 0.95  # of the interval
ROUNDING = 16 * np.finfo(float).eps  # of a value: residuals that are no larger tell of the sums, not of the series


@dataclass(frozen=True)
class Trend:
    """The slope of a line through a series, and the interval [low, high] in which it lies with the probability SURE."""

    slope: float
    low: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float], values: Sequence[float]) -> Trend:
        """The trend of `values` (least squares), a unit of time; the interval is infinite where they are too few.

        What a server holds after one round is much what it held after the one before, so n values say less than n
        independent ones: the interval is that of n (1 - r) / (1 + r) values, where r is the correlation of each
        residual with the next (Santer et al., J. Geophys. Res. 105, 7337 (2000), equations 4 to 6).
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
        """The same for another unit of time, `span` times as long."""
        return Trend(span * self.slope, span * self.low, span * self.high)

    def verdict(self, allowed: float) -> str:
        """Return "flat" if the slope is surely at most `allowed`, "grows" if it surely is not, or "undecided"."""
        return "flat" if self.high <= allowed else "grows" if self.low > allowed else "undecided"


if __name__ == "__main__":
    sys.exit(main())
