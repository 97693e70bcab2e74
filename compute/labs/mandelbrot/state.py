"""What the kernels of the Mandelbrot lab share: a picture's arrays, and the part of it that one launch works on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compute.devices import Array, Device
from compute.labs.mandelbrot.bla import entries, reach
from compute.labs.mandelbrot.orbit import Orbit
from compute.labs.mandelbrot.place import Place

FRESH = -1  # count of a pixel that was never iterated; -1 - n after n iterations, until it is finished
LOOK = 64  # iterations after which perturbation looks for a repetition, at least
LONGEST = 4096  # period of the reference that is looked for
SLOTS, LINE = 64, 16  # pairs of totals, and numbers from one to the next: as in pixels.cuh
NEVER = 2**30  # iterations that no pixel does
Table = Callable[..., None]  # `bla` of a backend: fills a table, as in bla.py
MARGIN = {"float32": 1e-6, "float64": 1e-13}  # from the edge of the cardioid and the disc, 16 or more ulp


@dataclass(frozen=True)
class State:
    """The arrays of ny x nx pixels, on one device.

    re (nx,), im (ny,): the pixels' parts of c in the arithmetic's type, or their offsets from the centre in pixels for
    perturbation. z (2, ny, nx), same type: z, or its difference from the reference, of unfinished pixels. place (2, ny,
    nx) int32, perturbation only: index in the reference, and exponent of z. count (ny, nx) int32: -1 - n after n
    iterations, the final count once finished. smooth (ny, nx) float32: smooth count, NaN for what has not escaped.
    totals (SLOTS LINE,) int64: kernels add the iterations they did to one of the numbers 0, LINE, 2 LINE ..., and the
    pixels they left unfinished to the one after it.
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
            device.allocate((SLOTS * LINE,), np.int64),
        )

    def forget_totals(self, device: Device) -> None:
        """Set the totals to 0."""
        device.write(np.zeros(SLOTS * LINE, np.int64), self.totals)

    def sums(self, device: Device) -> tuple[int, int]:
        """The totals: iterations done, and pixels left unfinished."""
        done, left = device.download(self.totals).reshape(SLOTS, LINE)[:, :2].sum(axis=0)
        return int(done), int(left)


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
    int32; radius (T,) float64, none above `reach`. For the kernel `perturbed` all of them are plain numbers, so
    exponents and powers are empty; for `far` they are mantissas and powers of two, and radius is log2 R.
    settled, cycle: from Z_settled on the orbit repeats after `cycle` steps, which may be many of its periods; where it
    never does, cycle is beyond every orbit. centre: C in float64; spacing: of the pixels, times 2^exponent (0 for
    `perturbed`). The arrays serve for every view whose pixels are at most as far from C as the table was made for; `at`
    gives the same for another spacing.
    """

    orbit: Array
    exponents: Array
    table: Array
    powers: Array
    radius: Array
    reach: float
    settled: int
    cycle: int
    centre: tuple[float, float]
    spacing: float
    exponent: int

    @classmethod
    def of(
        cls, device: Device, bla: Table, orbit: Orbit, place: Place, distances: tuple[float, float], far: bool
    ) -> Reference:
        """Upload an orbit, `far` as mantissas and powers, else as plain float64, and let `bla` make its table.

        distances: log2 of the largest |dc|, and log2 of the part that a jump may leave out.
        """
        values, exponents = orbit.values(), orbit.exponents()
        if not far:
            values, exponents = np.ldexp(values, exponents[:, None]), exponents[:1]
        size = entries(len(values) - 1)
        uploaded = device.upload(values), device.upload(exponents)
        table = device.allocate((size, 4), np.float64)
        powers = device.allocate((size if far else 1, 2), np.int32)
        radius = device.allocate((size,), np.float64)
        with device.lock:
            bla(*uploaded, table, powers, radius, *distances, far)
        centre = float(orbit.point[0]), float(orbit.point[1])
        repeats = (len(values), NEVER) if far else _repeats(values)
        return cls(*uploaded, table, powers, radius, reach(distances[1]), *repeats, centre, *_spacing(place, far))

    def at(self, place: Place, far: bool) -> Reference:
        """The same orbit and table for the pixels of another view."""
        spacing, exponent = _spacing(place, far)
        return replace(self, spacing=spacing, exponent=exponent)


def _repeats(values: NDArray[np.float64]) -> tuple[int, int]:
    """Where and how an orbit in the set, whose cycle attracts it, repeats bit for bit: (settled, cycle)."""
    last = len(values) - 1
    earlier = np.flatnonzero(np.all(values[max(0, last - LONGEST) : last] == values[last], axis=1))
    if not earlier.size:
        return len(values), NEVER
    period = min(last, LONGEST) - int(earlier[-1])
    changes = np.flatnonzero(np.any(values[period:] != values[:-period], axis=1))
    settled = int(changes[-1]) + 1 if changes.size else 0
    return settled, period * 2 ** max(0, math.ceil(math.log2(LOOK / period)))


def _spacing(place: Place, far: bool) -> tuple[float, int]:
    """The pixels' distance as a number and a power of two, which is 0 unless `far`."""
    mantissa, exponent = place.spacing.mantissa, place.spacing.exponent
    return (mantissa, exponent) if far else (math.ldexp(mantissa, exponent), 0)
