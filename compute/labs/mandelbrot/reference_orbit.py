"""The reference orbit of perturbation: one point of the view in as many digits as its depth needs (gmpy2, MPFR).

It is computed in pieces, so that whoever asked for it stays responsive, sees its progress and may drop it; then come
its table and both on the device. An orbit serves its neighbourhood: pans and zooms keep it, and only a table made for
other distances is made anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import gmpy2
import numpy as np
from numpy.typing import NDArray

from compute.devices import Array, Device
from compute.labs.mandelbrot.bla import entries, reach
from compute.labs.mandelbrot.deep import VANISHED
from compute.labs.mandelbrot.place import Place

ESCAPED2 = 1e6  # |Z|^2 at which it ends: some way beyond 4, for the pixels that escape later than the reference
TINY = 1e-150  # parts below this are kept with an exponent of their own: their squares must not vanish
PIECE = 4096  # iterations between two reports
LOOK = 64  # iterations after which perturbation looks for a repetition, at least
LONGEST = 4096  # period of the reference that is looked for
NEVER = 2**30  # iterations that no pixel does
Table = Callable[..., None]  # `bla` of a backend: fills a table, as in bla.py
SHORTEST = 4  # iterations of an orbit at least, so that its table has an entry
REACH = 4  # view heights from the centre up to which an orbit serves
SPARE_BITS = 64  # of a new orbit beyond what its view needs: so much deeper it still serves
LOOSE = 6.0  # powers of two by which a table's distances may exceed those of the view; then jumps become too short


class Cancelled(RuntimeError):
    """The progress callback asked to stop."""


class Orbit:
    """Z_0 = 0, Z_{m+1} = Z_m^2 + C for C = re + i im, at `bits` bits, up to max_iterations or beyond escape.

    After `advance` has returned with `finished` true, `values` and `exponents` hold Z_m = values[m] 2^exponents[m].
    """

    def __init__(self, re: Fraction, im: Fraction, bits: int, max_iterations: int) -> None:
        self.bits, self.max_iterations, self.finished = bits, max_iterations, False
        self.length = 0  # index of the newest Z
        self.point = re, im
        self._escaped = False
        self._pieces = [np.zeros((1, 2))]
        self._exponents = [np.full(1, VANISHED, np.int32)]
        with gmpy2.context(precision=bits):
            self._c = tuple(gmpy2.mpfr(gmpy2.mpq(part.numerator, part.denominator)) for part in (re, im))
            self._z = gmpy2.mpfr(0), gmpy2.mpfr(0)

    def extend(self, max_iterations: int) -> None:
        """Let it go on up to max_iterations; it is never made shorter, and none is longer than its escape."""
        if max_iterations > self.max_iterations:
            self.max_iterations = max_iterations
            self.finished = self._escaped

    @property
    def progress(self) -> float:
        """Part that is done, from 0 to 1; it may end early, by escaping."""
        return 1.0 if self.finished else self.length / self.max_iterations

    def advance(self, iterations: int) -> None:
        """Do up to `iterations` more."""
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
        """(length + 1, 2) real and imaginary parts, to be scaled by `exponents`."""
        self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]

    def exponents(self) -> NDArray[np.int32]:
        """(length + 1,) powers of two; 0 but for tiny Z, VANISHED for 0."""
        self._exponents = [np.concatenate(self._exponents)]
        return self._exponents[0]


def compute(
    re: Fraction, im: Fraction, bits: int, max_iterations: int, progress: Callable[[float], bool] = lambda _: True
) -> Orbit:
    """The whole orbit. `progress` is called with the part done each PIECE iterations; if it gives False: Cancelled."""
    orbit = Orbit(re, im, bits, max_iterations)
    while not orbit.finished:
        orbit.advance(PIECE)
        if not progress(orbit.progress):
            raise Cancelled(f"the reference orbit was dropped after {orbit.length} of {max_iterations} iterations")
    return orbit


def _split(x: gmpy2.mpfr, y: gmpy2.mpfr) -> tuple[float, float, int]:
    """Both parts over one power of two, the larger one between 1/2 and 1."""
    exponents = [gmpy2.get_exp(part) for part in (x, y) if part]
    if not exponents:
        return 0.0, 0.0, VANISHED
    exponent = max(exponents)
    return float(gmpy2.mul_2exp(x, -exponent)), float(gmpy2.mul_2exp(y, -exponent)), exponent


# -- on the device, with its table


@dataclass(frozen=True)
class ReferenceOrbit:
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
    ) -> ReferenceOrbit:
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

    def at(self, place: Place, far: bool) -> ReferenceOrbit:
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


class ReferenceBuilder:
    """Computes an orbit near the centre of `place` in slices; then `reference` is there.

    bla: the backend's function of that name; log2_epsilon: what a jump may leave out; far: with exponents of their own;
    old: a builder whose orbit may serve again.
    """

    def __init__(
        self, device: Device, bla: Table, place: Place, max_iterations: int, log2_epsilon: float, far: bool,
        old: ReferenceBuilder | None,
    ) -> None:  # fmt: skip
        self._device, self._bla, self.place, self._epsilon, self._far = device, bla, place, log2_epsilon, far
        wanted = max(SHORTEST, max_iterations)
        self.orbit: Orbit
        self._reach = 0.0  # log2 of the distance that the table was made for
        if old is not None and _serves(old.orbit, place):
            self.orbit = old.orbit
            self.orbit.extend(wanted)
        else:
            self.orbit = Orbit(place.re, place.im, place.bits + SPARE_BITS, wanted)
        self._reference = self._kept(old) if old is not None and self.orbit is old.orbit else None

    def _kept(self, old: ReferenceBuilder) -> ReferenceOrbit | None:
        """The old builder's arrays, if they serve here too."""
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
        """log2 of the farthest pixel's distance from C, with a pixel to spare for moved samples."""
        x, y = (abs(float(part)) + 1 for part in self.place.away(*self.point))
        return self.place.spacing.log2 + math.log2(math.hypot(x + self.place.nx / 2, y + self.place.ny / 2))

    @property
    def ready(self) -> bool:
        """Whether `reference` is there."""
        return self._reference is not None

    @property
    def progress(self) -> float:
        """Part of the orbit that is done, from 0 to 1."""
        return self.orbit.progress

    @property
    def length(self) -> int:
        """Iterations of the orbit that are done."""
        return self.orbit.length

    @property
    def reference(self) -> ReferenceOrbit:
        """For the kernels; RuntimeError before it is ready."""
        if self._reference is None:
            raise RuntimeError("the reference orbit is not finished")
        return self._reference

    def at(self, place: Place) -> ReferenceOrbit:
        """The reference for the pixels of another view, about as large and in the same place."""
        return self.reference.at(place, self._far)

    def advance(self, slices: int, budget: int) -> int:
        """Do `slices` slices of the orbit; once it is finished, make the table and give `budget` back, else 0."""
        if not self.orbit.finished:
            self.orbit.advance(slices * PIECE)
            if not self.orbit.finished:
                return 0
        self._reach = self.log2_dc
        distances = self._reach, self._epsilon
        self._reference = ReferenceOrbit.of(self._device, self._bla, self.orbit, self.place, distances, self._far)
        return budget


def _serves(orbit: Orbit, place: Place) -> bool:
    """Whether an orbit is exact enough for a view, and near enough to it."""
    away = max(abs(part) for part in place.away(*orbit.point))
    return orbit.bits >= place.bits and away <= REACH * place.ny
