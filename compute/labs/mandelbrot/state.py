"""Shared data of the Mandelbrot lab's kernels: the arrays of a picture, and the part that a launch computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compute.devices.devices import Array, Device

FRESH = -1  # count of a pixel without iterations; -1 - n after n iterations, until it is finished
SLOTS, LINE = 64, 16  # pairs of totals, and the numbers from one pair to the next: as in pixels.cuh
MARGIN = {"float32": 1e-6, "float64": 1e-13}  # from the edge of the cardioid and the disc, 16 or more ulp
FEW = 64  # iterations
TILES, TALL = (32, 4), 4  # threads of a block of `few` in x and y, and rows per thread; TALL of gpu_cupy.cu
BLOCK = (8, 16)  # threads in x and y: four warps, one below the other; THREADS in pixels.cuh


@dataclass(frozen=True)
class PixelArrays:
    """The arrays of ny x nx pixels, on one device.

    re (nx,), im (ny,): the pixels' parts of c in the arithmetic's type, or their offsets from the centre in pixels for
    perturbation. z (2, ny, nx), same type: z, or its difference from the reference, of unfinished pixels. In
    double-single arithmetic re (2, nx), im (2, ny), z (4, ny, nx), the larger numbers first. place (2, ny, nx) int32,
    perturbation only: index in the reference, and exponent of z. count (ny, nx) int32: -1 - n after n iterations, the
    final count once finished. smooth (ny, nx) float32: smooth count, NaN for pixels that have not escaped. totals
    (SLOTS LINE,) int64: kernels add the iterations they did to one of the numbers 0, LINE, 2 LINE ..., and the pixels
    they left unfinished to the number after it.
    """

    re: Array
    im: Array
    z: Array
    place: Array
    count: Array
    smooth: Array
    totals: Array

    @classmethod
    def allocate(cls, device: Device, shape: tuple[int, int], dtype: str, deep: bool, parts: int) -> PixelArrays:
        """Return uninitialised arrays for a picture of `shape` (ny, nx). parts: numbers whose sum is a value."""
        ny, nx = shape
        several = (parts,) if parts > 1 else ()
        return cls(
            device.allocate((*several, nx), dtype),
            device.allocate((*several, ny), dtype),
            device.allocate((2 * parts, ny, nx), dtype),
            device.allocate((2, ny, nx) if deep else (2, 1, 1), np.int32),
            device.allocate(shape, np.int32),
            device.allocate(shape, np.float32),
            device.allocate((SLOTS * LINE,), np.int64),
        )

    def forget_totals(self, device: Device) -> None:
        """Set the totals to 0."""
        device.write(np.zeros(SLOTS * LINE, np.int64), self.totals)

    def sums(self, device: Device) -> tuple[int, int]:
        """Download the totals: iterations done, and unfinished pixels."""
        done, left = device.download(self.totals).reshape(SLOTS, LINE)[:, :2].sum(axis=0)
        return int(done), int(left)


@dataclass(frozen=True)
class LaunchPart:
    """The work of one launch: pixels (stride i, stride j) with first <= i < last, all j.

    Each unfinished pixel gets up to `iterations` further iterations, up to `limit` in total; at max_iterations it is
    finished as not escaped. shortcuts: cardioid, disc and periodicity may end a pixel early (its count is the same).
    fresh: no pixel has been iterated; their counts are FRESH and their smooth counts NaN.
    """

    first: int
    last: int
    stride: int
    iterations: int
    limit: int
    max_iterations: int
    shortcuts: bool
    fresh: bool = False

    @property
    def rows(self) -> int:
        """Number of rows of pixels."""
        return self.last - self.first

    @property
    def few(self) -> bool:
        """Whether this part finishes fresh pixels in so few iterations that the launch overhead matters."""
        whole = self.stride == 1 and self.iterations >= self.limit >= self.max_iterations
        return self.fresh and whole and self.max_iterations <= FEW and not self.shortcuts


# -- launch of the GPU kernels: a thread per pixel, a warp covers 8 x 4 pixels


def grid(state: PixelArrays, part: LaunchPart) -> tuple[int, int]:
    """Return the number of blocks in x and y that cover the pixels of `part`."""
    columns = -(-state.count.shape[1] // part.stride)
    return -(-columns // BLOCK[0]), -(-part.rows // BLOCK[1])


def tiles(state: PixelArrays, part: LaunchPart) -> tuple[int, int]:
    """Return the number of blocks in x and y for a part that is `few`; each warp computes TALL rows of 32 pixels."""
    width, warps = TILES
    return -(-state.count.shape[1] // width), -(-part.rows // (warps * TALL))


def numbers(state: PixelArrays, part: LaunchPart) -> tuple[np.int32, ...]:
    """Return the last arguments of every kernel: ny, nx, and the part."""
    ny, nx = state.count.shape
    span = part.first, part.last, part.stride
    return tuple(map(np.int32, (ny, nx, *span, part.iterations, part.limit, part.max_iterations, part.shortcuts)))
