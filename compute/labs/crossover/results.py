"""A sweep as rows of a bench, one per way and n. Rows form an ordinary record, and tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from compute.measure.case import Results, Row, with_speed_ups
from compute.measure.report import disturbed
from compute.measure.statistics import Spread
from compute.ways.catalogue import workload
from compute.ways.finding import TimeCurve, compare, sides, time_in_words
from compute.ways.plan import Point, SweepPlan
from compute.ways.roofline import Roof, roofline_point
from compute.ways.sweep import Sweep
from compute.ways.workload import Case

STATUS = {"waiting": "skipped", "checked": "skipped"}  # of a point: status of its row
SHORT = {"skipped": "-", "failed": "failed", "disagrees": "differs"}


@dataclass(frozen=True)
class BenchCase:
    """A workload at one n, as a case of a bench. ways: the names of the requested ways, () for all."""

    workload: str
    size: int
    dtype: str
    settings: tuple[tuple[str, Any], ...] = ()
    ways: tuple[str, ...] = ()
    evict: bool = False
    limit: float = inf  # seconds allowed for the whole bench
    plain = False  # bytes and operations differ from way to way, so each row contains them

    @property
    def of(self) -> Case:
        """The case of the lab's workload."""
        return workload(self.workload).case(self.size, self.dtype, **dict(self.settings))

    @property
    def group(self) -> str:
        """Heading of its curve."""
        text = self.of.settings_text
        return f"{workload(self.workload).title}  {self.dtype}{f'  {text}' if text else ''}"

    @property
    def title(self) -> str:
        """Heading with n."""
        return f"{self.group}  n = {self.size:,}"

    @property
    def tolerance(self) -> float:
        """The largest difference that counts as agreement."""
        return self.of.tolerance

    @property
    def cells(self) -> int:
        """The number n."""
        return self.size

    def facts(self) -> dict[str, Any]:
        """Return the fields of the record."""
        text = self.of.settings_text
        return {
            "workload": self.workload, "size": self.size, "dtype": self.dtype, "settings": text, "evict": self.evict,
        }  # fmt: skip


def rows(sweep: Sweep, roofs: Mapping[str, Roof], reason: str = "") -> Iterator[Row]:
    """Yield every point of a sweep, n by n, with its speed-up over the host's champion for the same work.

    roofs: by kind, "host" and "cuda"; reason: why the sweep ended early.
    """
    plan = sweep.plan
    settings = tuple(plan.case(plan.sizes[0]).settings.items())
    for n in sorted(set(plan.sizes)):
        case = BenchCase(plan.workload.name, n, plan.dtype, settings, evict=plan.evict)
        points = [sweep.points[way.name, n] for way in plan.ways]
        yield from with_speed_ups([_row(point, case, roofs, reason) for point in points if point.status != "missing"])


def missing_rows(sweep: Sweep) -> Iterator[Row]:
    """Yield a row for each missing library."""
    reasons = {p.way.backend.name: p.reason for p in sweep.points.values() if p.status == "missing"}
    for name, reason in reasons.items():
        yield Row(name, "", None, "missing", reason)


def results_of(snapshot: Mapping[str, Any]) -> Results:
    """Return a lab's snapshot as the results of a bench, with all samples."""
    values = snapshot["values"]
    of = workload(values["workload"])
    names = list(dict.fromkeys(name for name, _ in snapshot["points"]))
    sizes = tuple(sorted({n for _, n in snapshot["points"]}))
    sweep = Sweep(
        SweepPlan(
            of, tuple(of.way(name) for name in names), sizes, values["dtype"], dict(values["settings"]),
            values["budget"], values["evict"], values["split"], values["seed"], values["longest"],
        )
    )  # fmt: skip
    sweep.restore(snapshot)
    roofs = {kind: Roof(kind, *values) for kind, values in snapshot["roofs"].items()}
    return Results([*missing_rows(sweep), *rows(sweep, roofs)])


def _row(point: Point, case: BenchCase, roofs: Mapping[str, Roof], reason: str) -> Row:
    way, measured = point.way, point.measurement
    device = way.backend.engine()
    row = Row(
        way.backend.name, way.variant, case, STATUS.get(point.status, point.status),  # type: ignore[arg-type]
        point.reason or (f"not timed: {reason or 'cancelled'}" if point.status in STATUS else ""),
        device, "the workload's reference", point.difference if isfinite(point.difference) else None,
        extra={"way": way.name},
    )  # fmt: skip
    if measured is None:
        return row
    steps = point.timings[-1].steps
    alike = {"launch": point.launch.median * steps, "compute": measured.step.median * steps}
    parts = measured.parts | alike  # the number of calls per sample differs between visits
    samples = tuple(sample for sample in (point.cold, *point.samples) if sample)
    extra = {**row.extra, **_rates(point, case, roofs.get(way.backend.device))}
    work, measured = case.of.work(way), replace(measured, parts=parts)
    return replace(row, measurement=measured, steps=steps, samples=samples, work=work, extra=extra)


def _rates(point: Point, case: BenchCase, roof: Roof | None) -> dict[str, Any]:
    """Return the row's additional fields: bytes and operations per second, percent of the roof, transfer time."""
    if point.measurement is None:
        return {}
    kind, nan = point.way.backend.device, float("nan")
    where = roofline_point(point.way, case.of, point.measurement, roof or Roof(kind, case.dtype, nan, nan))
    found = {
        "bytes_per_second": where.moved,
        "flops_per_second": where.flops,
        "flops_per_byte": where.intensity,
        "percent_of_roof": where.percent,
        "transfer": point.transfer.median,
    }
    return {name: value if isfinite(value) else None for name, value in found.items()}


# -- on the terminal


def show_tables(results: Results, console: Console) -> None:
    """Print a table for each workload, type and choice of settings."""
    timed = [row for row in results.rows if row.case is not None]
    for group in dict.fromkeys(row.case.group for row in timed):
        rows = [row for row in timed if row.case.group == group]
        console.print()
        console.print(Group(_table(group, rows), *_notes(rows), *disturbed(results, group)))
    console.print()
    for row in results.rows:
        if row.status == "missing":
            console.print(Text(f"{row.backend}: absent, {row.reason}"))


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
    """Yield the crossing of the best ways of host and GPU, and the reasons for missing times."""
    found = compare(*sides(_curves(rows)))
    if found.crossing is not None:
        yield Text(f"{found.sentence} ({found.uncertainty()})")
    for status, style in (("disagrees", "bold red"), ("failed", "red"), ("skipped", "dim")):
        for way in dict.fromkeys(row.extra["way"] for row in rows if row.status == status):
            first = next(row for row in rows if row.status == status and row.extra["way"] == way)
            yield Text(f"{status}  {way} from n = {first.case.size:,}: {first.reason}", style=style)


def _curves(rows: Sequence[Row]) -> list[TimeCurve]:
    """Return the times of each way, by n."""
    found: dict[str, dict[int, Spread]] = {}
    for row in rows:
        if row.measurement is not None:
            found.setdefault(row.extra["way"], {})[row.case.size] = row.measurement.step
    of = workload(rows[0].case.workload)
    return [TimeCurve(of.way(way), series) for way, series in found.items()]
