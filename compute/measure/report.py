"""A bench run as a record, and as tables on the terminal, with notes below each table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numba
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from compute.measure.case import BenchPlan, OutsideCheck, Results, Row
from compute.measure.conditions import provenance
from compute.measure.rates import Rate, why_above_roof
from compute.measure.records import FIRST_REVISION, SCHEMA
from compute.measure.rules import ComparisonRules
from compute.measure.statistics import COVERAGE, FEWEST, SpeedUp

COUNTED = {"bytes": ("GB/s", 1e9), "instructions": ("Ginstr/s", 1e9)}  # heading of a column, and its unit
ROOFS = {"copy": "% of copy", "fma": "% of FMA"}
PERCENT = f"{100 * COVERAGE:.0f} %"
INTERVAL = f"{PERCENT} confidence interval of the ratio of medians"
NO_INTERVAL = f"none: fewer than {FEWEST} samples"
INTERVALS = f"Behind a ratio: {INTERVAL}; none for fewer than {FEWEST} samples."


class ReportedBenchmark:
    """The part of a Benchmark that a report states.

    rate: the unit of the work; included: the contents of a time, as text; parameters: further values for the record;
    rules: of the live comparison, None if the lab has no live comparison.
    """

    rate: Rate
    included: str
    parameters: ClassVar[Mapping[str, Any]] = {}
    rules: ComparisonRules | None = None

    def counted_share(self, row: Row) -> float:
        """Return the part of the `rate.need` count that this way actually moves or executes."""
        return self.rate.share(row.backend, row.variant, row.case.dtype, row.steps)

    def revision(self, row: Row) -> int:
        """Return the revision of the kernel that the row was measured with."""
        return self.rules.revisions.get((row.backend, row.variant), FIRST_REVISION) if self.rules else FIRST_REVISION


def as_record(results: Results, plan: BenchPlan, command: str, benchmark: ReportedBenchmark) -> dict[str, Any]:
    """Return the run with its provenance, in the schema of compute.measure.records; times in seconds, rates 1/s."""
    rate = benchmark.rate
    samples = sum(row.measurement.step.n for row in results.rows if row.measurement is not None)
    return {
        "schema": SCHEMA,
        "lab": plan.lab,
        **provenance(command, samples, results.conditions),
        "parameters": {
            **benchmark.parameters, "budget_s": plan.budget, "numba_threads": numba.get_num_threads(),
            "included": benchmark.included,
        },
        "rate": {"unit": rate.unit, "work": rate.work, "step": rate.step, "roof": rate.roof, "counted": rate.counted},
        "copy_bandwidth": {
            name: {
                "bytes_per_second": copy.rate.median, "q1": copy.rate.q1, "q3": copy.rate.q3, "n": copy.rate.n,
                "array_bytes": copy.array_bytes, "roof": copy.roof,
            }
            for name, copy in results.bandwidths.items()
        },
        "caches": {name: found[-1].size for name in results.devices if (found := results.caches(name))},
        "fma": {
            f"{name} {dtype}": {
                "instructions_per_second": fma.rate.median, "q1": fma.rate.q1, "q3": fma.rate.q3, "n": fma.rate.n,
                "roof": fma.roof,
            }
            for (name, dtype), fma in results.fma.items()
        },
        "results": [entry(row, results, benchmark) for row in results.rows if row.case is not None],
        "notes": list(results.notes),
        "interrupted": results.interrupted is not None,
        "missing": {row.backend: row.reason for row in results.rows if row.status == "missing"},
        **({"outside": results.outside.as_record()} if results.outside else {}),
    }  # fmt: skip


def entry(row: Row, results: Results, benchmark: ReportedBenchmark) -> dict[str, Any]:
    """Return one row as plain values; None for unmeasured numbers."""
    out: dict[str, Any] = {
        "backend": row.backend, "variant": row.variant, "status": row.status, "reason": row.reason,
        "kernel": benchmark.revision(row), "device": row.device, **row.case.facts(), "reference": row.reference,
        "tolerance": row.case.tolerance, "difference": _finite(row.difference),
        "largest_difference": _finite(row.largest),
    }  # fmt: skip
    if row.measurement is not None:
        step, rate, per_second = row.measurement.step, benchmark.rate, row.measurement.cells_per_second
        out |= {
            "median": step.median, "q1": step.q1, "q3": step.q3, "n": step.n, "steps_per_sample": row.steps,
            "median_low": _finite(step.low), "median_high": _finite(step.high),
            "noisy": row.measurement.noisy, "first_call": row.measurement.first_call,
            "launch": _finite(row.measurement.parts["launch"] / row.steps),
            "launch_bound": row.measurement.launch_bound, "clock_rate": _finite(row.measurement.clock_rate),
            f"{rate.work}_per_second": per_second,
            f"{rate.counted}_per_second": _finite(counted(row, benchmark)),
            f"percent_of_{rate.roof}": _finite(percent(row, results, benchmark)),
            "above_roof": above_roof(row, results, benchmark),
        }  # fmt: skip
    if row.speed_up is not None:
        speed = row.speed_up
        out["speed_up"] = {
            "over": row.over, "ratio": speed.ratio, "low": _finite(speed.low), "high": _finite(speed.high),
            "interval": INTERVAL if speed.bounded else NO_INTERVAL,
        }  # fmt: skip
    return out | dict(row.extra)


def counted(row: Row, benchmark: ReportedBenchmark) -> float:
    """Return the items that the roof counts, a second; nan if the case does other work than the roof counts."""
    if row.measurement is None or not row.case.plain:
        return math.nan
    counted = benchmark.rate.counted_per_second(row.measurement.cells_per_second, row.case.dtype)
    return float(counted * benchmark.counted_share(row))


def percent(row: Row, results: Results, benchmark: ReportedBenchmark) -> float:
    """Return the row's rate in percent of its device's roof; nan without a roof."""
    return 100.0 * counted(row, benchmark) / results.roof(benchmark.rate.roof, row.device, row.case.dtype)


def above_roof(row: Row, results: Results, benchmark: ReportedBenchmark) -> str:
    """Return why the row's rate exceeds 100 % of its roof; "" if it does not."""
    if row.measurement is None:
        return ""
    moved = math.nan
    if benchmark.rate.roof == "copy":  # moved by one pass through memory, which may compute several steps
        moved = counted(row, benchmark) * row.measurement.step.median / benchmark.counted_share(row)
    return why_above_roof(percent(row, results, benchmark), moved, results.caches(row.device), benchmark.rate.saves)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# -- on the terminal


def show(results: Results, benchmark: ReportedBenchmark, console: Console) -> None:
    """Print a table for each case."""
    for name, copy in results.bandwidths.items():
        gigabytes = _figure(copy.roof / 1e9)
        console.print(f"Copy bandwidth of {name}: {gigabytes} GB/s (upper quartile of {copy.rate.n}, read + written)")
    for (name, dtype), fma in results.fma.items():
        rate = _figure(fma.roof / 1e12)
        console.print(f"Fused multiply-adds of {name}, {dtype}: {rate} T/s (upper quartile of {fma.rate.n})")
    for note in results.notes:
        console.print(Text(note, style="yellow"))
    for case in dict.fromkeys(row.case for row in results.rows if row.case is not None):
        rows = [row for row in results.rows if row.case == case]
        console.print()
        notes = *_notes(rows, results, benchmark), *disturbed(results, case.title)
        console.print(Group(_table(case, rows, results, benchmark), *notes))
    missing = [row for row in results.rows if row.status == "missing"]
    console.print()
    if results.outside:
        console.print(Group(*_outside(results.outside, benchmark)), "")
    for row in missing:
        console.print(Text(f"{row.backend}: absent, {row.reason}"))
    console.print(Text(benchmark.included, style="dim"))
    console.print(Text(INTERVALS, style="dim"))


def _outside(found: OutsideCheck, benchmark: ReportedBenchmark) -> Iterator[RenderableType]:
    """Yield a table of the check against an outside program, and notes on its gaps."""
    unit = benchmark.rate.unit
    if found.rows:
        table = Table(title=found.title, title_justify="left", title_style="bold")
        table.add_column("case", no_wrap=True)
        for heading in ("threads", f"ours, {unit}", f"theirs, {unit}", "ours / theirs"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in (row for row in found.rows if not row.differ):
            ratio = f"{row.ratio.median:.2f} ({row.ratio.q1:.2f} - {row.ratio.q3:.2f})"
            rates = _figure(row.ours / 1e9), _figure(row.theirs / 1e9)
            table.add_row(f"{row.case}  {row.dtype}", str(row.threads), *rates, ratio)
        yield table
    for row in found.rows:
        if row.differ:
            words = f"results disagree, so no time  {row.case} {row.dtype}: {row.differ} entries differ"
            yield Text(words, style="bold red")
    yield from (Text(words, style="dim") for words in (found.program, found.absent) if words)


def disturbed(results: Results, title: str) -> Iterator[Text]:
    """Yield a line for each disturbance of the case of that title."""
    for text in results.conditions.warnings(title):
        yield Text(f"disturbed  {text}", style="yellow")


def _table(case: Any, rows: list[Row], results: Results, benchmark: ReportedBenchmark) -> RenderableType:
    over = next((row.over for row in rows if row.over), "")
    reference = next((row.reference for row in rows if row.reference), "")
    if not any(row.status == "measured" for row in rows):
        return Text(case.title, "bold")  # the notes state why
    title = f"{case.title}   right within {case.tolerance:.0e} of {reference}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("way", no_wrap=True)
    known = any(math.isfinite(counted(row, benchmark)) for row in rows)
    speed_up = f"times {over}" if over else "speed-up"
    rates = benchmark.rate.unit, *((COUNTED[benchmark.rate.counted][0], ROOFS[benchmark.rate.roof]) if known else ())
    for heading in (f"us a {benchmark.rate.step}", "quartiles", "n", *rates, speed_up, "first call", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row.status == "measured" and row.measurement is not None:
            table.add_row(*_cells(row, results, benchmark, known))
    return table


def _cells(row: Row, results: Results, benchmark: ReportedBenchmark, known: bool) -> Iterator[str]:
    """Yield the cells of a measured row; known: whether the table has columns for the roof."""
    measurement = row.measurement
    if measurement is None:
        return
    step, share, size = measurement.step, percent(row, results, benchmark), COUNTED[benchmark.rate.counted][1]
    yield f"{row.backend} {row.variant}"
    yield _figure(1e6 * step.median)
    yield f"{_figure(1e6 * step.q1)} - {_figure(1e6 * step.q3)}" + (" noisy" if measurement.noisy else "")
    yield str(step.n)
    yield _figure(measurement.cells_per_second / 1e9)
    if known:
        amount = counted(row, benchmark)
        yield _figure(amount / size) if math.isfinite(amount) else ""
        yield f"{share:.0f}" if math.isfinite(share) else ""
    speed = row.speed_up
    yield _ratio(speed) if speed else ""
    yield f"{measurement.first_call:.3g} s"
    yield f"{row.difference:.1e}"


def _ratio(speed: SpeedUp) -> str:
    """Format the speed-up, or for ratios below 1 the slowdown, with its confidence interval."""
    if speed.ratio >= 1:
        ends = f" ({_figure(speed.low)} - {_figure(speed.high)})" if speed.bounded else ""
        return f"{_figure(speed.ratio)}{ends}"
    ends = f" ({_figure(1 / speed.high)} - {_figure(1 / speed.low)})" if speed.bounded else ""
    return f"{_figure(1 / speed.ratio)} slower{ends}"


def _notes(rows: list[Row], results: Results, benchmark: ReportedBenchmark) -> Iterator[Text]:
    for row in rows:
        way = f"{row.backend} {row.variant}"
        if row.status == "measured" and (why := above_roof(row, results, benchmark)):
            share = f"{percent(row, results, benchmark):.0f} {ROOFS[benchmark.rate.roof]}"
            yield Text(f"{share}  {way}: {why}", style="dim")
        if row.status == "measured" and row.measurement is not None and row.measurement.launch_bound:
            yield Text(f"launch-bound  {way}: launching a {benchmark.rate.step} takes as long as it does", style="dim")
        if row.status == "measured" and row.measurement is not None and row.measurement.low_clock:
            clock = f"the GPU ran at {100 * row.measurement.clock_rate:.0f} % of its highest clock"
            yield Text(f"low clock  {way}: {clock}; it is faster under continuous load", style="yellow")
        if row.status == "measured" and row.work != "":
            yield Text(f"less work  {way}: without {row.work}, so it has no speed-up over ways with them", style="dim")
        if row.status == "wrong" and row.measurement is not None:
            rate, time = row.measurement.cells_per_second / 1e9, 1e6 * row.measurement.step.median
            speed = f"{_figure(rate)} {benchmark.rate.unit}, {_figure(time)} us a {benchmark.rate.step}"
            text = f"wrong result  {way}: {speed}, but differs by {row.difference:.1e}: {row.reason}"
            yield Text(text, style="yellow")
        elif row.status == "disagrees":
            yield Text(f"results disagree, so no time  {way}: {row.reason}", style="bold red")
        elif row.status in ("failed", "skipped"):
            yield Text(f"{row.status}  {way}: {row.reason}", style="red" if row.status == "failed" else "dim")


def _figure(value: float) -> str:
    """Format a number with four digits and without an exponent."""
    return f"{float(f'{value:.4g}'):.0f}" if value >= 1000 else f"{value:.4g}"
