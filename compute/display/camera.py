"""Takes pictures of a field that lies on a device: the part in view, reduced to screen size, one byte a pixel."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, isfinite
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices import Array, Device
from compute.display.cpu_numpy import WORK_SHAPE
from compute.frames import Raster, fit
from compute.measure.timing import note_span

View = tuple[float, float, float, float]


@dataclass(frozen=True)
class Survey:
    """Minimum, maximum and sum of the finite cells of a field, and the number of cells that are not finite."""

    minimum: float
    maximum: float
    total: float
    nonfinite: int

    def limits(self, symmetric: bool = False) -> tuple[float, float]:
        """What an automatic colour scale spans; (0, 1) when no cell is finite."""
        if not isfinite(self.minimum):
            return 0.0, 1.0
        if not symmetric:
            return self.minimum, self.maximum
        peak = max(abs(self.minimum), abs(self.maximum))
        return -peak, peak


class Camera:
    """Runs the raster kernels of one backend and keeps their buffers.

    levels_seconds, transfer_seconds: device time of the kernels and host time of the copies since `start`.
    """

    def __init__(self, device: Device, kernels: ModuleType) -> None:
        self._device, self._kernels = device, kernels
        self._work = device.allocate(WORK_SHAPE, np.float64)
        self._survey = device.allocate((4,), np.float64)
        self._buffers: dict[str, Array] = {}
        self.start()

    def start(self) -> None:
        """A new frame: both clocks to zero."""
        self.levels_seconds = self.transfer_seconds = 0.0

    def survey(self, u: Array) -> Survey:
        """Minimum, maximum, sum and health of the whole field."""
        with self._device.stopwatch() as watch:
            self._kernels.survey(u, self._work, self._survey)
        self.levels_seconds += watch.seconds()
        low, high, total, bad = (float(value) for value in self._download(self._survey))
        return Survey(low, high, total, int(bad))

    def raster(
        self,
        u: Array,
        view: View | None,
        pixels: tuple[int, int],
        limits: tuple[float, float],
        label: str,
        paint: Callable[..., None] | None = None,
    ) -> Raster:
        """The part of u inside `view` (x0, y0, x1, y1 in cells), in at most `pixels` (height, width).

        Every pixel is the mean of a square block of whole cells, so the extent may reach past `view` and the edge.
        paint(means, levels, low, high) makes the levels; by default they are even between the limits.
        """
        x0, y0, x1, y1 = cells_in(view, u.shape)
        factor = fit((y1 - y0, x1 - x0), pixels)
        shape = ceil((y1 - y0) / factor), ceil((x1 - x0) / factor)
        means, levels = self._buffer("means", shape, np.float32), self._buffer("levels", shape, np.uint8)
        with self._device.stopwatch() as watch:
            self._kernels.reduce(u, means, y0, x0, factor)
            (paint or self._kernels.levels)(means, levels, *limits)
        self.levels_seconds += watch.seconds()
        extent = (float(x0), float(y0), float(x0 + shape[1] * factor), float(y0 + shape[0] * factor))
        return Raster(self._download(levels), *limits, extent=extent, label=label)

    def window(self, u: Array, y0: int, x0: int, height: int, width: int) -> NDArray[np.float64]:
        """(height, width) float64 host copy of the cells from (y0, x0) on."""
        out = self._buffer("window", (height, width), np.float64)
        self._kernels.window(u, out, y0, x0)
        return self._download(out)

    def _download(self, array: Array) -> NDArray[Any]:
        begin = time.perf_counter()
        host = self._device.download(array)
        ended = time.perf_counter()
        self.transfer_seconds += ended - begin
        note_span(ended, ended - begin, "transfer")
        return host

    def _buffer(self, use: str, shape: tuple[int, int], dtype: Any) -> Array:
        """The buffer of that use; a new one when the shape is new."""
        key = f"{use} {shape}" if use == "window" else use
        if key not in self._buffers or tuple(self._buffers[key].shape) != shape:
            self._buffers[key] = self._device.allocate(shape, dtype)
        return self._buffers[key]


def cells_in(view: View | None, shape: tuple[int, int]) -> tuple[int, int, int, int]:
    """Whole cells (x0, y0, x1, y1) of the grid that cover the view; at least one, ValueError if outside."""
    ny, nx = shape
    if view is None:
        return 0, 0, nx, ny
    x0, y0, x1, y1 = view
    if not (all(isfinite(v) for v in view) and x0 < nx and y0 < ny and x1 > 0 and y1 > 0 and x0 < x1 and y0 < y1):
        raise ValueError(f"view must be (x0, y0, x1, y1) and overlap the grid (0, 0, {nx}, {ny}), not {view}")
    return max(floor(x0), 0), max(floor(y0), 0), min(ceil(x1), nx), min(ceil(y1), ny)
