"""Renders pictures of a field on a device: the part in view, reduced to screen size, one byte per pixel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, floor, isfinite
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.devices import Array, Device, Stopwatch
from compute.display import cpu_numpy
from compute.display.cpu_numpy import WORK_SHAPE
from compute.lab.frames import Raster, View, fit
from compute.measure.timing import note_span

HALF = np.float32(0.5)


@dataclass(frozen=True)
class Survey:
    """Minimum, maximum and sum of the finite cells of a field, and the number of cells that are not finite."""

    minimum: float
    maximum: float
    total: float
    nonfinite: int

    def limits(self, symmetric: bool = False) -> tuple[float, float]:
        """Return the limits of an automatic colour scale; (0, 1) if no cell is finite."""
        if not isfinite(self.minimum):
            return 0.0, 1.0
        if not symmetric:
            return self.minimum, self.maximum
        peak = max(abs(self.minimum), abs(self.maximum))
        return -peak, peak


@dataclass(frozen=True)
class RasterRequest:
    """The parameters of `Camera.raster`.

    mark(levels, y0, x0, factor) marks the pending pixels of an unfinished picture.
    """

    view: View | None
    pixels: tuple[int, int]
    limits: tuple[float, float]
    label: str
    paint: Callable[..., None] | None = None
    mark: Callable[..., None] | None = None

    def raster(self, levels: NDArray[np.uint8], grid: PixelGrid) -> Raster:
        """Return the picture with these levels."""
        return Raster(levels, *self.limits, extent=grid.extent, label=self.label, waiting=self.mark is not None)


@dataclass(frozen=True)
class PixelGrid:
    """Pixels over cells: `shape` pixels from cell (y0, x0), each a square of `factor` by `factor` cells."""

    y0: int
    x0: int
    factor: int
    shape: tuple[int, int]

    @classmethod
    def of(cls, request: RasterRequest, cells: tuple[int, int]) -> PixelGrid:
        """Return the finest grid for `request` on a field of (ny, nx) cells; ValueError if the view lies outside."""
        x0, y0, x1, y1 = cells_in(request.view, cells)
        factor = fit((y1 - y0, x1 - x0), request.pixels)
        return cls(y0, x0, factor, (ceil((y1 - y0) / factor), ceil((x1 - x0) / factor)))

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """(x0, y0, x1, y1) in cells; may extend past the edge of the field."""
        height, width = self.shape
        x1, y1 = self.x0 + width * self.factor, self.y0 + height * self.factor
        return float(self.x0), float(self.y0), float(x1), float(y1)


class Camera:
    """Runs the raster kernels of one backend and keeps their buffers.

    All kernels of a `batch` are launched together and timed together. Their copies to the host are queued after the
    last kernel, so that the host waits only once. `queue_survey`, `queue_raster` and `queue_window` are called within a
    batch; each returns a function to be called after the batch, which waits for the copy. `survey`, `raster` and
    `window` are batches of one.

    levels_seconds, transfer_seconds: device time of the kernels and host time of the copies since `start`.
    """

    def __init__(self, device: Device, kernels: ModuleType) -> None:
        self._device, self._kernels = device, kernels
        self._work = device.allocate(WORK_SHAPE, np.float64)
        self._buffers: dict[str, Array] = {}
        self._copies: list[_Copies] = []
        self.start()

    def start(self) -> None:
        """Begin a new frame: set both clocks to zero."""
        self._watches: list[Stopwatch] = []
        self._levels_seconds = self.transfer_seconds = 0.0

    @property
    def levels_seconds(self) -> float:
        """Device time of the kernels since `start`; waits for them."""
        self._wait_for_kernels()
        return self._levels_seconds

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Time all kernels launched in the block together, and queue their copies after them."""
        self._copies = []
        with self._stopwatch() as watch:
            yield
        self._watches.append(watch)
        if self._device.copies_at_once:
            self._wait_for_kernels()
        begin = time.perf_counter()
        for copies in self._copies:
            copies.queue()
        self._transferred(begin)

    def _stopwatch(self) -> Stopwatch:
        return self._device.stopwatch()

    def survey(self, u: Array) -> Survey:
        """Return minimum, maximum, sum and health of the whole field."""
        with self.batch():
            survey = self.queue_survey(u)
        return survey()

    def queue_survey(self, u: Array, mask: Array | None = None) -> Callable[[], Survey]:
        """As `survey`, within a batch. mask: of u's shape and type; cells where it is 1 count as not finite."""
        found = self._buffer("survey", (4,), np.float64)
        if mask is not None:
            u = self._excluded(u, mask, np.nan)
        self._kernels.survey(u, self._work, found)
        copied = self._copy(self._device, found)

        def wait() -> Survey:
            """Wait for the copy and return the numbers."""
            low, high, total, bad = (float(value) for value in copied())
            return Survey(low, high, total, int(bad))

        return wait

    def raster(
        self,
        u: Array,
        view: View | None,
        pixels: tuple[int, int],
        limits: tuple[float, float],
        label: str,
        paint: Callable[..., None] | None = None,
        mark: Callable[..., None] | None = None,
    ) -> Raster:
        """Return the part of u inside `view` (x0, y0, x1, y1 in cells), in at most `pixels` (height, width).

        Every pixel is the mean of a square block of whole cells, so the extent may extend past `view` and the edge.
        paint(means, levels, low, high) computes the levels; by default they are linear between the limits. mark: see
        RasterRequest.
        """
        with self.batch():
            raster = self.queue_raster(u, RasterRequest(view, pixels, limits, label, paint, mark))
        return raster()

    def queue_raster(self, u: Array, request: RasterRequest) -> Callable[[], Raster]:
        """As `raster`, within a batch."""
        grid = PixelGrid.of(request, u.shape)
        blocks, levels = (grid.y0, grid.x0, grid.factor), self._buffer("levels", grid.shape, np.uint8)
        if request.paint is None:
            self._kernels.block_levels(u, levels, *blocks, *request.limits)
        else:
            means = self._buffer("means", grid.shape, np.float32)
            self._kernels.reduce(u, means, *blocks)
            request.paint(means, levels, *request.limits)
        if request.mark is not None:
            request.mark(levels, *blocks)
        copied = self._copy(self._device, levels)
        return lambda: request.raster(copied(), grid)

    def queue_raster_outside(self, u: Array, mask: Array, request: RasterRequest) -> Callable[[], Raster]:
        """As `queue_raster`, but a pixel is the mean of its cells outside a mask, of u's shape and type, 0 or 1.

        The level is NOT_FINITE if more than half of a pixel's cells are in the mask. paint and mark are not called.
        """
        grid = PixelGrid.of(request, u.shape)
        blocks = grid.y0, grid.x0, grid.factor
        means, shares = (self._buffer(use, grid.shape, np.float32) for use in ("means", "shares"))
        self._kernels.reduce(self._excluded(u, mask, 0.0), means, *blocks)
        self._kernels.reduce(mask, shares, *blocks)
        copied = self._copy(self._device, means), self._copy(self._device, shares)

        def wait() -> Raster:
            """Wait for the copies and return the picture."""
            mean, share = (copy() for copy in copied)
            inside = share > HALF
            found = np.where(inside, np.float32(np.nan), mean / (1 - np.where(inside, 0, share)))
            levels = np.empty(grid.shape, np.uint8)
            cpu_numpy.levels(found, levels, *request.limits)
            return request.raster(levels, grid)

        return wait

    def _excluded(self, u: Array, mask: Array, value: float) -> Array:
        """Return a copy of u with `value` in the mask, valid until the next call."""
        out = self._buffer("excluded", u.shape, u.dtype, shared=True)
        self._kernels.exclude(u, mask, value, out)
        return out

    def window(self, u: Array, y0: int, x0: int, height: int, width: int) -> NDArray[np.float64]:
        """Return a (height, width) float64 host copy of the cells from (y0, x0) on."""
        with self.batch():
            window = self.queue_window(u, y0, x0, height, width)
        return window()

    def queue_window(self, u: Array, y0: int, x0: int, height: int, width: int) -> Callable[[], NDArray[np.float64]]:
        """As `window`, within a batch. The cells of a single row are contiguous and are copied without a kernel."""
        if height == 1 and not self._device.copies_at_once:
            row = self._copy(self._device, u[y0 : y0 + 1, x0 : x0 + width])
            return lambda: row().astype(np.float64)
        out = self._buffer("window", (height, width), np.float64)
        self._kernels.window(u, out, y0, x0)
        return self._copy(self._device, out)

    def _copy(self, device: Device, array: Array) -> Callable[[], NDArray[Any]]:
        """Queue the copy of `array` from `device` for the end of the batch; return a function that waits for it."""
        copies = next((each for each in self._copies if each.device is device), None)
        if copies is None:
            copies = _Copies(device)
            self._copies.append(copies)
        place = copies.add(array)

        def wait() -> NDArray[Any]:
            """Wait for the kernels, which are timed separately, then for the copy."""
            if not copies.here:
                self._wait_for_kernels()
                begin = time.perf_counter()
                copies.wait()
                self._transferred(begin)
            return copies.here[place]

        return wait

    def _wait_for_kernels(self) -> None:
        for watch in self._watches:
            self._levels_seconds += watch.seconds()
        self._watches.clear()

    def _transferred(self, begin: float) -> None:
        """Add the time since `begin` to the time of the copies."""
        ended = time.perf_counter()
        self.transfer_seconds += ended - begin
        note_span(ended, ended - begin, "transfer")

    def _buffer(self, use: str, shape: tuple[int, int] | tuple[int], dtype: Any, shared: bool = False) -> Array:
        """Return the buffer for this use and position in the batch; allocate a new one if the shape has changed.

        shared: whether all positions use one buffer, which no copy reads after the batch.
        """
        key = use if shared else f"{use} {self._copies[0].count if self._copies else 0}"
        kept = self._buffers.get(key)
        if kept is None or tuple(kept.shape) != tuple(shape) or kept.dtype != dtype:
            kept = self._buffers[key] = self._device.allocate(shape, dtype)
        return kept


class _Copies:
    """The copies of a batch from `device` to the host, made together. here: the arrays, after `wait`."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.here: Sequence[NDArray[Any]] = ()
        self._arrays: list[Array] = []
        self._arrive: Callable[[], Sequence[NDArray[Any]]] = tuple

    @property
    def count(self) -> int:
        """The number of queued arrays."""
        return len(self._arrays)

    def add(self, array: Array) -> int:
        """Add `array` to the copies; return its position in `here`."""
        self._arrays.append(array)
        return len(self._arrays) - 1

    def queue(self) -> None:
        """Queue the copies after all kernels launched so far."""
        self._arrive = self.device.fetch_all(self._arrays)

    def wait(self) -> None:
        """Wait for the copies."""
        self.here = self._arrive()


def cells_in(view: View | None, shape: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the whole cells (x0, y0, x1, y1) of the grid that cover the view, at least one; ValueError if outside."""
    ny, nx = shape
    if view is None:
        return 0, 0, nx, ny
    x0, y0, x1, y1 = view
    if not (all(isfinite(v) for v in view) and x0 < nx and y0 < ny and x1 > 0 and y1 > 0 and x0 < x1 and y0 < y1):
        raise ValueError(f"view must be (x0, y0, x1, y1) and overlap the grid (0, 0, {nx}, {ny}), not {view}")
    return max(floor(x0), 0), max(floor(y0), 0), min(ceil(x1), nx), min(ceil(y1), ny)
