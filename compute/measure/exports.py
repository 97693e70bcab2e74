"""The samples of a bench or of a live picture as files: a table, pyperf's format, the timeline of trace.py.

pyperf: `python -m pyperf stats`, `hist` and `compare_to` read the files; the format is that of pyperf 1.0 and later:
https://pyperf.readthedocs.io. A way at a case is a benchmark of one run; a value is the seconds of a step; first calls
are warm-ups. Of two benchmarks with different numbers of values pyperf 2.10 gives the ratio, but says that it cannot
tell whether it is significant; `fieldlab bench --compare` looks at quartiles.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

from compute.files import whole
from compute.measure.case import Results
from compute.measure.timing import Sample

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
PYPERF_VERSION = "1.0"
LONGEST = 300  # characters of a text for pyperf


@dataclass(frozen=True)
class Series:
    """Samples of the same work, in the order they were taken; cold ones are in no median.

    name: case and way; device: as an engine is called; what: what one time is the time of; facts: for an export's
    metadata.
    """

    name: str
    device: str
    what: str
    samples: tuple[Sample, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def warm(self) -> tuple[Sample, ...]:
        """Those that count."""
        return tuple(sample for sample in self.samples if not sample.timing.first_call)

    @property
    def cold(self) -> tuple[Sample, ...]:
        """First calls."""
        return tuple(sample for sample in self.samples if sample.timing.first_call)

    @property
    def seconds(self) -> list[float]:
        """Seconds a step of those that count: what the median and the quartiles are taken of."""
        return [sample.timing.step_seconds for sample in self.warm if isfinite(sample.timing.step_seconds)]


def series_of_bench(lab: str, results: Results, step: str) -> Iterator[Series]:
    """A series for each way of a bench that was timed."""
    for row in results.rows:
        if row.measurement is None or not row.samples:
            continue
        facts = {name: str(value) for name, value in row.case.facts().items()}
        facts |= {"backend": row.backend, "variant": row.variant, "status": row.status}
        name = " ".join(f"{lab} {row.case.title}, {row.backend} {row.variant}".split())
        yield Series(name, row.device, step, row.samples, facts)


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


def pyperf_document(series: Iterable[Series], record: Mapping[str, Any]) -> dict[str, Any]:
    """The series with what `record` says of machine, versions, date and command. ValueError if there is nothing."""
    benchmarks = [_benchmark(entry) for entry in series if _values(entry)]
    if not benchmarks:
        raise ValueError("nothing was timed, so there is nothing to save for pyperf")
    return {"version": PYPERF_VERSION, "benchmarks": benchmarks, "metadata": _metadata(record)}


def _benchmark(series: Series) -> dict[str, Any]:
    warmups = [
        [max(1, sample.timing.steps), sample.timing.step_seconds]
        for sample in series.cold if isfinite(sample.timing.step_seconds)
    ]  # fmt: skip
    run: dict[str, Any] = {"values": _values(series), "metadata": _run(series)}
    if warmups:
        run["warmups"] = warmups
    about = {"name": series.name, "device": series.device, "timed": f"one {series.what}", **series.facts}
    return {"metadata": _texts(about), "runs": [run]}


def _values(series: Series) -> list[float]:
    """Seconds a step; a live frame in which nothing was left to compute took 0, which pyperf does not take."""
    return [seconds for seconds in series.seconds if seconds > 0]


def _run(series: Series) -> dict[str, Any]:
    """Date and duration of the samples, and the steps in one if they are the same in all."""
    began, ended = min(s.began for s in series.samples), max(s.ended for s in series.samples)
    out: dict[str, Any] = {}
    if isfinite(began) and isfinite(ended):
        date = datetime.now(UTC) + timedelta(seconds=began - perf_counter())
        out = {"date": f"{date:%Y-%m-%d %H:%M:%S.%f}", "duration": ended - began}
    steps = {sample.timing.steps for sample in series.warm}
    return out | ({"loops": steps.pop()} if len(steps) == 1 else {})


def _metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """What is common to all: the names that pyperf itself uses where it has one."""
    machine, versions = record["machine"], dict(record["versions"])
    gpus = ", ".join(gpu["name"] for gpu in machine.get("gpus", ()))
    python = versions.pop("python", "")
    about = {
        "unit": "second", "tool": "fieldlab", "cpu_model_name": machine["cpu"], "platform": machine["system"],
        "python_version": python, "gpu": gpus, "driver": machine["driver"], "commit": record["commit"],
        "command": record["command"], "recorded": record["date"], "included": record["parameters"].get("included", ""),
    }  # fmt: skip
    return _texts(about | {f"{name}_version": text for name, text in versions.items()}) | {
        "cpu_count": int(machine["threads"])
    }


def _texts(about: Mapping[str, Any]) -> dict[str, Any]:
    """As metadata may be: texts of one line, none empty."""
    lines = {name: " ".join(str(value).split())[:LONGEST] for name, value in about.items() if value is not None}
    return {name: line for name, line in lines.items() if line}
