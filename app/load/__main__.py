"""The command `fieldlab bench load`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from app.load import followers
from app.load.client import ClientError
from app.load.run import Load, address, engine_alone, loads
from app.load.server import Server, serving
from compute.cli.arguments import counts
from compute.files.documents import measured
from compute.files.files import whole
from compute.measure.conditions import Watch, provenance

SCHEMA = "fieldlab-load-bench/1"
FOLLOWERS_SCHEMA = "fieldlab-followers-bench/1"
LAB = "diffusion"
MOST_TABS = 500
MOST_FOLLOWERS = 2000
ROOM = {"FIELDLAB_MAX_SESSIONS": str(MOST_TABS)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print or save the record, and return the exit code."""
    chosen = _options().parse_args(arguments)
    if chosen.followers:
        return _follow(chosen, arguments)
    values = {"ny": chosen.grid, "nx": chosen.grid}
    watch = Watch()
    try:
        alone = {} if chosen.url else {n: engine_alone(LAB, values, n, chosen.seconds) for n in chosen.tabs}
        with nullcontext(Server(chosen.url)) if chosen.url else serving(ROOM) as server:
            found = asyncio.run(_measured(server, values, chosen))
    except (ClientError, OSError, ValueError) as error:
        sys.stderr.write(f"fieldlab: {error}\n")
        return 2
    watch.end()
    command = " ".join(("fieldlab bench load", *(sys.argv[1:] if arguments is None else arguments)))
    record = _record(found, alone, values, command, watch)
    if chosen.save:
        with whole(chosen.save) as out:
            out.write(_as_document(record))
    if chosen.json:
        sys.stdout.write(_as_document(record))
    else:
        _show(found, alone, chosen.grid)
    return 0


def _as_document(record: dict[str, Any]) -> str:
    """Return a record as JSON, with null for missing measurements."""
    return json.dumps(measured(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _follow(chosen: argparse.Namespace, arguments: Sequence[str] | None) -> int:
    """Measure the followers of a room, print or save the record, and return the exit code."""
    watch = Watch()
    try:
        if not 1 <= chosen.followers <= MOST_FOLLOWERS:
            raise ValueError(f"followers must be from 1 to {MOST_FOLLOWERS}, not {chosen.followers}")  # noqa: TRY301 as others
        found = followers.measure(chosen.url, chosen.followers, chosen.seconds, chosen.votes)
    except (ClientError, OSError, ValueError) as error:
        sys.stderr.write(f"fieldlab: {error}\n")
        return 2
    watch.end()
    command = " ".join(("fieldlab bench load", *(sys.argv[1:] if arguments is None else arguments)))
    record = {"schema": FOLLOWERS_SCHEMA, **provenance(command, found.followers, watch), "audience": asdict(found)}
    if chosen.save:
        with whole(chosen.save) as out:
            out.write(_as_document(record))
    sys.stdout.write(_as_document(record) if chosen.json else followers.words(found))
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fieldlab bench load",
        description="Measure frames, response times and memory of many browser tabs on a server started for "
        "the measurement. Tabs are clients that confirm every frame at once.",
    )
    parser.add_argument(
        "--tabs",
        type=lambda text: counts(text, "tabs", MOST_TABS),
        default=(1, 8, 16, 40),
        help="numbers of tabs, one after the other (default 1,8,16,40)",
    )
    parser.add_argument("--grid", type=int, default=512, help="grid size of the diffusion lab (default 512)")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each measurement (default 10)")
    parser.add_argument("--url", help="address of a running server, http://localhost:5006/app")
    parser.add_argument(
        "--followers",
        type=int,
        default=0,
        help="number of followers of one page instead of tabs, and their effect on its lecturer",
    )
    parser.add_argument("--votes", action="store_true", help="let the followers vote once a second")
    parser.add_argument("--json", action="store_true", help="print the record as JSON instead of a table")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the record")
    return parser


async def _measured(server: Server, values: dict[str, Any], chosen: argparse.Namespace) -> list[Load]:
    def opened(count: int) -> None:
        """Report progress on stderr."""
        if count in chosen.tabs:
            sys.stderr.write(f"{count} tab{'s' * (count != 1)} opened\n")

    page = address(server.address, LAB, values)
    return [load async for load in loads(server, page, chosen.tabs, chosen.seconds, opened)]


def _record(
    found: Sequence[Load], alone: dict[int, float], values: dict[str, Any], command: str, watch: Watch
) -> dict[str, Any]:
    about = provenance(command, sum(load.frames.n for load in found), watch)
    rows = [asdict(load) | {"engine_alone": alone.get(load.tabs)} for load in found]
    return {"schema": SCHEMA, **about, "values": values, "loads": rows}


def _show(found: Sequence[Load], alone: dict[int, float], grid: int) -> None:
    title = f"tabs that show {grid} x {grid} cells, both pictures; processors busy; memory of the server's process"
    table = Table(title=title, title_justify="left")
    columns = (
        "tabs", "frames/s each", "slowest", "in all", "engine alone", "answer ms", "p95 ms", "server", "engines",
        "clients", "MB", "MB a tab", "MB/s",
    )  # fmt: skip
    for column in columns:
        table.add_column(column, justify="right")
    first = found[0]
    for load in found:
        more = (load.memory - first.memory) / max(load.tabs - first.tabs, 1)
        table.add_row(
            str(load.tabs), f"{load.frames.median:.1f}", f"{load.slowest:.1f}", f"{load.total:.0f}",
            _text(alone.get(load.tabs), "{:.0f}"), f"{1e3 * load.answer:.0f}", f"{1e3 * load.answer_p95:.0f}",
            _text(load.server, "{:.2f}"), _text(load.engines, "{:.2f}"), f"{load.clients:.2f}",
            _text(load.memory / 2**20, "{:.0f}"), _text(more / 2**20 if load is not first else None, "{:.1f}"),
            f"{load.received / 1e6:.0f}",
        )  # fmt: skip
    Console(width=150).print(table)


def _text(value: float | None, form: str) -> str:
    return form.format(value) if value is not None and isfinite(value) else ""


if __name__ == "__main__":
    sys.exit(main())
