"""A sweep as plain values that can be pickled, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from compute.bench.samples import Sample
from compute.labs.crossover.point import Point
from compute.labs.crossover.sweep import Sweep
from compute.timings import Timing

PLAIN = ("status", "reason", "difference", "first_call", "call_seconds", "handling")


def taken_down(sweep: Sweep) -> dict[str, Any]:
    """{"points": by way and n}; samples as (k, 5) float64: began, ended, steps, launch, compute."""
    return {"points": {key: _plain(point) for key, point in sweep.points.items()}}


def put_back(sweep: Sweep, snapshot: Mapping[str, Any]) -> bool:
    """Give the points of `sweep` what was taken down; False, and nothing changes, if that was of another plan."""
    if set(sweep.points) != set(snapshot["points"]):
        return False
    for key, kept in snapshot["points"].items():
        point = sweep.points[key]
        for name in PLAIN:
            setattr(point, name, kept[name])
        point.transfers = list(kept["transfers"])
        samples = [_sample(point, row) for row in kept["samples"]]
        point.samples = samples
        point.cold = _sample(point, kept["cold"][0], first_call=True) if len(kept["cold"]) else None
    return True


def _plain(point: Point) -> dict[str, Any]:
    return {
        **{name: getattr(point, name) for name in PLAIN},
        "transfers": list(point.transfers),
        "samples": _rows(point.samples),
        "cold": _rows([point.cold] if point.cold else []),
    }


def _rows(samples: list[Sample]) -> Any:
    found = [(s.began, s.ended, s.timing.steps, s.timing.launch, s.timing.compute) for s in samples]
    return np.array(found, np.float64).reshape(-1, 5)


def _sample(point: Point, row: Any, first_call: bool = False) -> Sample:
    began, ended, steps, launch, compute = (float(number) for number in row)
    way = point.way
    timing = Timing(way.backend.name, way.variant, int(steps), point.n, launch, compute, first_call=first_call)
    return Sample(began, ended, timing)
