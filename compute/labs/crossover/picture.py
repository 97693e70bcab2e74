"""Convert a frame of a sweep to ways and roofs, with `ways_of` and `roofs_of`; frame.py creates the frame."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import BACKENDS
from compute.lab.frames import Frame
from compute.measure.statistics import LAUNCH_BOUND, LOW_CLOCK, Spread
from compute.ways.catalogue import workload
from compute.ways.plan import STATUSES, WORST, ShownStatus
from compute.ways.recorded import RecordedCurve, RecordedParts
from compute.ways.roofline import Roof

QUANTITIES = (
    *("status", "difference", "first_call", "median", "q1", "q3", "samples"),
    *("launch", "transfer", "clock_rate", "intensity", "flops", "moved", "percent"),
)


@dataclass(frozen=True)
class ShownPoint:
    """One way at one n. step: seconds per call, None unless measured and correct; other times in seconds.

    launch: until the call returned (0 on the host); transfer: both directions, nan unless requested; clock_rate:
    clock of a GPU over its highest one; intensity: operations per byte; flops, moved: operations and bytes per second;
    percent: of the roof at that intensity; nan if unknown.
    """

    n: int
    status: ShownStatus
    reason: str
    difference: float
    first_call: float
    step: Spread | None
    launch: float = nan
    transfer: float = nan
    clock_rate: float = nan
    intensity: float = nan
    flops: float = nan
    moved: float = nan
    percent: float = nan

    @property
    def noisy(self) -> bool:
        """Whether its time scatters too much to be quoted without a remark."""
        return self.status == "noisy"

    @property
    def launch_bound(self) -> bool:
        """Whether launching takes as long as the work, so that the time measures the launches."""
        return self.step is not None and self.launch >= LAUNCH_BOUND * self.step.median

    @property
    def low_clock(self) -> bool:
        """Whether a GPU ran far below its highest clock, so that it may be faster under continuous load."""
        return self.clock_rate < LOW_CLOCK


@dataclass(frozen=True)
class ShownWay:
    """One way of a sweep. device: as of its Backend."""

    way: str
    label: str
    device: str
    points: tuple[ShownPoint, ...]

    @property
    def status(self) -> ShownStatus:
        """The overall status: "disagrees" if any n does, else "noisy" or "measured" if any has a time, else why not."""
        found = {point.status for point in self.points}
        return next(status for status in WORST if status in found)

    @property
    def reason(self) -> str:
        """Why the way has no time, at the smallest n with a reason; empty without any."""
        return next((point.reason for point in self.points if point.reason), "")

    def series(self, transfer: bool = False) -> dict[int, Spread]:
        """Return seconds per call by n. transfer: add the median transfer, and drop n for which it is unknown."""
        found = {}
        for point in self.points:
            extra = point.transfer if transfer else 0.0
            if point.step and isfinite(extra):
                step = point.step
                found[point.n] = Spread(step.median + extra, step.q1 + extra, step.q3 + extra, step.n)
        return found


def recorded_way(curve: RecordedCurve) -> ShownWay:
    """Return a recorded curve as a way of a frame."""
    points = []
    for n, step in curve.series.items():
        moved, flops = curve.rates.get(n, (nan, nan))
        status: ShownStatus = "noisy" if n in curve.noisy else "measured"
        part = curve.parts.get(n, RecordedParts())
        points.append(
            ShownPoint(
                n, status, "", nan, nan, step, launch=part.launch, transfer=part.transfer,
                clock_rate=part.clock_rate, intensity=part.intensity, flops=flops, moved=moved, percent=part.percent,
            )
        )  # fmt: skip
    device = workload(curve.workload).way(curve.way).backend.device
    return ShownWay(curve.way, curve.label, device, tuple(points))


def ways_of(frame: Frame) -> dict[str, ShownWay]:
    """Return the ways of a frame by name."""
    of = workload(frame.notes["workload"])
    names = [name.removesuffix(" status") for name in frame.curves if name.endswith(" status")]
    return {
        name: ShownWay(name, of.way(name).label, of.way(name).backend.device, _points(frame, name)) for name in names
    }


def times_of(frame: Frame) -> dict[str, NDArray[Any]]:
    """Return a frame's times: "<way>.n" int64, and "<way>.median", ".q1" and ".q3" float64 in seconds per call."""
    found: dict[str, NDArray[Any]] = {}
    for way, line in ways_of(frame).items():
        if series := line.series():
            found[f"{way}.n"] = np.array(list(series), np.int64)
            median, q1, q3 = np.array([(spread.median, spread.q1, spread.q3) for spread in series.values()]).T
            found |= {f"{way}.median": median, f"{way}.q1": q1, f"{way}.q3": q3}
    return found


def settings_of(frame: Frame) -> dict[str, Any]:
    """Return the workload's settings that a frame was measured with."""
    found: dict[str, Any] = json.loads(frame.notes["settings"])
    return found


def roofs_of(frame: Frame) -> dict[str, Roof]:
    """Return the roofs in a frame by kind of device, "host", "cuda" …"""
    found = {}
    for kind in dict.fromkeys(one.device for one in BACKENDS):
        if f"roof {kind} bandwidth" in frame.facts:
            bandwidth, flops = (frame.facts[f"roof {kind} {what}"] for what in ("bandwidth", "flops"))
            l2 = frame.facts.get(f"roof {kind} l2", nan)
            found[kind] = Roof(kind, frame.notes["dtype"], bandwidth, flops, l2)
    return found


def why_above_roof(frame: Frame, line: ShownWay, spot: ShownPoint) -> str:
    """Return as text why a way is faster than its device's roof at one n; "" if it is not."""
    roof = roofs_of(frame).get(line.device)
    if roof is None or spot.step is None:
        return ""
    in_caches = frame.facts["evict"] == 0  # between two calls
    return roof.why_above(spot.percent, spot.intensity, spot.moved * spot.step.median if in_caches else nan)


def trap_result(frame: Frame) -> dict[str, Any] | None:
    """Return the last trap's {"name", "wrong", "right"}, each numbers by key or a sentence; None before the first."""
    return json.loads(frame.notes["trap"]) if "trap" in frame.notes else None


def _status(number: float, step: Spread | None) -> ShownStatus:
    return "noisy" if step and step.noisy else STATUSES[int(number)]


def _points(frame: Frame, name: str) -> tuple[ShownPoint, ...]:
    n = frame.curves[f"{name} status"].x
    of = {quantity: frame.curves[f"{name} {quantity}"].y for quantity in QUANTITIES}
    found = []
    for i, size in enumerate(int(size) for size in n):
        at = {quantity: float(values[i]) for quantity, values in of.items()}
        step = Spread(at["median"], at["q1"], at["q3"], int(at["samples"])) if isfinite(at["median"]) else None
        rest = {q: at[q] for q in ("launch", "transfer", "clock_rate", "intensity", "flops", "moved", "percent")}
        reason, status = frame.notes.get(f"{name} {size}", ""), _status(at["status"], step)
        found.append(ShownPoint(size, status, reason, at["difference"], at["first_call"], step, **rest))
    return tuple(found)
