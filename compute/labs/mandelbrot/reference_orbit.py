"""The reference orbit of perturbation: one point of the view in as many digits as its depth needs (gmpy2, MPFR).

The orbit is computed in pieces, so that the caller stays responsive, can show the progress and can cancel. Then it is
uploaded and its table is computed on the device. An orbit serves its neighbourhood: it is kept during pans and zooms,
and its table is recomputed only if the distances of the pixels no longer match.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import gmpy2
import numpy as np
from numpy.typing import NDArray

from compute.devices.devices import Array, Device
from compute.labs.mandelbrot.bla import entries, reach
from compute.labs.mandelbrot.deep import VANISHED
from compute.labs.mandelbrot.place import Place

ESCAPED2 = 1e6  # |Z|^2 at which the orbit ends: above 4, for pixels that escape later than the reference
TINY = 1e-150  # parts below this are stored with a separate exponent: their squares must not vanish
PIECE = 4096  # iterations between two reports
LOOK = 64  # minimum iterations between two tests of perturbation for a repetition
LONGEST = 4096  # maximum period of the reference that is detected
NEVER = 2**30  # more iterations than any pixel does
Table = Callable[..., None]  # `bla` of a backend: fills a table, as in bla.py
SHORTEST = 4  # minimum iterations of an orbit, so that its table has an entry
REACH = 4  # view heights: an orbit serves views whose centre is at most this far from its point
SPARE_BITS = 64  # of a new orbit in addition to its view's bits: it serves views deeper by this much
LOOSE = 6.0  # powers of two by which a table's distances may exceed the view's; beyond that, jumps are too short


class Cancelled(RuntimeError):
    """The progress callback requested a stop."""


class Orbit:
    """The orbit Z_0 = 0, Z_{m+1} = Z_m^2 + C for C = re + i im, at `bits` bits, up to max_iterations or its escape.

    After `advance` has returned with `finished` true, `values` and `exponents` return the parts of Z_m = values[m]
    2^exponents[m].
    """

    def __init__(self, re: Fraction, im: Fraction, bits: int, max_iterations: int) -> None:
        self.bits, self.max_iterations, self.finished = bits, max_iterations, False
        self.length = 0  # index of the last computed Z
        self.point = re, im
        self._escaped = False
        self._pieces = [np.zeros((1, 2))]
        self._exponents = [np.full(1, VANISHED, np.int32)]
        with gmpy2.context(precision=bits):
            self._c = tuple(gmpy2.mpfr(gmpy2.mpq(part.numerator, part.denominator)) for part in (re, im))
            self._z = gmpy2.mpfr(0), gmpy2.mpfr(0)

    def extend(self, max_iterations: int) -> None:
        """Raise the limit to max_iterations; a lower limit is ignored, and an escaped orbit is not extended."""
        if max_iterations > self.max_iterations:
            self.max_iterations = max_iterations
            self.finished = self._escaped

    @property
    def progress(self) -> float:
        """The completed part, from 0 to 1; the orbit may end early, by escaping."""
        return 1.0 if self.finished else self.length / self.max_iterations

    def advance(self, iterations: int) -> None:
        """Compute up to `iterations` further iterations."""
        count = min(iterations, self.max_iterations - self.length)
        values, exponents = np.empty((count, 2)), np.zeros(count, np.int32)
        (cx, cy), (x, y) = self._c, self._z
        k = 0
        with gmpy2.context(precision=self.bits):
            while k < count and not self.finished:
                xy = x * y
                x, y = x * x - y * y + cx, xy + xy + cy
                fx, fy = float(x), float(y)
                if -TINY < fx < TINY and -TINY < fy < TINY:
                    fx, fy, exponents[k] = _split(x, y)
                values[k] = fx, fy
                k += 1
                self.finished = self._escaped = fx * fx + fy * fy > ESCAPED2
        self._z = x, y
        self.length += k
        self.finished = self._escaped or self.length == self.max_iterations
        self._pieces.append(values[:k])
        self._exponents.append(exponents[:k])

    def values(self) -> NDArray[np.float64]:
        """Return the (length + 1, 2) real and imaginary parts, to be scaled by `exponents`."""
        self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]

    def exponents(self) -> NDArray[np.int32]:
        """Return the (length + 1,) powers of two; 0 except for tiny Z, VANISHED for Z = 0."""
        self._exponents = [np.concatenate(self._exponents)]
        return self._exponents[0]


def compute(
    re: Fraction, im: Fraction, bits: int, max_iterations: int, progress: Callable[[float], bool] = lambda _: True
) -> Orbit:
    """Compute the whole orbit.

    `progress` is called every PIECE iterations with the completed part; if it returns False, Cancelled is raised.
    """
    orbit = Orbit(re, im, bits, max_iterations)
    while not orbit.finished:
        orbit.advance(PIECE)
        if not progress(orbit.progress):
            raise Cancelled(f"the reference orbit was dropped after {orbit.length} of {max_iterations} iterations")
    return orbit


def _split(x: gmpy2.mpfr, y: gmpy2.mpfr) -> tuple[float, float, int]:
    """Return both parts over one power of two, the larger part between 1/2 and 1."""
    exponents = [gmpy2.get_exp(part) for part in (x, y) if part]
    if not exponents:
        return 0.0, 0.0, VANISHED
    exponent = max(exponents)
    return float(gmpy2.mul_2exp(x, -exponent)), float(gmpy2.mul_2exp(y, -exponent)), exponent


# -- on the device, with its table


@dataclass(frozen=True)
class ReferenceOrbit:
    """The input of perturbation on the device: the orbit, its table, and the positions of the pixels.

    orbit (M + 1, 2) float64 and exponents (M + 1,) int32: Z_m. table (T, 4) float64: A and B of bla.py, powers (T, 2)
    int32; radius (T,) float64, none above `reach`. For the kernel `perturbed` all of them are plain numbers, so
    exponents and powers are empty; for `far` they are mantissas and powers of two, and radius is log2 R.
    settled, cycle: from Z_settled on the orbit repeats after `cycle` steps, which may be a multiple of its period; if
    it never repeats, cycle exceeds the length of every orbit. centre: C in float64; spacing: distance of the pixels,
    times 2^exponent (0 for `perturbed`). The arrays serve every view whose pixels are at most as far from C as the
    table's distance; `at` returns the same arrays with another spacing.
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
    ) -> ReferenceOrbit:
        """Upload an orbit, `far` as mantissas and powers, else as plain float64, and compute its table with `bla`.

        distances: log2 of the largest |dc|, and log2 of the relative error that a jump may cause.
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

    def at(self, place: Place, far: bool) -> ReferenceOrbit:
        """Return the same orbit and table for the pixels of another view."""
        spacing, exponent = _spacing(place, far)
        return replace(self, spacing=spacing, exponent=exponent)


def _repeats(values: NDArray[np.float64]) -> tuple[int, int]:
    """Return (settled, cycle) of an orbit in the set, whose attracting cycle makes it repeat bit for bit."""
    last = len(values) - 1
    earlier = np.flatnonzero(np.all(values[max(0, last - LONGEST) : last] == values[last], axis=1))
    if not earlier.size:
        return len(values), NEVER
    period = min(last, LONGEST) - int(earlier[-1])
    changes = np.flatnonzero(np.any(values[period:] != values[:-period], axis=1))
    settled = int(changes[-1]) + 1 if changes.size else 0
    return settled, period * 2 ** max(0, math.ceil(math.log2(LOOK / period)))


def _spacing(place: Place, far: bool) -> tuple[float, int]:
    """Return the pixels' distance as a number and a power of two, which is 0 unless `far`."""
    mantissa, exponent = place.spacing.mantissa, place.spacing.exponent
    return (mantissa, exponent) if far else (math.ldexp(mantissa, exponent), 0)


class ReferenceBuilder:
    """Computes an orbit near the centre of `place` in slices, then provides `reference`.

    bla: the backend's function of that name; log2_epsilon: log2 of the relative error that a jump may cause; far:
    whether numbers have separate exponents; old: a builder whose orbit is reused if possible.
    """

    def __init__(
        self, device: Device, bla: Table, place: Place, max_iterations: int, log2_epsilon: float, far: bool,
        old: ReferenceBuilder | None,
    ) -> None:  # fmt: skip
        self._device, self._bla, self.place, self._epsilon, self._far = device, bla, place, log2_epsilon, far
        length = max(SHORTEST, max_iterations)
        self.orbit: Orbit
        self._reach = 0.0  # log2 of the table's largest |dc|
        if old is not None and _serves(old.orbit, place):
            self.orbit = old.orbit
            self.orbit.extend(length)
        else:
            self.orbit = Orbit(place.re, place.im, place.bits + SPARE_BITS, length)
        self._reference = self._kept(old) if old is not None and self.orbit is old.orbit else None

    def _kept(self, old: ReferenceBuilder) -> ReferenceOrbit | None:
        """Return the old builder's arrays if they serve this view, else None."""
        same = (old._epsilon, old._far) == (self._epsilon, self._far)
        if old._reference is None or not same or not self.orbit.finished:
            return None
        self._reach, loose = old._reach, old._reach - self.log2_dc
        return old._reference.at(self.place, self._far) if 0 <= loose <= LOOSE else None

    @property
    def point(self) -> tuple[Fraction, Fraction]:
        """C of the orbit: pixels are given by their offsets from it."""
        return self.orbit.point

    @property
    def log2_dc(self) -> float:
        """log2 of the farthest pixel's distance from C, plus one pixel for moved samples."""
        x, y = (abs(float(part)) + 1 for part in self.place.away(*self.point))
        return self.place.spacing.log2 + math.log2(math.hypot(x + self.place.nx / 2, y + self.place.ny / 2))

    @property
    def ready(self) -> bool:
        """Whether `reference` is available."""
        return self._reference is not None

    @property
    def progress(self) -> float:
        """The completed part of the orbit, from 0 to 1."""
        return self.orbit.progress

    @property
    def length(self) -> int:
        """Completed iterations of the orbit."""
        return self.orbit.length

    @property
    def reference(self) -> ReferenceOrbit:
        """The arrays for the kernels; RuntimeError before `ready`."""
        if self._reference is None:
            raise RuntimeError("the reference orbit is not finished")
        return self._reference

    def at(self, place: Place) -> ReferenceOrbit:
        """Return the reference for the pixels of another view of about the same size and place."""
        return self.reference.at(place, self._far)

    def advance(self, slices: int, budget: int) -> int:
        """Compute `slices` pieces of the orbit; after the last, compute the table and return `budget`, otherwise 0."""
        if not self.orbit.finished:
            self.orbit.advance(slices * PIECE)
            if not self.orbit.finished:
                return 0
        self._reach = self.log2_dc
        distances = self._reach, self._epsilon
        self._reference = ReferenceOrbit.of(self._device, self._bla, self.orbit, self.place, distances, self._far)
        return budget


def _serves(orbit: Orbit, place: Place) -> bool:
    """Return whether an orbit has enough bits for a view and is near enough to it."""
    away = max(abs(part) for part in place.away(*orbit.point))
    return orbit.bits >= place.bits and away <= REACH * place.ny
