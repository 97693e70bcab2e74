"""Several GPUs as one device: the rows of each grid are distributed over the GPUs, as in slabs.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.devices.devices import Array, Device, Stopwatch, devices_name
from compute.devices.gpu_devices import Cuda, EventStopwatch
from compute.display import gpu as kernels
from compute.display.camera import Camera, PixelGrid, RasterRequest, Survey
from compute.display.cpu_numpy import WORK_SHAPE
from compute.lab.frames import Raster
from compute.labs.diffusion.gpu_slab_streams import SlabStreams
from compute.labs.diffusion.slabs import FEWEST_GHOSTS, SlabLayout

COMPARED = 2**26  # cells per piece of a comparison
LARGE = 2**28  # cells of a slab from which rows are exchanged more often


class SlabArray:
    """A grid of (ny, nx) cells; parts: the array of each slab, ghost rows included, on its GPU.

    wrapped: whether the ghost rows across the periodic ends of the grid are valid as well; None if no ghost row is
    valid.
    """

    def __init__(self, device: SlabDevice, layout: SlabLayout, nx: int, dtype: DTypeLike) -> None:
        self.device, self.layout, self.dtype = device, layout, np.dtype(dtype)
        self.shape = layout.ny, nx
        self.size = layout.ny * nx
        self.parts: tuple[Array, ...] = tuple(
            gpu.allocate((slab.height, nx), dtype) for gpu, slab in zip(device.gpus, layout.slabs, strict=True)
        )
        for gpu, slab, part in zip(device.gpus, layout.slabs, self.parts, strict=True):
            # Initialised with finite numbers: a ghost cell that is held at zero is computed as 0 times its value.
            for rows in (part[: slab.ghost], part[slab.own.stop :]):
                gpu.write(np.zeros(rows.shape, dtype), rows)
        self.wrapped: bool | None = None
        self.graphs: dict[Any, Any] = {}  # recorded by gpu_slabs.py, starting from this grid

    def own(self, number: int) -> Array:
        """Return the rows that slab `number` owns, as a view."""
        return self.parts[number][self.layout.slabs[number].own]

    def span(self, number: int, periodic: bool) -> Array:
        """Return the valid rows of slab `number`, ghosts included, as a view."""
        first, last = self.layout.span(number, periodic)
        return self.parts[number][first:last]


class SlabDevice(Device):
    """The GPUs with these numbers, in the order of their slabs. A number may occur twice, for trials on a single GPU.

    ghost: ghost rows per side, a multiple of FEWEST_GHOSTS; 0 selects them by size. staged: copy rows through the host
    even if the GPUs have peer access.
    """

    kind = "gpu"

    def __init__(self, numbers: Sequence[int], ghost: int = 0, staged: bool = False) -> None:
        super().__init__(numbers[0])
        self.gpus = tuple(Cuda(number) for number in reversed(numbers))[::-1]  # the GPU opened last is current
        self.name = devices_name(numbers)
        self.ghost = ghost
        self.streams = SlabStreams([gpu.index for gpu in self.gpus], staged)

    @staticmethod
    def missing() -> str | None:
        """Return why CuPy cannot compute here, or None."""
        return Cuda.missing()

    def layout(self, ny: int, nx: int) -> SlabLayout:
        """Return the layout of ny rows. Raise ValueError if a slab would be too thin."""
        return SlabLayout(ny, len(self.gpus), self.ghost or ghost_rows(ny, nx, len(self.gpus)))

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> SlabArray:
        """Return a grid of shape (ny, nx) with undefined contents."""
        ny, nx = shape
        return SlabArray(self, self.layout(ny, nx), nx, dtype)

    def write(self, host: NDArray[Any], array: SlabArray) -> None:
        """Copy from host to devices; blocks."""
        for number, (gpu, slab) in enumerate(zip(self.gpus, array.layout.slabs, strict=True)):
            gpu.write(host[slab.first : slab.last], array.own(number))
        array.wrapped = None

    def download(self, array: SlabArray) -> NDArray[Any]:
        """Copy from devices to host; blocks."""
        out = np.empty(array.shape, array.dtype)
        for number, (gpu, slab) in enumerate(zip(self.gpus, array.layout.slabs, strict=True)):
            out[slab.first : slab.last] = gpu.download(array.own(number))
        return out

    def synchronise(self) -> None:
        """Wait for all GPUs."""
        for gpu in self.gpus:
            gpu.synchronise()

    def stopwatch(self) -> SlabStopwatch:
        """Return CUDA events on the first GPU, which waits for the others."""
        return SlabStopwatch(self.index)

    def free_bytes(self) -> int:
        """Return the free bytes, limited by the fullest GPU since all slabs have the same size."""
        import cupy

        numbers, shares = [gpu.index for gpu in self.gpus], []
        for gpu in self.gpus:
            with cupy.cuda.Device(gpu.index):  # selects the memory pool to query
                shares.append(gpu.free_bytes() // numbers.count(gpu.index))
        return len(shares) * min(shares)

    def describe(self) -> dict[str, Any]:
        """Return the facts of the first GPU, the number of GPUs, and how rows are copied."""
        return self.gpus[0].describe() | {
            "gpus": len(self.gpus),
            "rows_by": self.streams.way,
            "no_graphs": self.streams.unrecorded,
        }

    def close(self) -> None:
        """Return the unused blocks of the pools to the driver."""
        import cupy

        for gpu in self.gpus:
            with cupy.cuda.Device(gpu.index):  # selects the memory pool to empty
                gpu.close()


class SlabStopwatch(EventStopwatch):
    """Events on the first GPU's default stream, independent of the current GPU."""

    def __init__(self, number: int) -> None:
        import cupy

        self._gpu = cupy.cuda.Device(number)
        with self._gpu:
            super().__init__((cupy.cuda.Event(), cupy.cuda.Event()), cupy.cuda.get_elapsed_time)

    def __enter__(self) -> Self:
        with self._gpu:
            return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        with self._gpu:
            super().__exit__(*exc)


def different_cells(truth: Array, got: Array) -> int:
    """Return the number of cells with different bits in two arrays of equal shape on any GPUs; waits for both."""
    import cupy

    truth.device.synchronize()
    got.device.synchronize()
    many = max(1, COMPARED // truth.shape[1])
    found = 0
    for first in range(0, len(truth), many):
        with truth.device:
            rows = got[first : first + many]
            here = cupy.empty(rows.shape, rows.dtype)
            memcpy = cupy.cuda.runtime.memcpyPeer
            memcpy(here.data.ptr, truth.device.id, rows.data.ptr, rows.device.id, rows.nbytes)
            bits = f"u{rows.itemsize}"
            found += int((here.view(bits) != truth[first : first + many].view(bits)).sum())
    return found


def ghost_rows(ny: int, nx: int, count: int) -> int:
    """Return the ghost rows per side: more if a launch is short relative to an exchange, at most a third of a slab."""
    rows = ny // count
    launches = 4 if rows * nx >= LARGE else 8
    return FEWEST_GHOSTS * max(1, min(launches, rows // (3 * FEWEST_GHOSTS)))


# -- pictures of a grid on several GPUs: each GPU reduces its own rows, the host combines them
#
# A pixel whose block of cells extends over two GPUs is computed on the first of them, from a copy of the block's rows.
# Pictures are thus bit-identical to those of one GPU. Only the sum of all cells is added in another order.


class SlabCamera(Camera):
    """A Camera for a SlabArray."""

    def __init__(self, device: SlabDevice) -> None:
        self._device = self._slab_device = device
        self._works = [gpu.allocate(WORK_SHAPE, np.float64) for gpu in device.gpus]
        self._copies = []
        self.start()

    def _stopwatch(self) -> Stopwatch:
        return LongestStopwatch([gpu.index for gpu in self._slab_device.gpus])

    def queue_survey(self, u: SlabArray, mask: None = None) -> Callable[[], Survey]:  # type: ignore[override]  # noqa: ARG002
        """Queue a survey, as in Camera, but without a mask."""
        copies = []
        for number, (gpu, work) in enumerate(zip(self._slab_device.gpus, self._works, strict=True)):
            found = gpu.allocate((4,), np.float64)
            kernels.survey(u.own(number), work, found)
            copies.append(self._copy(gpu, found))

        def wait() -> Survey:
            """Combine the results of the GPUs."""
            low, high, total, bad = np.transpose([copied() for copied in copies])
            return Survey(float(low.min()), float(high.max()), float(total.sum()), int(bad.sum()))

        return wait

    def queue_raster(self, u: SlabArray, request: RasterRequest) -> Callable[[], Raster]:
        """Queue a raster, as in Camera."""
        grid = PixelGrid.of(request, u.shape)
        height, width = grid.shape
        copies = []
        for number, first, last in pixel_rows(u.layout, grid.y0, grid.factor, height):
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
        """Queue a window, as in Camera."""
        copies = []
        for number, first, last in u.layout.pieces(y0, y0 + height):
            gpu = self._slab_device.gpus[number]
            out = gpu.allocate((last - first, width), np.float64)
            kernels.window(u.own(number), out, first - u.layout.slabs[number].first, x0)
            copies.append(self._copy(gpu, out))
        return lambda: np.concatenate([copied() for copied in copies])

    def _reduce(self, u: SlabArray, number: int, means: Array, y0: int, x0: int, factor: int) -> None:
        """Reduce blocks from row y0 on, which begin on slab `number`; a single row of blocks may extend beyond it."""
        slab, end = u.layout.slabs[number], min(y0 + len(means) * factor, u.shape[0])
        if end <= slab.last:
            kernels.reduce(u.own(number), means, y0 - slab.first, x0, factor)
        else:
            kernels.reduce(self._gathered(u, number, y0, end), means, 0, x0, factor)

    def _gathered(self, u: SlabArray, number: int, first: int, last: int) -> Array:
        """Return a copy of rows `first` to `last` of the grid on the GPU of slab `number`."""
        rows = self._slab_device.gpus[number].allocate((last - first, u.shape[1]), u.dtype)
        line = u.shape[1] * u.dtype.itemsize
        for other, low, high in u.layout.pieces(first, last):
            start = u.parts[other].data.ptr + u.layout.slabs[other].place(low) * line
            target = rows.data.ptr + (low - first) * line
            self._slab_device.streams.bring(other, start, number, target, (high - low) * line)
        return rows


class LongestStopwatch(Stopwatch):
    """Time the block on each GPU of these numbers and report the longest time."""

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
        """Return the seconds of the slowest GPU; waits for all."""
        return max(watch.seconds() for watch in self._watches)


def pixel_rows(layout: SlabLayout, y0: int, factor: int, height: int) -> Iterator[tuple[int, int, int]]:
    """Yield (slab, first, last) of rows of pixels, each of `factor` rows of cells starting at y0, in order.

    Rows with all cells on one slab are yielded together; a row that extends beyond the slab where it begins,
    separately.
    """
    for number, slab in enumerate(layout.slabs):
        first = max(0, -(-(slab.first - y0) // factor))
        last = min(height, -(-(slab.last - y0) // factor))
        within = last if slab.last == layout.ny else min(last, (slab.last - y0) // factor)
        yield from ((number, low, high) for low, high in ((first, within), (max(first, within), last)) if low < high)


def disc(u: SlabArray, y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u with their centre within `radius` cells of (y, x) to `value`, as compute.display.gpu does."""
    for number, slab in enumerate(u.layout.slabs):
        kernels.disc(u.own(number), y - slab.first, x, radius, value)
    u.wrapped = None
