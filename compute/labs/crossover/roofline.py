"""Measured times against the measured roofs: what memory and arithmetic of the device allow.

A dot is one way at one n: operations a byte (of the work that the way does, at least) against operations a second. The
roof above it is the smaller of copy bandwidth x intensity and the rate of fused multiply-adds, two operations each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from compute.devices import Device
from compute.frames import Curve
from compute.labs.crossover.workload import Case, Way
from compute.measure.rates import Cache, gpu_caches, host_caches, why_above_roof
from compute.measure.roofs import copy_bandwidth, fma_rate
from compute.measure.statistics import Measurement

FLOPS_OF_FMA = 2
BESIDE = 10.0  # times farther than the outermost point: how far roofs are drawn


@dataclass(frozen=True)
class Roof:
    """What a device can do at most: `bandwidth` in bytes/s (read and written), `flops` in operations/s; inf if unknown.

    l2: bytes of a GPU's cache, nan if unknown. Both rates are measured on the device by the bench, never taken from a
    datasheet.
    """

    device: str
    dtype: str
    bandwidth: float
    flops: float
    l2: float = nan

    @property
    def caches(self) -> tuple[Cache, ...]:
        """Of the device, smallest first, as far as they are known."""
        return host_caches() if self.device == "host" else gpu_caches(self.l2)

    def why_above(self, percent: float, intensity: float, moved: float) -> str:
        """Why a dot lies above this roof; "" if it does not. moved: bytes a call, nan if no cache may hold them."""
        by_memory = intensity < self.ridge
        return why_above_roof(percent, moved if by_memory else nan, self.caches)

    def flops_at(self, intensity: float) -> float:
        """Operations a second that are possible with `intensity` operations a byte."""
        return min(self.flops, self.bandwidth * intensity)

    @property
    def ridge(self) -> float:
        """Operations a byte from which on arithmetic is the limit."""
        return self.flops / self.bandwidth


def roof_of(device: Device, dtype: str) -> Roof:
    """The device's roof as far as this process has measured it; if not at all, it takes a second or two now."""
    fma = fma_rate(device, dtype)
    flops = FLOPS_OF_FMA * fma.roof if fma else float("inf")
    l2 = float(device.describe().get("l2_bytes", nan)) if device.kind == "gpu" else nan
    return Roof(device.name, dtype, copy_bandwidth(device).roof, flops, l2)


def roof_curves(roofs: Mapping[str, Roof], intensities: Iterable[float]) -> dict[str, Curve]:
    """Operations a second over operations a byte, "roof <kind>" for each of `roofs`, which are by kind of device.

    Each reaches beyond its ridge and the `intensities` that were measured.
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
    """A part of a roof to be measured: what, in words, and how."""

    what: str
    measure: Callable[[], object]


def roof_parts(device: Device, dtype: str) -> tuple[RoofPart, ...]:
    """What `roof_of` measures, piece by piece: each takes up to two seconds, once a process."""
    return (
        RoofPart("copy bandwidth", lambda: copy_bandwidth(device)),
        RoofPart("rate of multiply-adds", lambda: fma_rate(device, dtype)),
    )


@dataclass(frozen=True)
class RooflinePoint:
    """One way at one n. intensity: operations a byte; flops, moved: operations and bytes a second; both at the median.

    percent: of the roof at its intensity. Above 100 where data stay in a cache or the work is less than was counted;
    nan where they come over the bus.
    """

    way: str
    n: int
    intensity: float
    flops: float
    moved: float
    percent: float
    noisy: bool


def roofline_point(way: Way, case: Case, measurement: Measurement, roof: Roof) -> RooflinePoint:
    """Where a measurement lies. ValueError if the roof is of another dtype."""
    if roof.dtype != case.dtype:
        raise ValueError(f"the roof is of {roof.dtype}, the measurement of {case.dtype}")
    work, seconds = case.work(way), measurement.step.median
    flops, moved = work.flops / seconds, work.moved / seconds
    by_bus = case.workload.on == "host" and way.backend.device != "host"  # whose rate is not measured
    percent = nan if by_bus else 100 * flops / roof.flops_at(work.intensity)
    return RooflinePoint(way.name, case.n, work.intensity, flops, moved, percent, measurement.noisy)
