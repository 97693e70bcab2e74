"""A bench run as tables on the terminal, what they leave out said below each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from compute.bench.report import above_roof, counted, percent
from compute.bench.rows import Results, Row
from compute.timings import SpeedUp

COUNTED = {"bytes": ("GB/s", 1e9), "instructions": ("Ginstr/s", 1e9)}  # heading of a column, and its unit
ROOFS = {"copy": "% of copy", "fma": "% of FMA"}


def show(results: Results, work: ModuleType, console: Console) -> None:
    """Tables, one a case; those of the lab's own `show` where its workload has one."""
    if hasattr(work, "show"):
        work.show(results, console)
        return
    for name, copy in results.bandwidths.items():
        gigabytes = _figure(copy.roof / 1e9)
        console.print(f"Copy bandwidth of {name}: {gigabytes} GB/s (upper quartile of {copy.rate.n}, read + written)")
    for (name, dtype), fma in results.fma.items():
        rate = _figure(fma.roof / 1e12)
        console.print(f"Fused multiply-adds of {name}, {dtype}: {rate} T/s (upper quartile of {fma.rate.n})")
    for case in dict.fromkeys(row.case for row in results.rows if row.case is not None):
        rows = [row for row in results.rows if row.case == case]
        console.print()
        notes = *_notes(rows, results, work), *disturbed(results, case.title)
        console.print(Group(_table(case, rows, results, work), *notes))
    missing = [row for row in results.rows if row.status == "missing"]
    console.print()
    for row in missing:
        console.print(Text(f"{row.backend}: absent, {row.reason}"))
    console.print(Text(work.INCLUDED, style="dim"))


def disturbed(results: Results, title: str) -> Iterator[Text]:
    """What else went on while the case of that title was timed, a line each; nothing if nothing did."""
    for text in results.conditions.warnings(title):
        yield Text(f"disturbed  {text}", style="yellow")


def _table(case: Any, rows: list[Row], results: Results, work: ModuleType) -> RenderableType:
    over = next((row.over.split()[0] for row in rows if row.over), "")
    reference = next((row.reference for row in rows if row.reference), "")
    title = f"{case.title}   right within {case.tolerance:.0e} of {reference}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("way", no_wrap=True)
    speed_up = f"times {over}" if over else "speed-up"
    rates = (work.RATE.unit, COUNTED[work.RATE.counted][0], ROOFS[work.RATE.roof])
    for heading in (f"us a {work.RATE.step}", "quartiles", "n", *rates, speed_up, "first call", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row.status == "measured" and row.measurement is not None:
            table.add_row(*_cells(row, results, work))
    return table


def _cells(row: Row, results: Results, work: ModuleType) -> Iterator[str]:
    measurement = row.measurement
    if measurement is None:
        return
    step, share, size = measurement.step, percent(row, results, work), COUNTED[work.RATE.counted][1]
    yield f"{row.backend} {row.variant}"
    yield _figure(1e6 * step.median)
    yield f"{_figure(1e6 * step.q1)} - {_figure(1e6 * step.q3)}" + (" noisy" if measurement.noisy else "")
    yield str(step.n)
    yield _figure(measurement.cells_per_second / 1e9)
    yield _figure(counted(row, work) / size) if row.case.plain else ""
    yield f"{share:.0f}" if math.isfinite(share) else ""
    speed = row.speed_up
    yield _ratio(speed) if speed else ""
    yield f"{measurement.first_call:.3g} s"
    yield f"{row.difference:.1e}"


def _ratio(speed: SpeedUp) -> str:
    """How many times as fast, or, below one, how many times slower; with what the quartiles allow."""
    if speed.ratio >= 1:
        return f"{_figure(speed.ratio)} ({_figure(speed.low)} - {_figure(speed.high)})"
    return f"{_figure(1 / speed.ratio)} slower ({_figure(1 / speed.high)} - {_figure(1 / speed.low)})"


def _notes(rows: list[Row], results: Results, work: ModuleType) -> Iterator[Text]:
    for row in rows:
        way = f"{row.backend} {row.variant}"
        if row.status == "measured" and (why := above_roof(row, results, work)):
            yield Text(f"{percent(row, results, work):.0f} {ROOFS[work.RATE.roof]}  {way}: {why}", style="dim")
        if row.status == "wrong" and row.measurement is not None:
            rate, time = row.measurement.cells_per_second / 1e9, 1e6 * row.measurement.step.median
            speed = f"{_figure(rate)} {work.RATE.unit}, {_figure(time)} us a {work.RATE.step}"
            text = f"wrong result  {way}: {speed}, but differs by {row.difference:.1e}: {row.reason}"
            yield Text(text, style="yellow")
        elif row.status == "disagrees":
            yield Text(f"results disagree, so no time  {way}: {row.reason}", style="bold red")
        elif row.status in ("failed", "skipped"):
            yield Text(f"{row.status}  {way}: {row.reason}", style="red" if row.status == "failed" else "dim")


def _figure(value: float) -> str:
    """Four figures without an exponent."""
    return f"{float(f'{value:.4g}'):.0f}" if value >= 1000 else f"{value:.4g}"
