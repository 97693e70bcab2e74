"""A bench compared with an older record of it: which ways got slower, and other differences between the two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from compute.measure.case import Row
from compute.measure.records import BEFORE, FIRST_REVISION, machine_name, spread_of
from compute.measure.statistics import SpeedUp

MOST_NAMED = 6  # number of ways listed by name that only one of the runs has
UNLIKE = {  # values that change no figure of a bench
    "parameters": ("budget_s", "included"),
    "versions": ("panel", "bokeh", "holoviews", "panel-material-ui", "tornado", "pillow", "fieldlab"),
}
MACHINE = {"cpu": "CPU", "threads": "CPU threads", "gpus": "GPUs", "driver": "driver", "system": "system"}


@dataclass(frozen=True)
class ComparedTime:
    """One way at one case, now and then. Medians and quartiles in seconds a step.

    ratio: time now over time then, above 1 is slower; low, high: its confidence interval, nan if one of the records
    has none; overlap: whether the quartiles overlap.
    """

    case: str
    way: str
    now: tuple[float, float, float]
    then: tuple[float, float, float]
    low: float = nan
    high: float = nan

    @property
    def ratio(self) -> float:
        """Ratio of the medians."""
        return self.now[1] / self.then[1]

    @property
    def overlap(self) -> bool:
        """Whether the interquartile ranges overlap."""
        return self.now[0] <= self.then[2] and self.then[0] <= self.now[2]


@dataclass(frozen=True)
class RecordComparison:
    """The outcome of `compare`.

    against: machine and date of the older record; differences: between the runs, as text; only_now, only_then: ways
    without a time in the other run.
    """

    against: str
    differences: tuple[str, ...]
    rows: tuple[ComparedTime, ...]
    only_now: tuple[str, ...]
    only_then: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """Return plain values, times in seconds a step."""
        out = asdict(self)
        names = ("q1", "median", "q3")
        for row, entry in zip(self.rows, out["rows"], strict=True):
            entry |= {"now": dict(zip(names, row.now, strict=True)), "then": dict(zip(names, row.then, strict=True))}
            low, high = (value if isfinite(value) else None for value in (row.low, row.high))
            entry |= {"ratio": row.ratio, "low": low, "high": high, "quartiles_overlap": row.overlap}
        return out


def compare(old: Mapping[str, Any], record: Mapping[str, Any], rows: Sequence[Row]) -> RecordComparison:
    """Compare the run of `record` and `rows` with the checked record `old`; ValueError if that is of another lab."""
    require_lab(old, record["lab"])
    left = [result for result in old["results"] if _timed(result)]
    found: list[ComparedTime] = []
    fresh: list[str] = []
    for row in rows:
        if row.case is None or row.measurement is None or not isfinite(row.measurement.step.median):
            continue
        wanted = {"backend": row.backend, "variant": row.variant, **_plain(row.case.facts())}
        match = next((result for result in left if _has(result, wanted)), None)
        if match is None:
            fresh.append(f"{row.case.title}: {row.backend} {row.variant}")
            continue
        left.remove(match)
        step, way = row.measurement.step, f"{row.backend} {row.variant}"
        new: Mapping[str, Any] = next((result for result in record["results"] if _has(result, wanted)), {})
        if match.get("kernel", FIRST_REVISION) < new.get("kernel", FIRST_REVISION):
            way = f"{way} ({BEFORE})"
        then = match["q1"], match["median"], match["q3"]
        ratio = SpeedUp.of(step, spread_of(match))
        now = step.q1, step.median, step.q3
        found.append(ComparedTime(row.case.title, way, now, then, ratio.low, ratio.high))
    against = f"{machine_name(old['machine'])}, {str(old['date'])[:16].replace('T', ' ')}"
    gone = tuple(f"{_case(result)}: {result['backend']} {result['variant']}" for result in left)
    return RecordComparison(against, tuple(_differences(old, record)), tuple(found), tuple(fresh), gone)


def require_lab(old: Mapping[str, Any], lab: str) -> None:
    """Raise ValueError if the record is of another lab."""
    if old["lab"] != lab:
        raise ValueError(f"the record to compare with is of the lab {old['lab']}, not of {lab}")


def show(comparison: RecordComparison, step: str, console: Console) -> None:
    """Print the comparison as a table, followed by the differences between the runs."""
    table = Table(title=f"Compared with {comparison.against}", title_justify="left", title_style="bold")
    table.add_column("case")
    table.add_column("way", no_wrap=True)
    for heading in (f"us a {step} now", "then", "now / then", "quartiles"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in comparison.rows:
        words, style = ("overlap", "") if row.overlap else ("slower", "red") if row.ratio > 1 else ("faster", "green")
        ratio = f"{row.ratio:.3g}" + (f" ({row.low:.3g} - {row.high:.3g})" if isfinite(row.low) else "")
        table.add_row(
            row.case, row.way, f"{1e6 * row.now[1]:.4g}", f"{1e6 * row.then[1]:.4g}", ratio, words, style=style
        )
    console.print()
    console.print(table if comparison.rows else Text("No way of this run has a time in the older record."))
    for text in comparison.differences:
        console.print(Text(f"differs: {text}", style="yellow"))
    for names, what in ((comparison.only_now, "not in the older record"), (comparison.only_then, "not timed now")):
        for name in names[:MOST_NAMED]:
            console.print(Text(f"{what}: {name}", style="dim"))
        if len(names) > MOST_NAMED:
            console.print(Text(f"{what}: {len(names) - MOST_NAMED} more", style="dim"))


def _timed(result: Mapping[str, Any]) -> bool:
    return result["status"] in ("measured", "wrong") and "median" in result


def _has(result: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(result.get(name) == value for name, value in wanted.items())


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return `facts` with the types that JSON loads."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def _case(result: Mapping[str, Any]) -> str:
    size = f"{result['ny']} x {result['nx']}" if "ny" in result else ""
    names = ("workload", "way", "scene", "edges", "size")
    return "  ".join([size, str(result["dtype"]), *(str(result[name]) for name in names if result.get(name))]).strip()


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name, words in MACHINE.items():
        then, now = (_said(record["machine"].get(name)) for record in (old, new))
        if then != now:
            yield f"{words} then {then}, now {now}"
    commits = old["commit"], new["commit"]
    if commits[0] != commits[1] or "+changes" in str(commits[1]):
        yield f"the kernels are of another source: commit then {_said(commits[0])}, now {_said(commits[1])}"
    for what, unlike in UNLIKE.items():
        for name in sorted({*old[what], *new[what]} - set(unlike)):
            then, now = (_said(record[what].get(name)) for record in (old, new))
            if then != now:
                yield f"{name} then {then}, now {now}"


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item.get("name")) if isinstance(item, dict) else str(item) for item in value) or "none"
    return "none" if value is None else str(value)
