"""Pictures of a grid that lies on several GPUs: each reduces its own rows, the host puts them together.

A pixel whose block of cells lies on two GPUs is made on the first of them, from a copy of the block's rows. So pictures
have the bits that one GPU gives. Only the sum of all cells is added up in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from compute.devices import Array, Stopwatch
from compute.display import gpu as kernels
from compute.display.camera import Camera, PixelGrid, RasterRequest, Survey
from compute.display.cpu_numpy import WORK_SHAPE
from compute.frames import Raster
from compute.labs.diffusion.gpu_slab_device import SlabArray, SlabDevice, SlabStopwatch
from compute.labs.diffusion.slabs import Layout


class SlabCamera(Camera):
    """What a Camera does, of a SlabArray."""

    def __init__(self, device: SlabDevice) -> None:
        self._device = self._slab_device = device
        self._works = [gpu.allocate(WORK_SHAPE, np.float64) for gpu in device.gpus]
        self._copies = []
        self.start()

    def _stopwatch(self) -> Stopwatch:
        return LongestStopwatch([gpu.index for gpu in self._slab_device.gpus])

    def queue_survey(self, u: SlabArray) -> Callable[[], Survey]:
        """As a Camera's."""
        copies = []
        for number, (gpu, work) in enumerate(zip(self._slab_device.gpus, self._works, strict=True)):
            found = gpu.allocate((4,), np.float64)
            kernels.survey(u.own(number), work, found)
            copies.append(self._copy(gpu, found))

        def wait() -> Survey:
            """Put together what each GPU has found."""
            low, high, total, bad = np.transpose([copied() for copied in copies])
            return Survey(float(low.min()), float(high.max()), float(total.sum()), int(bad.sum()))

        return wait

    def queue_raster(self, u: SlabArray, request: RasterRequest) -> Callable[[], Raster]:
        """As a Camera's."""
        grid = PixelGrid.of(request, u.shape)
        height, width = grid.shape
        copies = []
        for number, first, last in _pixel_rows(u.layout, grid.y0, grid.factor, height):
            gpu = self._slab_device.gpus[number]
            means = gpu.allocate((last - first, width), np.float32)
            levels = gpu.allocate((last - first, width), np.uint8)
            self._reduce(u, number, means, grid.y0 + first * grid.factor, grid.x0, grid.factor)
            (request.paint or kernels.levels)(means, levels, *request.limits)
            copies.append(self._copy(gpu, levels))
        return lambda: request.raster(np.concatenate([copied() for copied in copies]), grid)

    def queue_window(
        self, u: SlabArray, y0: int, x0: int, height: int, width: int
    ) -> Callable[[], NDArray[np.float64]]:
        """As a Camera's."""
        copies = []
        for number, first, last in u.layout.pieces(y0, y0 + height):
            gpu = self._slab_device.gpus[number]
            out = gpu.allocate((last - first, width), np.float64)
            kernels.window(u.own(number), out, first - u.layout.slabs[number].first, x0)
            copies.append(self._copy(gpu, out))
        return lambda: np.concatenate([copied() for copied in copies])

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


class LongestStopwatch(Stopwatch):
    """Times the block on each GPU of these numbers: the one that takes longest counts."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._watches = [SlabStopwatch(number) for number in numbers]

    def __enter__(self) -> Self:
        for watch in self._watches:
            watch.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        for watch in reversed(self._watches):
            watch.__exit__(*exc)
        self.launch = self._watches[0].launch

    def seconds(self) -> float:
        """Seconds of the GPU that took longest; waits for all."""
        return max(watch.seconds() for watch in self._watches)


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
