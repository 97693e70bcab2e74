"""What the kernels of the Mandelbrot lab share: a picture's arrays, and the part of it that one launch works on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compute.devices import Array, Device
from compute.labs.mandelbrot.bla import Table
from compute.labs.mandelbrot.orbit import Orbit
from compute.labs.mandelbrot.place import Place

FRESH = -1  # count of a pixel that was never iterated; -1 - n after n iterations, until it is finished
PLAIN_POWER = 1000  # powers of two below which A and B are plain float64
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


@dataclass(frozen=True)
class Reference:
    """What perturbation follows, on the device: the orbit, its table, and where the pixels are.

    orbit (M + 1, 2) float64 and exponents (M + 1,) int32: Z_m. table (T, 4) float64: A and B of bla.py, powers (T, 2)
    int32; radius (T,) float64; start (levels + 1,) int64. For the kernel `perturbed` all of them are plain numbers, so
    exponents and powers are empty; for `far` they are mantissas and powers of two, and radius is log2 R.
    centre: C in float64; spacing: of the pixels, times 2^exponent (0 for `perturbed`). The arrays serve for every view
    whose pixels are at most as far from C as the table was made for; `at` gives the same for another spacing.
    """

    orbit: Array
    exponents: Array
    table: Array
    powers: Array
    radius: Array
    start: Array
    centre: tuple[float, float]
    spacing: float
    exponent: int

    @classmethod
    def of(cls, device: Device, orbit: Orbit, table: Table, place: Place, far: bool) -> Reference:
        """Upload an orbit and its table; `far` as mantissas and powers, else as plain float64."""
        values, exponents = orbit.values(), orbit.exponents()
        powers: NDArray[np.int64] = np.stack([table.a_power, table.b_power], axis=1)
        numbers = np.stack([table.a.real, table.a.imag, table.b.real, table.b.imag], axis=1)
        radius, spacing = table.radius, _spacing(place, far)
        if not far:
            values = np.ldexp(values, exponents[:, None])
            usable: NDArray[np.bool_] = np.all(np.abs(powers) < PLAIN_POWER, axis=1)
            numbers = np.ldexp(numbers, np.where(usable[:, None], powers, 0).repeat(2, axis=1))
            radius = np.where(usable, np.exp2(np.maximum(radius, -1100)), 0.0)
            exponents, powers = exponents[:1], powers[:1]
        arrays = (values, exponents, numbers, powers.astype(np.int32), radius, table.start)
        uploaded: tuple[Array, ...] = tuple(device.upload(array) for array in arrays)
        centre = float(orbit.point[0]), float(orbit.point[1])
        return cls(*uploaded[:6], centre, *spacing)  # type: ignore[misc,call-arg]

    def at(self, place: Place, far: bool) -> Reference:
        """The same orbit and table for the pixels of another view."""
        spacing, exponent = _spacing(place, far)
        return replace(self, spacing=spacing, exponent=exponent)


def _spacing(place: Place, far: bool) -> tuple[float, int]:
    """The pixels' distance as a number and a power of two, which is 0 unless `far`."""
    mantissa, exponent = place.spacing.mantissa, place.spacing.exponent
    return (mantissa, exponent) if far else (math.ldexp(mantissa, exponent), 0)
