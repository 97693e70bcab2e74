"""Arrays of complex numbers for perturbation in NumPy: plain float64, and with an exponent beyond its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from compute.labs.mandelbrot import bla
from compute.labs.mandelbrot.state import Reference

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Plain:
    """(n,) complex128, with the operations of `Wide`."""

    a: NDArray[np.complex128]
    power: Any = 0

    @classmethod
    def orbit(cls, reference: Reference) -> Plain:
        """Z_0 … Z_M."""
        return cls(reference.orbit[:, 0] + 1j * reference.orbit[:, 1])

    def __getitem__(self, which: Any) -> Plain:
        return Plain(self.a[which])

    def __add__(self, other: Self) -> Plain:
        return Plain(self.a + other.a)

    def __mul__(self, other: Self) -> Plain:
        return Plain(self.a * other.a)

    def value(self) -> NDArray[np.complex128]:
        """In float64."""
        return self.a

    def smaller(self, other: Self) -> Mask:
        """Where |self| < |other|, in the norm |x| + |y|."""
        return np.asarray(_size(self.a) < _size(other.a))

    def where(self, mask: Mask, other: Self) -> Plain:
        """`other` where mask is set, else self."""
        return Plain(np.where(mask, other.a, self.a))


@dataclass(frozen=True)
class Wide:
    """(n,) numbers a 2^power with |a| around 1: complex128 and int64."""

    a: NDArray[np.complex128]
    power: NDArray[np.int64]

    @classmethod
    def of(cls, a: NDArray[np.complex128], power: NDArray[np.int64]) -> Wide:
        """a 2^power with its mantissa brought near 1."""
        return cls(*bla.normal(a, power))

    @classmethod
    def orbit(cls, reference: Reference) -> Wide:
        """Z_0 … Z_M."""
        return cls.of(reference.orbit[:, 0] + 1j * reference.orbit[:, 1], reference.exponents.astype(np.int64))

    def __getitem__(self, which: Any) -> Wide:
        return Wide(self.a[which], self.power[which])

    def __add__(self, other: Self) -> Wide:
        return Wide(*bla.plus(self.a, self.power, other.a, other.power))

    def __mul__(self, other: Self) -> Wide:
        return Wide.of(self.a * other.a, self.power + other.power)

    def value(self) -> NDArray[np.complex128]:
        """In float64; 0 where that is too small."""
        return bla.scaled(self.a, self.power)

    def smaller(self, other: Self) -> Mask:
        """Where |self| < |other|, in the norm |x| + |y|."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log2(_size(self.a)) + self.power < np.log2(_size(other.a)) + other.power)

    def where(self, mask: Mask, other: Self) -> Wide:
        """`other` where mask is set, else self."""
        return Wide(np.where(mask, other.a, self.a), np.where(mask, other.power, self.power))


def _size(z: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.asarray(np.abs(z.real) + np.abs(z.imag))
