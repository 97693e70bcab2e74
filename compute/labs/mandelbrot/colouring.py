"""Conversion of smooth counts to levels: the quantity that the palette shows, and its scale. Iterates no pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.devices import Array, Device
from compute.display.camera import Camera
from compute.lab.frames import Curve, Raster, View

COLOURINGS = ("histogram", "smooth", "distance", "interior")
SCALES = ("log", "linear")
SHARE = "share of pixels that escape earlier"
LABELS = {"log": "log2 of the smooth count", "linear": "smooth count"}
BINS = 2048  # of the equalising table
BARS = 128  # of the displayed histogram; BINS is a multiple
CLOSEST, FARTHEST = -3.0, -2.0  # log2 of the distances at both ends, in pixels and in heights of the picture

ROUNDING = 1e-6  # margin in float32 logarithms that keeps the first and the last pixel inside the limits

ColourLimits = tuple[float, float]


@dataclass(frozen=True)
class ColourSettings:
    """Settings: one of COLOURINGS, one of SCALES for counts, and fixed limits of the counts or None."""

    colouring: str
    scale: str
    limits: ColourLimits | None


@dataclass(frozen=True)
class ColouredPicture:
    """The raster, the curves "histogram" and "cumulative" of the smooth counts, and their limits.

    inside: part of the pixels without a smooth count.
    """

    raster: Raster
    curves: dict[str, Curve]
    limits: ColourLimits
    inside: float


class ColourMapper:
    """Colours arrays on one device and caches the buffers."""

    def __init__(self, device: Device, camera: Camera, kernels: ModuleType) -> None:
        self._device, self._camera, self._kernels = device, camera, kernels
        self._bins = device.allocate((BINS,), np.int64)
        self._table = device.allocate((BINS + 1,), np.float32)
        self._buffers: dict[str, Array] = {}

    def picture(
        self,
        counts: Array,
        look: ColourSettings,
        view: View | None,
        pixels: tuple[int, int],
        inner: Array | None = None,
        mark: Callable[..., None] | None = None,
    ) -> ColouredPicture:
        """Colour the part of counts inside `view`, in at most `pixels`.

        counts: float32 (py, px), NaN in the set; inner: values that colour the interior, 0 to 1, or None. mark: of an
        unfinished picture, as in Camera.raster.
        """
        survey = self._camera.survey(counts)
        limits = look.limits or survey.limits()
        scale = look.scale if survey.minimum > 0 else "linear"  # far outside the set, where counts become negative
        scaled, ends, undo = self._scaled(counts, scale, limits)
        number = self._histogram(scaled, ends)
        shares = np.concatenate([[0.0], np.cumsum(number)]) / max(1, number.sum())
        curves = _curves(number, shares, undo(np.linspace(*ends, BINS + 1)))
        if look.colouring == "histogram":
            self._device.write(shares.astype(np.float32), self._table)
            drawn = self._camera.raster(scaled, view, pixels, ends, SHARE, self._equalise, mark)
            raster = replace(drawn, low=0.0, high=1.0)
        elif look.colouring == "distance":
            raster = self._distance(counts, view, pixels, mark)
        elif look.colouring == "interior" and inner is not None:
            raster = self._camera.raster(inner, view, pixels, (0.0, 1.0), "|multiplier|")
        else:
            raster = self._camera.raster(scaled, view, pixels, ends, LABELS[scale], mark=mark)
        return ColouredPicture(raster, curves, limits, survey.nonfinite / counts.size)

    def _scaled(
        self, counts: Array, scale: str, limits: ColourLimits
    ) -> tuple[Array, ColourLimits, Callable[[NDArray[Any]], NDArray[Any]]]:
        """Return the counts on the scale, the limits on it, and its inverse function."""
        if scale == "linear":
            return counts, limits, lambda values: values
        logs = self._buffer("logs", counts.shape)
        self._kernels.logarithm(counts, logs)
        low, high = (float(np.log2(max(limit, 2.0**-20))) for limit in limits)
        return logs, (low - ROUNDING, high + ROUNDING), np.exp2

    def _histogram(self, values: Array, ends: ColourLimits) -> NDArray[np.int64]:
        self._kernels.histogram(values, self._bins, *ends)
        return self._device.download(self._bins)

    def _equalise(self, means: Array, levels: Array, low: float, high: float) -> None:
        self._kernels.equalise(means, levels, low, high, self._table)

    def _distance(
        self, counts: Array, view: View | None, pixels: tuple[int, int], mark: Callable[..., None] | None
    ) -> Raster:
        """Return the raster of log2 of the distance in pixels of the picture."""
        distances, logs = self._buffer("distances", counts.shape), self._buffer("logs", counts.shape)
        self._kernels.distance(counts, distances)
        self._kernels.logarithm(distances, logs)
        ends = CLOSEST, max(0.0, FARTHEST + float(np.log2(counts.shape[0])))
        return self._camera.raster(logs, view, pixels, ends, "log2 of the distance in pixels", mark=mark)

    def _buffer(self, use: str, shape: tuple[int, ...]) -> Array:
        if use not in self._buffers or tuple(self._buffers[use].shape) != tuple(shape):
            self._buffers[use] = self._device.allocate(shape, np.float32)
        return self._buffers[use]


def _curves(number: NDArray[np.int64], shares: NDArray[Any], edges: NDArray[Any]) -> dict[str, Curve]:
    """Return the histogram in BARS bars, and the share of pixels up to each bar's end, over smooth counts."""
    step = BINS // BARS
    middles, ends = edges[step // 2 :: step][:BARS], edges[step::step]
    bars = number.reshape(BARS, step).sum(axis=1).astype(float)
    return {"histogram": Curve(middles, bars, "pixels"), "cumulative": Curve(ends, shares[step::step], "share")}
