"""A bench run as a record and as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

from compute import machine
from compute.bench.caches import above
from compute.bench.rows import Plan, Results, Row
from compute.files import whole
from compute.record import SCHEMA

UNITS = {
    "median": "median_s_per_step",
    "q1": "q1_s_per_step",
    "q3": "q3_s_per_step",
    "launch": "launch_s_per_step",
    "first_call": "first_call_s",
    "cells_per_second": "cells_per_s",
    "iterations_per_second": "iterations_per_s",
    "bytes_per_second": "bytes_per_s",
    "instructions_per_second": "instructions_per_s",
}


def as_record(results: Results, plan: Plan, command: str, work: ModuleType) -> dict[str, Any]:
    """The run with its provenance, in the schema of compute.record. Times in seconds, rates a second."""
    rate = work.RATE
    return {
        "schema": SCHEMA,
        "lab": plan.lab,
        "date": machine.now(),
        "command": command,
        "commit": machine.commit(),
        "machine": machine.machine(),
        "versions": machine.versions(),
        "parameters": work.PARAMETERS | {
            "budget_s": plan.budget, "numba_threads": numba.get_num_threads(), "included": work.INCLUDED,
        },
        "rate": {"unit": rate.unit, "work": rate.work, "step": rate.step, "roof": rate.roof, "counted": rate.counted},
        "copy_bandwidth": {
            name: {
                "bytes_per_second": copy.rate.median, "q1": copy.rate.q1, "q3": copy.rate.q3, "n": copy.rate.n,
                "array_bytes": copy.array_bytes, "roof": copy.roof,
            }
            for name, copy in results.bandwidths.items()
        },
        "fma": {
            f"{name} {dtype}": {
                "instructions_per_second": fma.rate.median, "q1": fma.rate.q1, "q3": fma.rate.q3, "n": fma.rate.n,
                "roof": fma.roof,
            }
            for (name, dtype), fma in results.fma.items()
        },
        "results": [entry(row, results, work) for row in results.rows if row.case is not None],
        "conditions": results.conditions.as_record(),
        "missing": {row.backend: row.reason for row in results.rows if row.status == "missing"},
    }  # fmt: skip


def entry(row: Row, results: Results, work: ModuleType) -> dict[str, Any]:
    """One row as plain values; numbers that were not measured are None."""
    out: dict[str, Any] = {
        "backend": row.backend, "variant": row.variant, "status": row.status, "reason": row.reason,
        "device": row.device, **row.case.facts(), "reference": row.reference, "tolerance": row.case.tolerance,
        "difference": _finite(row.difference), "largest_difference": _finite(row.largest),
    }  # fmt: skip
    if row.measurement is not None:
        step, rate, per_second = row.measurement.step, work.RATE, row.measurement.cells_per_second
        out |= {
            "median": step.median, "q1": step.q1, "q3": step.q3, "n": step.n, "steps_per_sample": row.steps,
            "noisy": row.measurement.noisy, "first_call": row.measurement.first_call,
            "launch": _finite(row.measurement.parts["launch"] / row.steps),
            f"{rate.work}_per_second": per_second,
            f"{rate.counted}_per_second": _finite(counted(row, work)),
            f"percent_of_{rate.roof}": _finite(percent(row, results, work)),
            "above_roof": above_roof(row, results, work),
        }  # fmt: skip
    if row.speed_up is not None:
        speed = row.speed_up
        out["speed_up"] = {"over": row.over, "ratio": speed.ratio, "low": speed.low, "high": speed.high}
    return out | dict(row.extra)


def counted(row: Row, work: ModuleType) -> float:
    """What the roof counts, a second; nan where a case's work is not what the roof is about."""
    if row.measurement is None or not row.case.plain:
        return math.nan
    return float(work.RATE.counted_per_second(row.measurement.cells_per_second, row.case.dtype))


def percent(row: Row, results: Results, work: ModuleType) -> float:
    """The row's rate in percent of its device's roof; nan where it has none."""
    return 100.0 * counted(row, work) / results.roof(work.RATE.roof, row.device, row.case.dtype)


def above_roof(row: Row, results: Results, work: ModuleType) -> str:
    """Why the row's rate is more than 100 % of its roof, in words; "" where it is not."""
    if row.measurement is None:
        return ""
    moved = counted(row, work) * row.measurement.step.median if work.RATE.roof == "copy" else math.nan
    return above(percent(row, results, work), moved, results.caches(row.device), work.RATE.saves)


def write_csv(record: Mapping[str, Any], path: Path) -> None:
    """One line a row, the unit in the column's name."""
    lines = [_flat(result) for result in record["results"]]
    columns = list(dict.fromkeys(key for line in lines for key in line))
    with whole(path) as out:
        writer = csv.writer(out)
        writer.writerow([UNITS.get(column, column) for column in columns])
        writer.writerows([line.get(column, "") for column in columns] for line in lines)


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(result)
    for key, value in (out.pop("speed_up", None) or {}).items():
        out[f"speed_up_{key}"] = value
    return out


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
