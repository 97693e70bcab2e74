"""Pictures of a grid that lies on several GPUs: each reduces its own rows, the host puts them together.

A pixel whose block of cells lies on two GPUs is made on the first of them, from a copy of the block's rows. So pictures
have the bits that one GPU gives. Only the sum of all cells is added up in another order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices import Array
from compute.display import gpu as kernels
from compute.display.camera import Camera, Survey, View, cells_in
from compute.display.cpu_numpy import WORK_SHAPE
from compute.frames import Raster, fit
from compute.labs.diffusion.gpu_slab_device import SlabArray, SlabDevice, SlabStopwatch
from compute.labs.diffusion.slabs import Layout
from compute.measure.timing import note_span


class SlabCamera(Camera):
    """What a Camera does, of a SlabArray."""

    def __init__(self, device: SlabDevice) -> None:
        self._slab_device = device
        self._work = [(gpu.allocate(WORK_SHAPE, np.float64), gpu.allocate((4,), np.float64)) for gpu in device.gpus]
        self.start()

    def survey(self, u: SlabArray) -> Survey:
        """Minimum, maximum, sum and health of the whole field."""
        with self._timed():
            for number, (work, found) in enumerate(self._work):
                kernels.survey(u.own(number), work, found)
        each = [self._fetch(number, found) for number, (_, found) in enumerate(self._work)]
        low, high, total, bad = np.transpose(each)
        return Survey(float(low.min()), float(high.max()), float(total.sum()), int(bad.sum()))

    def raster(
        self,
        u: SlabArray,
        view: View | None,
        pixels: tuple[int, int],
        limits: tuple[float, float],
        label: str,
        paint: Callable[..., None] | None = None,
    ) -> Raster:
        """The part of u inside `view`, as a Camera has it."""
        x0, y0, x1, y1 = cells_in(view, u.shape)
        factor = fit((y1 - y0, x1 - x0), pixels)
        height, width = ceil((y1 - y0) / factor), ceil((x1 - x0) / factor)
        made: list[tuple[int, Array]] = []
        with self._timed():
            for number, first, last in _pixel_rows(u.layout, y0, factor, height):
                gpu = self._slab_device.gpus[number]
                means = gpu.allocate((last - first, width), np.float32)
                levels = gpu.allocate((last - first, width), np.uint8)
                self._reduce(u, number, means, y0 + first * factor, x0, factor)
                (paint or kernels.levels)(means, levels, *limits)
                made.append((number, levels))
        extent = (float(x0), float(y0), float(x0 + width * factor), float(y0 + height * factor))
        pieces = [self._fetch(number, levels) for number, levels in made]
        return Raster(np.concatenate(pieces), *limits, extent=extent, label=label)

    def window(self, u: SlabArray, y0: int, x0: int, height: int, width: int) -> NDArray[np.float64]:
        """(height, width) float64 host copy of the cells from (y0, x0) on."""
        pieces = []
        for number, first, last in u.layout.pieces(y0, y0 + height):
            out = self._slab_device.gpus[number].allocate((last - first, width), np.float64)
            kernels.window(u.own(number), out, first - u.layout.slabs[number].first, x0)
            pieces.append(self._fetch(number, out))
        return np.concatenate(pieces)

    def _reduce(self, u: SlabArray, number: int, means: Array, y0: int, x0: int, factor: int) -> None:
        """Means of blocks from row y0 on, which begin on slab `number`; a single row of them may reach beyond it."""
        slab, end = u.layout.slabs[number], min(y0 + len(means) * factor, u.shape[0])
        if end <= slab.last:
            kernels.reduce(u.own(number), means, y0 - slab.first, x0, factor)
        else:
            kernels.reduce(self._gathered(u, number, y0, end), means, 0, x0, factor)

    def _gathered(self, u: SlabArray, number: int, first: int, last: int) -> Array:
        """A copy of rows `first` to `last` of the grid on the GPU of slab `number`."""
        rows = self._slab_device.gpus[number].allocate((last - first, u.shape[1]), u.dtype)
        line = u.shape[1] * u.dtype.itemsize
        for other, low, high in u.layout.pieces(first, last):
            start = u.parts[other].data.ptr + u.layout.slabs[other].place(low) * line
            target = rows.data.ptr + (low - first) * line
            self._slab_device.streams.bring(other, start, number, target, (high - low) * line)
        return rows

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Count the block as making levels: the time of the GPU that takes longest."""
        watches = [SlabStopwatch(gpu.index) for gpu in self._slab_device.gpus]
        with ExitStack() as stack:
            for watch in watches:
                stack.enter_context(watch)
            yield
        self.levels_seconds += max(watch.seconds() for watch in watches)

    def _fetch(self, number: int, array: Array) -> NDArray[Any]:
        """A copy on the host of what lies on the GPU of slab `number`."""
        begin = time.perf_counter()
        host = self._slab_device.gpus[number].download(array)
        ended = time.perf_counter()
        self.transfer_seconds += ended - begin
        note_span(ended, ended - begin, "transfer")
        return host


def _pixel_rows(layout: Layout, y0: int, factor: int, height: int) -> Iterator[tuple[int, int, int]]:
    """Yield (slab, first, last) of rows of pixels, each of `factor` rows of cells from y0 on, in their order.

    Those whose cells lie on one slab come together; one that reaches beyond the slab on which it begins comes alone.
    """
    for number, slab in enumerate(layout.slabs):
        first = max(0, -(-(slab.first - y0) // factor))
        last = min(height, -(-(slab.last - y0) // factor))
        within = last if slab.last == layout.ny else min(last, (slab.last - y0) // factor)
        yield from ((number, low, high) for low, high in ((first, within), (max(first, within), last)) if low < high)


def disc(u: SlabArray, y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u whose centre lies within `radius` cells of (y, x) to `value`, as compute.display.gpu does."""
    for number, slab in enumerate(u.layout.slabs):
        kernels.disc(u.own(number), y - slab.first, x, radius, value)
    u.wrapped = None
