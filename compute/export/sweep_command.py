"""`fieldlab sweep`: a table of results and timings over a grid of parameters."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from compute.export import bars, tables
from compute.export.render_pool import on_gpu, pool_for
from compute.export.sweep import MOST_ROWS, Sweep, Table
from compute.export.texts import axes_of, values_of
from compute.labs import LABS, lab_class

FAILED = 1


def add(commands: Any) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser("sweep", help="a table of results and timings over a grid of parameters")
    parser.add_argument("lab", metavar="LAB", help=f"one of {', '.join(lab.LAB for lab in LABS)}")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="NAME=…", required=True,
        help=f"a,b,c or LOW:HIGH:N (even steps) or LOW:HIGH:xN (equal factors); at most {MOST_ROWS} combinations",
    )  # fmt: skip
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter in all rows")
    parser.add_argument("--steps", type=int, help="steps of each row; 1000 for a lab that never ends")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=", ".join(tables.WRITERS))
    parser.add_argument("--workers", type=int, help="processes (default: one for every four threads, or for each GPU)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, tcp://…, or local for one made here")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace, command: str) -> int:
    """Make the table; 0 when it is done, 1 if rows failed. ValueError says what is wrong with the request."""
    kind = lab_class(chosen.lab)
    steps = (0 if kind.ENDS else 1000) if chosen.steps is None else chosen.steps
    sweep = Sweep(kind.LAB, values_of(kind, chosen.set), axes_of(kind, chosen.vary), steps)
    bars.require_writable(chosen.out)
    table = Table(sweep, chosen.out, command)
    gpu = on_gpu(kind, (sweep.at(number).get("backend") for number in range(sweep.count)))
    with bars.shown("rows", sweep.count, table.kept) as tell:
        counts = table.run(pool_for(chosen.scheduler, chosen.workers, gpu), tell)
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    Console(stderr=True, soft_wrap=True).print(f"wrote {chosen.out}: {sweep.count} rows, {said}", highlight=False)
    return FAILED if counts.get("failed") else 0
