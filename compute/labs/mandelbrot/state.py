"""What the kernels of the Mandelbrot lab share: a picture's arrays, and the part of it that one launch works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compute.devices import Array, Device

FRESH = -1  # count of a pixel that was never iterated; -1 - n after n iterations, until it is finished
MARGIN = {"float32": 1e-6, "float64": 1e-13}  # from the edge of the cardioid and the disc, 16 or more ulp


@dataclass(frozen=True)
class State:
    """The arrays of ny x nx pixels, on one device.

    re (nx,), im (ny,): the pixels' parts of c in the arithmetic's type, or their offsets from the centre in pixels for
    perturbation. z (2, ny, nx), same type: z, or its difference from the reference, of unfinished pixels. place (2, ny,
    nx) int32, perturbation only: index in the reference, and exponent of z. count (ny, nx) int32: -1 - n after n
    iterations, the final count once finished. smooth (ny, nx) float32: smooth count, NaN for what has not escaped.
    totals (2,) int64: kernels add the iterations they did, and the pixels they left unfinished.
    """

    re: Array
    im: Array
    z: Array
    place: Array
    count: Array
    smooth: Array
    totals: Array

    @classmethod
    def allocate(cls, device: Device, shape: tuple[int, int], dtype: str, deep: bool) -> State:
        """Arrays for a picture of `shape` (ny, nx); contents are undefined until `clear`."""
        ny, nx = shape
        return cls(
            device.allocate((nx,), dtype),
            device.allocate((ny,), dtype),
            device.allocate((2, ny, nx), dtype),
            device.allocate((2, ny, nx) if deep else (2, 1, 1), np.int32),
            device.allocate(shape, np.int32),
            device.allocate(shape, np.float32),
            device.allocate((2,), np.int64),
        )


@dataclass(frozen=True)
class Part:
    """What one launch does: pixels (stride i, stride j) with first <= i < last, all j.

    Each of them that is unfinished gets up to `iterations` more, up to `limit` in all; at max_iterations it is finished
    as not escaped. shortcuts: cardioid, disc and periodicity may end a pixel early (its count is the same).
    """

    first: int
    last: int
    stride: int
    iterations: int
    limit: int
    max_iterations: int
    shortcuts: bool
