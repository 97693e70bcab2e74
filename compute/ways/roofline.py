"""Measured times compared with the measured roofs: the limits of the device's memory and arithmetic.

A dot is one way at one n: operations per byte (of the least work of the way) against operations per second. The roof
above it is the smaller of copy bandwidth x intensity and the rate of fused multiply-adds, two operations each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from compute.devices.devices import Device, device_kind
from compute.lab.frames import Curve
from compute.measure.rates import Cache, gpu_caches, host_caches, why_above_roof
from compute.measure.roofs import copy_bandwidth, fma_rate
from compute.measure.statistics import Measurement
from compute.ways.workload import Case, Way

FLOPS_OF_FMA = 2
BESIDE = 10.0  # roofs are drawn beyond the outermost point by this factor


@dataclass(frozen=True)
class Roof:
    """Limits of a device: `bandwidth` in bytes/s (read and written), `flops` in operations/s; inf if unknown.

    l2: bytes of a GPU's cache, nan if unknown. The bench measures both rates on the device; they are never copied from
    a datasheet.
    """

    device: str
    dtype: str
    bandwidth: float
    flops: float
    l2: float = nan

    @property
    def caches(self) -> tuple[Cache, ...]:
        """The known caches of the device, smallest first."""
        return host_caches() if device_kind(self.device) == "cpu" else gpu_caches(self.l2)

    def why_above(self, percent: float, intensity: float, moved: float) -> str:
        """Return why a dot is above this roof, or "". moved: bytes per call, nan if no cache can contain them."""
        by_memory = intensity < self.ridge
        return why_above_roof(percent, moved if by_memory else nan, self.caches)

    def flops_at(self, intensity: float) -> float:
        """Return the attainable operations per second at `intensity` operations per byte."""
        return min(self.flops, self.bandwidth * intensity)

    @property
    def ridge(self) -> float:
        """Operations per byte above which arithmetic is the limit."""
        return self.flops / self.bandwidth


def roof_of(device: Device, dtype: str) -> Roof:
    """Return the device's roof, measured once per process; the first measurement takes a second or two."""
    fma = fma_rate(device, dtype)
    flops = FLOPS_OF_FMA * fma.roof if fma else float("inf")
    l2 = device.l2_bytes() if device.kind == "gpu" else nan
    return Roof(device.name, dtype, copy_bandwidth(device).roof, flops, l2)


def roof_curves(roofs: Mapping[str, Roof], intensities: Iterable[float]) -> dict[str, Curve]:
    """Return operations per second over operations per byte as "roof <kind>" for each of `roofs`, by kind of device.

    Each curve extends beyond its ridge and the measured `intensities`.
    """
    ridges = [roof.ridge for roof in roofs.values() if isfinite(roof.ridge)]
    places = [*(place for place in intensities if place > 0), *ridges] or [1.0]
    ends = min(places) / BESIDE, max(places) * BESIDE
    found = {}
    for kind, roof in roofs.items():
        x = np.array([ends[0], *([roof.ridge] if isfinite(roof.ridge) else []), ends[1]])
        y = np.array([roof.flops_at(place) for place in x])
        found[f"roof {kind}"] = Curve(x, y, f"roof of the {'CPU' if kind == 'host' else 'GPU'}")
    return found


class RoofPart(NamedTuple):
    """A part of a roof to be measured: its name for messages, and the function that measures it."""

    what: str
    measure: Callable[[], object]


def roof_parts(device: Device, dtype: str) -> tuple[RoofPart, ...]:
    """Return the measurements of `roof_of` one by one: each takes up to two seconds, once per process."""
    return (
        RoofPart("copy bandwidth", lambda: copy_bandwidth(device)),
        RoofPart("rate of multiply-adds", lambda: fma_rate(device, dtype)),
    )


@dataclass(frozen=True)
class RooflinePoint:
    """One way at one n. intensity: operations per byte; flops, moved: operations and bytes per second, at the median.

    percent: of the roof at its intensity. Above 100 if data stay in a cache or the work is less than counted; nan if
    the data cross the bus.
    """

    way: str
    n: int
    intensity: float
    flops: float
    moved: float
    percent: float
    noisy: bool


def roofline_point(way: Way, case: Case, measurement: Measurement, roof: Roof) -> RooflinePoint:
    """Return the roofline point of a measurement. Raise ValueError if the roof has another dtype."""
    if roof.dtype != case.dtype:
        raise ValueError(f"the roof is of {roof.dtype}, the measurement of {case.dtype}")
    work, seconds = case.work(way), measurement.step.median
    flops, moved = work.flops / seconds, work.moved / seconds
    by_bus = case.workload.on == "host" and way.backend.kind == "gpu"  # the rate of the bus is not measured
    percent = nan if by_bus else 100 * flops / roof.flops_at(work.intensity)
    return RooflinePoint(way.name, case.n, work.intensity, flops, moved, percent, measurement.noisy)
