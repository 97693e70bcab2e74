"""The samples of a bench or of a live picture as files: a table, pyperf's format, the timeline of a browser.

pyperf: `python -m pyperf stats`, `hist` and `compare_to` read the files; the format is that of pyperf 1.0 and later:
https://pyperf.readthedocs.io. A way at a case is a benchmark of one run; a value is the seconds of a step; first calls
are warm-ups. For two benchmarks with different numbers of values pyperf 2.10 prints the ratio, but reports that it
cannot decide its significance; `fieldlab bench --compare` compares quartiles.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from compute.files.files import whole
from compute.measure.case import Results
from compute.measure.timing import Sample

UNITS = {
    "median": "median_s_per_step",
    "q1": "q1_s_per_step",
    "q3": "q3_s_per_step",
    "median_low": "median_low_s_per_step",
    "median_high": "median_high_s_per_step",
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
    """Samples of the same work, in the order they were taken; the median excludes cold ones.

    name: case and way; device: name as used by the engines; what: the unit of work of one time ("step"); facts: for the
    metadata of an export.
    """

    name: str
    device: str
    what: str
    samples: tuple[Sample, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def warm(self) -> tuple[Sample, ...]:
        """The samples after the first calls."""
        return tuple(sample for sample in self.samples if not sample.timing.first_call)

    @property
    def cold(self) -> tuple[Sample, ...]:
        """The first calls."""
        return tuple(sample for sample in self.samples if sample.timing.first_call)

    @property
    def seconds(self) -> list[float]:
        """Finite seconds a step of the warm samples, from which median and quartiles are computed."""
        return [sample.timing.step_seconds for sample in self.warm if isfinite(sample.timing.step_seconds)]


def series_of_bench(lab: str, results: Results, step: str) -> Iterator[Series]:
    """Yield a series for each way of a bench that was timed."""
    for row in results.rows:
        if row.measurement is None or not row.samples:
            continue
        facts = {name: str(value) for name, value in row.case.facts().items()}
        facts |= {"backend": row.backend, "variant": row.variant, "status": row.status}
        name = " ".join(f"{lab} {row.case.title}, {row.backend} {row.variant}".split())
        yield Series(name, row.device, step, row.samples, facts)


def write_csv(record: Mapping[str, Any], path: Path) -> None:
    """Write one line a row to `path`, units in the column names."""
    lines = [_flat(result) for result in record["results"]]
    columns = list(dict.fromkeys(key for line in lines for key in line))
    with whole(path) as out:
        writer = csv.writer(out)
        writer.writerow([UNITS.get(column, column) for column in columns])
        writer.writerows([line.get(column, "") for column in columns] for line in lines)


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(result)
    for key, value in (out.pop("speed_up", None) or {}).items():
        out[f"speed_up_{key}"] = "" if value is None else value
    return out


def pyperf_document(series: Iterable[Series], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the series in pyperf's format, with the metadata of `record`; ValueError if all series are empty."""
    benchmarks = [_benchmark(entry) for entry in series if _values(entry)]
    if not benchmarks:
        raise ValueError("no timing was made, so pyperf has nothing to read")
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
    """Return the positive seconds a step; a live frame that had no step left took 0, which pyperf rejects."""
    return [seconds for seconds in series.seconds if seconds > 0]


def _run(series: Series) -> dict[str, Any]:
    """Return date and duration of the samples, and the steps of a sample if all have the same number."""
    began, ended = min(s.began for s in series.samples), max(s.ended for s in series.samples)
    out: dict[str, Any] = {}
    if isfinite(began) and isfinite(ended):
        date = datetime.now(UTC) + timedelta(seconds=began - perf_counter())
        out = {"date": f"{date:%Y-%m-%d %H:%M:%S.%f}", "duration": ended - began}
    steps = {sample.timing.steps for sample in series.warm}
    return out | ({"loops": steps.pop()} if len(steps) == 1 else {})


def _metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata common to all benchmarks, under pyperf's own names where it defines them."""
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
    """Return `about` as valid metadata texts: single lines, without empty ones."""
    lines = {name: " ".join(str(value).split())[:LONGEST] for name, value in about.items() if value is not None}
    return {name: line for name, line in lines.items() if line}


# -- the timeline
#
# The Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open:
# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. A process is a device, a thread of it
# is a row: samples, launch, compute, copy, colour, delivery. All moments were read from the clock when the sample was
# taken. A part's length on a GPU is that of its CUDA events; it ends when the host's wait for it returned, or when the
# next part on that row began, whichever was first.

ROWS = {"launch": "launch", "compute": "compute", "transfer": "copy", "levels": "colour", "delivery": "delivery"}
SAMPLES = "samples"
ORDER = (SAMPLES, *ROWS.values())
SIDE_BY_SIDE = (SAMPLES, "delivery")  # several frames may be in flight: a row for each


@dataclass(frozen=True)
class Slice:
    """One bar of the timeline; moments by perf_counter, in seconds."""

    device: str
    row: str
    name: str
    began: float
    ended: float
    facts: Mapping[str, Any] = field(default_factory=dict)


def trace_document(series: Iterable[Series], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the timeline, with machine, versions and command of `record`; ValueError if all series are empty."""
    slices = [piece for entry in series for piece in _slices(entry)]
    if not slices:
        raise ValueError("no timing was made, so there is no timeline to save")
    origin = min(piece.began for piece in slices)
    rows: dict[tuple[str, str], list[Slice]] = defaultdict(list)
    for piece in slices:
        rows[piece.device, piece.row].append(piece)
    lanes = [lane for (device, row), pieces in rows.items() for lane in _lanes(device, row, pieces)]
    names = {name: number for number, name in enumerate(sorted({device for device, _ in rows}), 1)}
    lanes.sort(key=lambda lane: (names[lane[0]], ORDER.index(lane[1].split()[0]), lane[1]))
    events = list(_names(names, lanes))
    for tid, (device, _, pieces) in enumerate(lanes, 1):
        events += [_event(piece, names[device], tid, origin) for piece in pieces]
    about = {name: record[name] for name in ("lab", "date", "command", "commit", "machine", "versions")}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {**about, "about": " ".join(__doc__.split())}}


def write_trace(timeline: Mapping[str, Any], out: TextIO) -> None:
    """Write the timeline as JSON, one event a line."""
    head = {name: value for name, value in timeline.items() if name != "traceEvents"}
    out.write(json.dumps(head, ensure_ascii=False, allow_nan=False)[:-1] + ',\n"traceEvents": [\n')
    out.writelines(
        (",\n" if number else "") + json.dumps(event, ensure_ascii=False, allow_nan=False)
        for number, event in enumerate(timeline["traceEvents"])
    )
    out.write("\n]}\n")


def _slices(series: Series) -> Iterator[Slice]:
    """Yield the samples of a way, and their parts if these were recorded."""
    for number, sample in enumerate(series.samples):
        if isfinite(sample.began) and sample.ended > sample.began:
            yield Slice(series.device, SAMPLES, series.name, sample.began, sample.ended, _facts(sample, number))
        for span in sample.spans:
            if isfinite(span.ended) and span.seconds > 0:
                yield Slice(series.device, ROWS[span.part], series.name, span.began, span.ended, {"sample": number})


def _facts(sample: Sample, number: int) -> dict[str, Any]:
    timing = sample.timing
    facts: dict[str, Any] = {"sample": number, "steps": timing.steps, "first_call": timing.first_call}
    if isfinite(timing.step_seconds):
        facts["us_a_step"] = 1e6 * timing.step_seconds
    return facts | ({"parts_left_out": sample.left_out} if sample.left_out else {})


def _lanes(device: str, row: str, pieces: Sequence[Slice]) -> Iterator[tuple[str, str, list[Slice]]]:
    """Yield the row as one or more lanes without overlaps, each sorted by time."""
    if row not in SIDE_BY_SIDE:
        yield device, row, _in_turn(pieces)
        return
    lanes: list[list[Slice]] = []
    for piece in sorted(pieces, key=lambda piece: piece.began):
        free = next((lane for lane in lanes if lane[-1].ended <= piece.began), None)
        if free is None:
            lanes.append(free := [])
        free.append(piece)
    for number, lane in enumerate(lanes, 1):
        yield device, row if number == 1 else f"{row} {number}", lane


def _in_turn(pieces: Sequence[Slice]) -> list[Slice]:
    """Return the slices in order of time with unchanged lengths; each one that overlaps the next is moved before it."""
    out: list[Slice] = []
    next_began = float("inf")
    for piece in sorted(pieces, key=lambda piece: (piece.ended, piece.began), reverse=True):
        ended = min(piece.ended, next_began)
        next_began = ended - (piece.ended - piece.began)
        out.append(replace(piece, began=next_began, ended=ended))
    return out[::-1]


def _names(devices: Mapping[str, int], lanes: Sequence[tuple[str, str, list[Slice]]]) -> Iterator[dict[str, Any]]:
    for device, pid in devices.items():
        yield {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": device}}
    for tid, (device, row, _) in enumerate(lanes, 1):
        where = {"ph": "M", "pid": devices[device], "tid": tid}
        yield {"name": "thread_name", **where, "args": {"name": row}}
        yield {"name": "thread_sort_index", **where, "args": {"sort_index": tid}}


def _event(piece: Slice, pid: int, tid: int, origin: float) -> dict[str, Any]:
    """Return a complete event; microseconds to the nanosecond, both ends rounded so that neighbours do not overlap."""
    began, ended = (round(1e9 * (moment - origin)) for moment in (piece.began, piece.ended))
    where = {"ph": "X", "pid": pid, "tid": tid, "ts": began / 1000, "dur": (ended - began) / 1000}
    return {"name": piece.name, "cat": piece.row, **where, "args": dict(piece.facts)}
