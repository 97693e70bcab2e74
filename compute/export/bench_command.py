"""`fieldlab bench export`: frames a second of the encoders, and of one worker against several."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from compute import machine
from compute.backends import BACKENDS, backend
from compute.devices import cpu_count
from compute.export import benching
from compute.export.benching import Encoder, Pool
from compute.export.render_pool import gpus_here
from compute.files import whole

NAME = "export"
SCHEMA = "fieldlab-export-bench/1"


def add(commands: Any) -> None:
    """Add it to the command line's, in the place of the bench of a lab."""
    parser = commands.add_parser("bench", help="time the encoders, and one worker against several")
    parser.add_argument("what", choices=[NAME])
    parser.add_argument("--backend", choices=[b.name for b in BACKENDS], help="of the workers (default: the fastest)")
    parser.add_argument("--workers", type=_counts, help="how many, for example 1,2 (default: 1 to the number of GPUs)")
    parser.add_argument("--scenes", type=_names, default=tuple(benching.SCENES), help=", ".join(benching.SCENES))
    parser.add_argument("--rounds", type=int, default=5, help="samples of each (default 5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each sample of workers (default 5)")
    parser.add_argument("--json", action="store_true", help="print the record as JSON instead of tables")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the record")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace, command: str) -> int:
    """Measure and show; 0."""
    if chosen.rounds < 1 or chosen.seconds <= 0:
        raise ValueError(f"rounds and seconds must be above 0, not {chosen.rounds} and {chosen.seconds}")
    name = chosen.backend or next(b.name for b in reversed(BACKENDS) if not b.missing)
    backend(name).require()
    gpu = backend(name).device == "cuda"
    most = len(gpus_here()) if gpu else min(2, cpu_count())
    counts = chosen.workers or tuple(range(1, max(most, 1) + 1))
    by_format = benching.encoders(chosen.rounds)
    by_count = list(benching.pools(chosen.scenes, counts, {"backend": name}, gpu, chosen.rounds, chosen.seconds))
    document = _record(by_format, by_count, name, command)
    if chosen.save:
        with whole(chosen.save) as out:
            json.dump(document, out, indent=1, ensure_ascii=False)
    if chosen.json:
        Console(soft_wrap=True).print(json.dumps(document, indent=1, ensure_ascii=False), markup=False, highlight=False)
    else:
        _show(by_format, by_count, name)
    return 0


def _record(by_format: Sequence[Encoder], by_count: Sequence[Pool], name: str, command: str) -> dict[str, Any]:
    about = {"date": machine.now(), "commit": machine.commit(), "machine": machine.machine(), "command": command}
    return {
        "schema": SCHEMA,
        **about,
        "versions": machine.versions(),
        "encoders": [asdict(each) for each in by_format],
        "backend": name,
        "workers": [{**asdict(each), "times": _times(each, by_count)} for each in by_count],
    }


def _show(by_format: Sequence[Encoder], by_count: Sequence[Pool], name: str) -> None:
    film = benching.ENCODED
    table = Table(title=f"{film.frames} frames of 512 x 512 pixels, diffusion, already computed", title_justify="left")
    for column in ("format", "frames/s", "quartiles", "ms a frame", "kB a frame"):
        table.add_column(column, justify="right")
    for each in by_format:
        rate = each.rate
        figures = (f"{rate.median:.0f}", _quartiles(each), f"{1e3 / rate.median:.1f}", f"{each.frame_bytes / 1e3:.1f}")
        table.add_row(each.ending, *((each.missing, "", "", "") if each.missing else figures))
    Console().print(table)
    table = Table(title=f"frames made, all workers at work ({name})", title_justify="left")
    for column in ("scene", "workers", "frames/s", "quartiles", "times one", "GPUs"):
        table.add_column(column, justify="right")
    for pool in by_count:
        row = f"{pool.rate.median:.3g}", _quartiles(pool), f"{_times(pool, by_count):.2f}", " ".join(pool.devices)
        table.add_row(pool.scene, str(pool.workers), *row)
    Console().print(table)


def _quartiles(each: Encoder | Pool) -> str:
    return f"{each.rate.q1:.3g} … {each.rate.q3:.3g}{' noisy' if each.rate.noisy else ''}"


def _times(pool: Pool, pools: Sequence[Pool]) -> float:
    """How many times the frames a second of the fewest workers on the same scene."""
    fewest = min((each for each in pools if each.scene == pool.scene), key=lambda each: each.workers)
    return pool.rate.median / fewest.rate.median


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(sorted({int(part) for part in text.split(",") if part.strip().isdigit()}))
    if not counts or min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of workers such as 1,2")
    return counts


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not set(names) <= set(benching.SCENES):
        raise argparse.ArgumentTypeError(f"scenes must be of {', '.join(benching.SCENES)}, not {text!r}")
    return names
