"""`make soak`: tabs that are opened, used and closed at random, for half an hour; what the server holds must stay flat.

After each round there are as many tabs as in every other, so that what the server's process holds can be compared: its
own memory and its descriptors. The first third is not counted: libraries fill their tables, and memory that was freed
is used again. The curve is written to a file after each round, so that a soak that is ended early keeps it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from app.load.client import Client, ClientError
from app.load.server import Server, Use, serving
from compute.files import whole
from compute.measure.provenance import provenance

SCHEMA = "fieldlab-soak/1"
RECORD = Path("build/soak.json")
KEYS = (" ", "s", "r", "h", "e", "u", "p", "l")
USED, REST = 10.0, 2.0  # seconds of a round in which tabs are used, and after which it is looked what the server holds
PATIENCE = 300.0  # seconds for a tab: what is looked at is what is held, also on a machine that is busy otherwise
GROWTH = 0.03  # part of its memory that the server may grow by in the last two thirds
DESCRIPTORS = 4  # that it may have more


@dataclass(frozen=True)
class Held:
    """What the server held `minutes` after the start."""

    minutes: float
    use: Use


async def soak(server: Server, tabs: int, minutes: float, told: Callable[[Sequence[Held]], object]) -> list[Held]:
    """Return what `server` held after each round; told(all so far) is called after each.

    ClientError if it refuses a tab or loses one.
    """
    end, start = time.monotonic() + 60 * minutes, time.monotonic()
    there: list[Client] = []
    found: list[Held] = []
    try:
        while time.monotonic() < end or len(found) < 3:
            while len(there) < tabs:
                tab = Client(server.address, PATIENCE)
                there.append(tab)
                await tab.open()
            await asyncio.gather(*(_use(tab) for tab in there))
            await asyncio.sleep(REST)
            if use := server.use():
                found.append(Held((time.monotonic() - start) / 60, use))
                told(found)
            for tab in random.sample(there, max(1, tabs // 2)):
                there.remove(tab)
                await tab.close()
    finally:
        for tab in there:
            await tab.close()
    return found


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
    sys.stderr.write(f"{held.minutes:5.1f} min  {use.memory / 2**20:7.1f} MB  {use.descriptors} descriptors\n")


def record_of(found: Sequence[Held], tabs: int) -> dict[str, Any]:
    """Return the record of a soak, or of its first rounds: what the server held after each, and what came of it."""
    grown, more = flat(found)
    rounds = [{"minutes": held.minutes, **asdict(held.use)} for held in found]
    outcome = {"tabs": tabs, "grown": grown, "more_descriptors": more, "flat": is_flat(found), "rounds": rounds}
    return {"schema": SCHEMA, **provenance("make soak", len(found))} | outcome


def flat(found: Sequence[Held]) -> tuple[float, int]:
    """Return what the server has grown by in the last two thirds: bytes, by a line through them, and descriptors."""
    counted = found[len(found) // 3 :]
    minutes = np.array([held.minutes for held in counted])
    memory = np.array([held.use.memory for held in counted], float)
    slope = float(np.polyfit(minutes, memory, 1)[0]) if len(counted) > 1 else 0.0
    return slope * float(np.ptp(minutes)), counted[-1].use.descriptors - counted[0].use.descriptors


def is_flat(found: Sequence[Held]) -> bool:
    """Whether the server has not grown."""
    grown, more = flat(found)
    return grown <= GROWTH * found[-1].use.memory and more <= DESCRIPTORS


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, show what came of it, and return 1 if the server has grown."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--tabs", type=int, default=20, help="at the end of each round (default 20)")
    parser.add_argument("--minutes", type=float, default=30.0, help="in all (default 30)")
    parser.add_argument("--save", type=Path, default=RECORD, metavar="FILE", help=f"the record (default {RECORD})")
    chosen = parser.parse_args(arguments)
    if chosen.tabs < 1 or not chosen.minutes > 0:
        parser.error(f"tabs and minutes must be above 0, not {chosen.tabs} and {chosen.minutes}")

    def told(found: Sequence[Held]) -> None:
        """Say and write down what the server holds after one round more."""
        _tell(found[-1])
        with whole(chosen.save) as out:
            json.dump(record_of(found, chosen.tabs), out, indent=1, ensure_ascii=False)

    try:
        with serving() as server:
            found = asyncio.run(soak(server, chosen.tabs, chosen.minutes, told))
    except (ClientError, OSError) as error:
        sys.stderr.write(f"fieldlab: {error}\n")
        return 2
    grown, more = flat(found)
    table = Table(title=f"{chosen.tabs} tabs, {found[-1].minutes:.0f} min, {len(found)} rounds", title_justify="left")
    for column in ("", "first", "last", "grown in the last two thirds"):
        table.add_column(column, justify="right")
    first, last = found[0].use, found[-1].use
    table.add_row("memory, MB", *(f"{value / 2**20:.1f}" for value in (first.memory, last.memory, grown)))
    table.add_row("descriptors", str(first.descriptors), str(last.descriptors), str(more))
    Console().print(table)
    Console().print(f"{'flat' if is_flat(found) else 'not flat'}; the curve is in {chosen.save}")
    return 0 if is_flat(found) else 1


if __name__ == "__main__":
    sys.exit(main())
