"""A bench run as a record, as CSV and as tables on the terminal."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numba
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from compute import machine
from compute.bench.rows import Plan, Results, Row
from compute.record import SCHEMA

INCLUDED = (
    "A time is that of the kernels alone: between two CUDA events on a GPU, wall time on the host. Copies, colour and "
    "start-up are not in it. GB/s counts one read and one write a cell and step; so kernels that take several steps in "
    "one pass through memory, and grids that fit in a cache, can exceed 100 % of the copy bandwidth."
)
UNITS = {
    "median": "median_s_per_step",
    "q1": "q1_s_per_step",
    "q3": "q3_s_per_step",
    "launch": "launch_s_per_step",
    "first_call": "first_call_s",
    "cells_per_second": "cells_per_s",
    "bytes_per_second": "bytes_per_s",
}


def as_record(results: Results, plan: Plan, command: str, ratio: float) -> dict[str, Any]:
    """The run with its provenance, in the schema of compute.record. Times in seconds, rates in 1/s and bytes/s."""
    return {
        "schema": SCHEMA,
        "lab": plan.lab,
        "date": machine.now(),
        "command": command,
        "commit": machine.commit(),
        "machine": machine.machine(),
        "versions": machine.versions(),
        "parameters": {
            "r": ratio, "budget_s": plan.budget, "numba_threads": numba.get_num_threads(), "included": INCLUDED,
        },
        "copy_bandwidth": {
            name: {
                "bytes_per_second": copy.rate.median, "q1": copy.rate.q1, "q3": copy.rate.q3, "n": copy.rate.n,
                "array_bytes": copy.array_bytes,
            }
            for name, copy in results.bandwidths.items()
        },
        "results": [entry(row, results) for row in results.rows if row.case is not None],
        "missing": {row.backend: row.reason for row in results.rows if row.status == "missing"},
    }  # fmt: skip


def entry(row: Row, results: Results) -> dict[str, Any]:
    """One row as plain values; numbers that were not measured are None."""
    out: dict[str, Any] = {
        "backend": row.backend, "variant": row.variant, "status": row.status, "reason": row.reason,
        "device": row.device, "ny": row.case.size, "nx": row.case.size, "dtype": row.case.dtype,
        "edges": row.case.edges, "reference": row.reference, "tolerance": row.case.tolerance,
        "difference": _finite(row.difference), "largest_difference": _finite(row.largest),
    }  # fmt: skip
    if row.measurement is not None:
        step, cell_bytes = row.measurement.step, row.case.cell_bytes
        out |= {
            "median": step.median, "q1": step.q1, "q3": step.q3, "n": step.n, "steps_per_sample": row.steps,
            "noisy": row.measurement.noisy, "first_call": row.measurement.first_call,
            "launch": row.measurement.parts["launch"] / row.steps,
            "cells_per_second": row.measurement.cells_per_second,
            "bytes_per_second": row.measurement.bytes_per_second(cell_bytes), "percent_of_copy": percent(row, results),
        }  # fmt: skip
    if row.speed_up is not None:
        speed = row.speed_up
        out["speed_up"] = {"over": row.over, "ratio": speed.ratio, "low": speed.low, "high": speed.high}
    return out


def percent(row: Row, results: Results) -> float:
    """The row's rate in percent of its device's copy bandwidth; nan where it has none."""
    if row.measurement is None or row.device not in results.bandwidths:
        return math.nan
    return row.measurement.percent_of(results.bandwidths[row.device].rate.median, row.case.cell_bytes)


def write_csv(record: Mapping[str, Any], path: Path) -> None:
    """One line a row, the unit in the column's name."""
    lines = [_flat(result) for result in record["results"]]
    columns = list(dict.fromkeys(key for line in lines for key in line))
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([UNITS.get(column, column) for column in columns])
        writer.writerows([line.get(column, "") for column in columns] for line in lines)


def show(results: Results, console: Console) -> None:
    """Tables, one a grid, with what they leave out said below each."""
    for name, copy in results.bandwidths.items():
        gigabytes = _figure(copy.rate.median / 1e9)
        console.print(f"Copy bandwidth of {name}: {gigabytes} GB/s (median of {copy.rate.n}, read + written)")
    for case in dict.fromkeys(row.case for row in results.rows if row.case is not None):
        rows = [row for row in results.rows if row.case == case]
        console.print()
        console.print(Group(_table(case, rows, results), *_notes(rows)))
    missing = [row for row in results.rows if row.status == "missing"]
    console.print()
    for row in missing:
        console.print(Text(f"{row.backend}: absent, {row.reason}"))
    console.print(Text(INCLUDED, style="dim"))


def _table(case: Any, rows: list[Row], results: Results) -> RenderableType:
    over = next((row.over.split()[0] for row in rows if row.over), "")
    reference = next((row.reference for row in rows if row.reference), "")
    title = f"{case.size} x {case.size}  {case.dtype}  {case.edges}   right within {case.tolerance:.0e} of {reference}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("way", no_wrap=True)
    speed_up = f"times {over}" if over else "speed-up"
    rates = ("Gcell/s", "GB/s", "% of copy")
    for heading in ("us a step", "quartiles", "n", *rates, speed_up, "first call", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row.status == "measured" and row.measurement is not None:
            table.add_row(*_cells(row, results))
    return table


def _cells(row: Row, results: Results) -> Iterator[str]:
    measurement = row.measurement
    if measurement is None:
        return
    step = measurement.step
    yield f"{row.backend} {row.variant}"
    yield _figure(1e6 * step.median)
    yield f"{_figure(1e6 * step.q1)} - {_figure(1e6 * step.q3)}" + (" noisy" if measurement.noisy else "")
    yield str(step.n)
    yield _figure(measurement.cells_per_second / 1e9)
    yield _figure(measurement.bytes_per_second(row.case.cell_bytes) / 1e9)
    yield f"{percent(row, results):.0f}"
    speed = row.speed_up
    yield f"{_figure(speed.ratio)} ({_figure(speed.low)} - {_figure(speed.high)})" if speed else ""
    yield f"{measurement.first_call:.3g} s"
    yield f"{row.difference:.1e}"


def _notes(rows: list[Row]) -> Iterator[Text]:
    for row in rows:
        way = f"{row.backend} {row.variant}"
        if row.status == "wrong" and row.measurement is not None:
            rate, time = row.measurement.cells_per_second / 1e9, 1e6 * row.measurement.step.median
            speed, error = f"{_figure(rate)} Gcell/s, {_figure(time)} us a step", f"differs by {row.difference:.1e}"
            text = f"wrong result  {way}: {speed}, but {error}: {row.reason}"
            yield Text(text, style="yellow")
        elif row.status == "disagrees":
            yield Text(f"results disagree, so no time  {way}: {row.reason}", style="bold red")
        elif row.status in ("failed", "skipped"):
            yield Text(f"{row.status}  {way}: {row.reason}", style="red" if row.status == "failed" else "dim")


def _figure(value: float) -> str:
    """Four figures without an exponent."""
    return f"{float(f'{value:.4g}'):.0f}" if value >= 1000 else f"{value:.4g}"


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(result)
    for key, value in (out.pop("speed_up", None) or {}).items():
        out[f"speed_up_{key}"] = value
    return out


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
