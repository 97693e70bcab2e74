"""Samples as a timeline in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. A process is a device, a
thread of it is a row: samples, launch, compute, copy, colour, delivery. All moments were read from the clock when the
sample was taken. A part's length on a GPU is that of its CUDA events; it ends when the host's wait for it returned, or
when the next part on that row began, whichever was first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, TextIO

from compute.measure.exports import Series
from compute.measure.timing import Sample

ROWS = {"launch": "launch", "compute": "compute", "transfer": "copy", "levels": "colour", "delivery": "delivery"}
SAMPLES = "samples"
ORDER = (SAMPLES, *ROWS.values())
SIDE_BY_SIDE = (SAMPLES, "delivery")  # several frames may be under way: a row for each


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
    """The timeline. `record` gives machine, versions and command. ValueError if there is nothing to show."""
    slices = [piece for entry in series for piece in _slices(entry)]
    if not slices:
        raise ValueError("nothing was timed, so there is no timeline to save")
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
    """As JSON, one event a line."""
    head = {name: value for name, value in timeline.items() if name != "traceEvents"}
    out.write(json.dumps(head, ensure_ascii=False, allow_nan=False)[:-1] + ',\n"traceEvents": [\n')
    out.writelines(
        (",\n" if number else "") + json.dumps(event, ensure_ascii=False, allow_nan=False)
        for number, event in enumerate(timeline["traceEvents"])
    )
    out.write("\n]}\n")


def _slices(series: Series) -> Iterator[Slice]:
    """The samples of a way, and their parts where these were noted."""
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
    """The row as one or several, in each of which nothing overlaps, in the order of time."""
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
    """Of each its length is kept; one that seems to end after the next began ended then."""
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
    """A complete event; microseconds, to the nanosecond, both ends rounded so that neighbours do not overlap."""
    began, ended = (round(1e9 * (moment - origin)) for moment in (piece.began, piece.ended))
    where = {"ph": "X", "pid": pid, "tid": tid, "ts": began / 1000, "dur": (ended - began) / 1000}
    return {"name": piece.name, "cat": piece.row, **where, "args": dict(piece.facts)}
