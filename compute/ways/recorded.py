"""Curves of earlier runs, drawn hollow: read from records that `fieldlab bench crossover --save` wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

from compute.devices.backends import kind_of
from compute.measure import records
from compute.measure.statistics import Spread
from compute.ways.catalogue import workload, workloads
from compute.ways.plan import WORST, ShownStatus
from compute.ways.roofline import FLOPS_OF_FMA, Roof


class RecordedParts(NamedTuple):
    """Parts of a call at one n, as in picture.ShownPoint: times in seconds; nan if the record has none."""

    launch: float = nan
    transfer: float = nan
    intensity: float = nan
    percent: float = nan
    clock_rate: float = nan


@dataclass(frozen=True)
class RecordedCurve:
    """One way of a workload, measured on `machine` on `date` (ISO 8601, the day).

    series: seconds per call by n, correct results only; noisy: the n with too much scatter; status: of the whole curve;
    reasons: by n, for those without a time; run: the process, whose curves can be compared with each other. rates:
    (bytes/s, operations/s) by n, for the least work of the way; roof: of its device, measured in that run. parts: of
    the calls at each n. outdated: measured with an older revision of the way, so that its series is empty.
    """

    machine: str
    date: str
    workload: str
    way: str
    label: str
    dtype: str
    settings: Mapping[str, Any]
    evict: bool
    series: Mapping[int, Spread]
    status: ShownStatus
    noisy: frozenset[int] = frozenset()
    reasons: Mapping[int, str] = field(default_factory=dict)
    run: str = ""
    rates: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    roof: Roof | None = None
    parts: Mapping[int, RecordedParts] = field(default_factory=dict)
    outdated: bool = False

    @property
    def kind(self) -> str:
        """The kind of device it was measured on."""
        return kind_of(self.way)


def curves(of: str, folder: Path | None = None) -> list[RecordedCurve]:
    """Return the recorded curves of the workload called `of`, latest first, by default from assets/timings.

    Unreadable files are skipped here; `records.library` reports their errors.
    """
    name = workload(of).name  # resolved once, as it searches all workloads
    return [curve for curve in library(folder) if curve.workload == name]


def comparable_curves(
    of: str, dtype: str, settings: Mapping[str, Any], evict: bool, sizes: tuple[int, int]
) -> list[RecordedCurve]:
    """Return the curves of workload `of` that are comparable with such a sweep, cut to sizes[0] <= n <= sizes[1]."""
    least, most = sizes
    found = [c for c in curves(of) if (c.dtype, dict(c.settings), c.evict) == (dtype, dict(settings), evict)]
    return [replace(c, series={n: spread for n, spread in c.series.items() if least <= n <= most}) for c in found]


def newest_gpu(
    of: str, dtype: str, settings: Mapping[str, Any], evict: bool, sizes: tuple[int, int]
) -> list[RecordedCurve]:
    """Return the comparable curves with times from the latest run that has a GPU curve."""
    found = [c for c in comparable_curves(of, dtype, settings, evict, sizes) if c.series and c.kind == "gpu"]
    return [curve for curve in found if (curve.machine, curve.run) == (found[0].machine, found[0].run)]


def library(folder: Path | None = None) -> list[RecordedCurve]:
    """Return every recorded curve, latest run first.

    If several runs on one machine have the same curve, the latest with a time is returned whole: runs are never merged.
    """
    found = [curve for path, changed in files(folder) for curve in _read(path, changed)]
    newest: dict[Any, RecordedCurve] = {}
    told = [curve for curve in found if curve.series or curve.outdated or curve.status != "skipped"]
    for curve in sorted(told, key=lambda curve: (bool(curve.series), curve.run), reverse=True):
        settings = tuple(sorted(curve.settings.items()))
        newest.setdefault((curve.machine, curve.workload, curve.way, curve.dtype, settings, curve.evict), curve)
    return sorted(newest.values(), key=lambda curve: curve.run, reverse=True)


def largest_rates(machine: str, date: str, kind: str, dtype: str) -> tuple[float, float]:
    """Return the largest (bytes/s, operations/s) of the ways on that kind of device in a run; 0 if none."""
    rates = [
        rate
        for curve in library()
        if (curve.machine, curve.date, curve.dtype) == (machine, date, dtype) and curve.kind == kind
        for rate in curve.rates.values()
    ]
    moved, computed = (max((rate[i] for rate in rates if isfinite(rate[i])), default=0.0) for i in (0, 1))
    return moved, computed


def files(folder: Path | None = None) -> tuple[tuple[Path, int], ...]:
    """Return the records with curves, each with its modification time in ns; by default from assets/timings."""
    paths = sorted((folder or records.timings_folder()).glob("*crossover*.json"))
    return tuple((path, path.stat().st_mtime_ns) for path in paths)


@cache
def _read(path: Path, _changed: int) -> tuple[RecordedCurve, ...]:
    """Return the curves of one file; none for a broken file or another lab."""
    try:
        found = records.load(path)
    except records.RecordError:
        return ()
    return tuple(of_record(found)) if found["lab"] == "crossover" else ()


def of_record(found: Mapping[str, Any]) -> Iterable[RecordedCurve]:
    """Yield the curves of a checked record."""
    machine, run = records.machine_name(found["machine"]), str(found["date"])
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for result in found["results"]:
        key = tuple(str(result[name]) for name in ("workload", "way", "dtype", "settings"))
        groups.setdefault(key, []).append(result)
    known = {w.name: {way.name: way for way in w.ways()} for w in workloads()}
    for (of, way, dtype, text), results in groups.items():
        if way not in known.get(of, {}):  # the way was removed
            continue
        choices = {workload(of).case(1, dtype, **choice).settings_text: choice for choice in workload(of).choices()}
        if text in choices:
            evict = bool(results[0].get("evict"))
            outdated = any(r.get("kernel", records.FIRST_REVISION) < known[of][way].revision for r in results)
            yield RecordedCurve(
                machine,
                run[:10],
                of,
                way,
                known[of][way].label,
                dtype,
                choices[text],
                evict,
                run=run,
                roof=_roof(found, str(results[0].get("device", "")), dtype),
                outdated=outdated,
                **(_outdated(results) if outdated else _measured(results)),
            )


def _roof(found: Mapping[str, Any], device: str, dtype: str) -> Roof:
    """Return the measured limits of a way's device; inf for those not measured.

    They are upper quartiles, as for all roofs (measure/roofs.py): disturbances can only lower the measured rate.
    """
    copies = found.get("copy_bandwidth") or {}
    computes = found.get("fma") or {}
    bandwidth = _most(copies.get(device) or {}, "bytes_per_second")
    flops = FLOPS_OF_FMA * _most(computes.get(f"{device} {dtype}") or {}, "instructions_per_second")
    return Roof(device, dtype, bandwidth if isfinite(bandwidth) else inf, flops if isfinite(flops) else inf)


def _most(entry: Mapping[str, Any], median: str) -> float:
    """Return the roof of an entry; older records contain only the upper quartile, or only the median."""
    return next((rate for name in ("roof", "q3", median) if isfinite(rate := _rate(entry, name))), nan)


def _rate(entry: Mapping[str, Any], name: str) -> float:
    """Return a number of a record; nan if absent."""
    return float(entry[name]) if entry.get(name) is not None else nan


def _outdated(results: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {"series": {}, "status": "skipped", "reasons": {r["size"]: records.BEFORE for r in results}}


PARTS = ("launch", "transfer", "flops_per_byte", "percent_of_roof", "clock_rate")  # in the order of RecordedParts


def _measured(results: list[Mapping[str, Any]]) -> dict[str, Any]:
    timed = [result for result in results if result["status"] == "measured"]
    noisy = frozenset(r["size"] for r in timed if r.get("noisy"))
    statuses = {"noisy" if r["size"] in noisy else r["status"] for r in results}
    return {
        "series": {r["size"]: records.spread_of(r) for r in timed},
        "status": next((status for status in WORST if status in statuses), "waiting"),
        "noisy": noisy,
        "rates": {r["size"]: (_rate(r, "bytes_per_second"), _rate(r, "flops_per_second")) for r in timed},
        "parts": {r["size"]: RecordedParts(*(_rate(r, name) for name in PARTS)) for r in timed},
        "reasons": {r["size"]: str(r["reason"]) for r in results if r.get("reason")},
    }
