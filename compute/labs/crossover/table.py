"""A bench of this lab on the terminal: a table for each curve, ways by n, and from where on the GPU wins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from compute.bench.rows import Results, Row
from compute.bench.tables import disturbed
from compute.labs.crossover.catalogue import workload
from compute.labs.crossover.finding import Line, compared, sides
from compute.timings import Spread

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
SHORT = {"skipped": "-", "failed": "failed", "disagrees": "differs"}


def show(results: Results, console: Console) -> None:
    """A table for each workload, type and choice of settings."""
    timed = [row for row in results.rows if row.case is not None]
    for group in dict.fromkeys(row.case.group for row in timed):
        rows = [row for row in timed if row.case.group == group]
        console.print()
        console.print(Group(_table(group, rows), *_notes(rows), *disturbed(results, group)))
    console.print()
    for row in results.rows:
        if row.status == "missing":
            console.print(Text(f"{row.backend}: absent, {row.reason}"))


def time_in_words(seconds: float) -> str:
    """Three figures and a unit."""
    scale, unit = next(((scale, unit) for scale, unit in UNITS if seconds >= scale), UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"


def _table(group: str, rows: Sequence[Row]) -> RenderableType:
    sizes = sorted({row.case.size for row in rows})
    table = Table(title=f"{group}   median time of a call", title_justify="left", title_style="bold")
    table.add_column("way", no_wrap=True)
    for n in sizes:
        table.add_column(f"n = {n:,}", justify="right", no_wrap=True)
    for way in dict.fromkeys(row.extra["way"] for row in rows):
        at = {row.case.size: row for row in rows if row.extra["way"] == way}
        table.add_row(way, *(_cell(at[n]) for n in sizes))
    return table


def _cell(row: Row) -> str:
    if row.measurement is None:
        return SHORT.get(row.status, row.status)
    return time_in_words(row.measurement.step.median) + (" noisy" if row.measurement.noisy else "")


def _notes(rows: Sequence[Row]) -> Iterator[Text]:
    """Where the best ways of host and GPU cross, and why there is no time where there is none."""
    found = compared(*sides(_lines(rows)))
    if found.crossing is not None:
        yield Text(f"{found.words} ({found.doubt()})")
    for status, style in (("disagrees", "bold red"), ("failed", "red"), ("skipped", "dim")):
        for way in dict.fromkeys(row.extra["way"] for row in rows if row.status == status):
            first = next(row for row in rows if row.status == status and row.extra["way"] == way)
            yield Text(f"{status}  {way} from n = {first.case.size:,}: {first.reason}", style=style)


def _lines(rows: Sequence[Row]) -> list[Line]:
    """The times of each way, by n."""
    found: dict[str, dict[int, Spread]] = {}
    for row in rows:
        if row.measurement is not None:
            found.setdefault(row.extra["way"], {})[row.case.size] = row.measurement.step
    of = workload(rows[0].case.workload)
    return [Line(of.way(way), series) for way, series in found.items()]
