"""Several GPUs as one device: its arrays are grids whose rows lie on all of them, as slabs.py cuts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.device_list import devices_name
from compute.devices import Array, Device
from compute.gpu_devices import Cuda, EventStopwatch
from compute.labs.diffusion.gpu_slab_streams import SlabStreams
from compute.labs.diffusion.slabs import FEWEST_GHOSTS, Layout

COMPARED = 2**26  # cells compared at a time
LARGE = 2**28  # cells of a slab from which rows are exchanged more often


class SlabArray:
    """A grid of (ny, nx) cells; parts: the array of each slab, ghost rows included, on its GPU.

    wrapped: whether the ghost rows around the ends of the grid are right too; None where no ghost row is.
    """

    def __init__(self, device: SlabDevice, layout: Layout, nx: int, dtype: DTypeLike) -> None:
        self.device, self.layout, self.dtype = device, layout, np.dtype(dtype)
        self.shape = layout.ny, nx
        self.size = layout.ny * nx
        self.parts: tuple[Array, ...] = tuple(
            gpu.allocate((slab.height, nx), dtype) for gpu, slab in zip(device.gpus, layout.slabs, strict=True)
        )
        for gpu, slab, part in zip(device.gpus, layout.slabs, self.parts, strict=True):
            # Finite from the start: a ghost cell that is held at zero is 0 times a number.
            for rows in (part[: slab.ghost], part[slab.own.stop :]):
                gpu.write(np.zeros(rows.shape, dtype), rows)
        self.wrapped: bool | None = None
        self.graphs: dict[Any, Any] = {}  # what gpu_slabs.py has recorded that begins here

    def own(self, number: int) -> Array:
        """The rows that slab `number` owns: a view."""
        return self.parts[number][self.layout.slabs[number].own]

    def span(self, number: int, periodic: bool) -> Array:
        """The rows of slab `number` that hold something, ghosts included: a view."""
        first, last = self.layout.span(number, periodic)
        return self.parts[number][first:last]


class SlabDevice(Device):
    """The GPUs of these numbers, in the order of their slabs. A number may be there twice, to try it on one GPU.

    ghost: ghost rows a side, a multiple of FEWEST_GHOSTS; 0 for what suits the size. staged: rows go through the host
    even where the GPUs see each other's memory.
    """

    kind = "gpu"

    def __init__(self, numbers: Sequence[int], ghost: int = 0, staged: bool = False) -> None:
        super().__init__(numbers[0])
        self.gpus = tuple(Cuda(number) for number in reversed(numbers))[::-1]  # the last one opened is current
        self.name = devices_name(numbers)
        self.ghost = ghost
        self.streams = SlabStreams([gpu.index for gpu in self.gpus], staged)

    @staticmethod
    def missing() -> str | None:
        """Why CuPy cannot compute here."""
        return Cuda.missing()

    def layout(self, ny: int, nx: int) -> Layout:
        """How so many rows are cut; ValueError where a slab would be too thin."""
        return Layout(ny, len(self.gpus), self.ghost or ghost_rows(ny, nx, len(self.gpus)))

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> SlabArray:
        """A grid of shape (ny, nx) with undefined contents."""
        ny, nx = shape
        return SlabArray(self, self.layout(ny, nx), nx, dtype)

    def write(self, host: NDArray[Any], array: SlabArray) -> None:
        """Host to devices; blocks."""
        for number, (gpu, slab) in enumerate(zip(self.gpus, array.layout.slabs, strict=True)):
            gpu.write(host[slab.first : slab.last], array.own(number))
        array.wrapped = None

    def download(self, array: SlabArray) -> NDArray[Any]:
        """Devices to host; blocks."""
        out = np.empty(array.shape, array.dtype)
        for number, (gpu, slab) in enumerate(zip(self.gpus, array.layout.slabs, strict=True)):
            out[slab.first : slab.last] = gpu.download(array.own(number))
        return out

    def synchronise(self) -> None:
        """Wait for all of them."""
        for gpu in self.gpus:
            gpu.synchronise()

    def stopwatch(self) -> SlabStopwatch:
        """CUDA events on the first GPU, which the others have been waited for."""
        return SlabStopwatch(self.index)

    def free_bytes(self) -> int:
        """As all hold equally much: so many times what the fullest has free."""
        import cupy

        numbers, shares = [gpu.index for gpu in self.gpus], []
        for gpu in self.gpus:
            with cupy.cuda.Device(gpu.index):  # whose pool is asked
                shares.append(gpu.free_bytes() // numbers.count(gpu.index))
        return len(shares) * min(shares)

    def describe(self) -> dict[str, Any]:
        """What the first one is, how many there are, and how rows travel."""
        return self.gpus[0].describe() | {
            "gpus": len(self.gpus),
            "rows_by": self.streams.way,
            "no_graphs": self.streams.unrecorded,
        }

    def close(self) -> None:
        """Return the pools' unused blocks to the driver."""
        import cupy

        for gpu in self.gpus:
            with cupy.cuda.Device(gpu.index):  # whose pool is emptied
                gpu.close()


class SlabStopwatch(EventStopwatch):
    """Events on the first GPU's default stream, whichever GPU is current."""

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
    """How many cells of two arrays of one shape, which may lie on different GPUs, have other bits; waits for both."""
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
    """Ghost rows a side: more where a launch is short beside an exchange, and at most a third of a slab."""
    rows = ny // count
    launches = 4 if rows * nx >= LARGE else 8
    return FEWEST_GHOSTS * max(1, min(launches, rows // (3 * FEWEST_GHOSTS)))
