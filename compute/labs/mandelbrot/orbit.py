"""The reference orbit of perturbation: one point of the view in as many digits as its depth needs (gmpy2, MPFR).

It is computed in pieces, so that whoever asked for it stays responsive, sees its progress and may drop it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import gmpy2
import numpy as np
from numpy.typing import NDArray

from compute.labs.mandelbrot.deep import VANISHED

ESCAPED2 = 1e6  # |Z|^2 at which it ends: some way beyond 4, for the pixels that escape later than the reference
TINY = 1e-150  # parts below this are kept with an exponent of their own: their squares must not vanish
PIECE = 4096  # iterations between two reports


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
