"""Bilinear approximation: over a stretch of the reference orbit, a small delta becomes A delta + B dc.

Level 0 covers one step, each higher level two entries of the one below: a table with all stretches that begin at
1 + j 2^k. An entry may be used where |delta| is below its radius, so that the delta^2 left out is below the rounding.
Source: Zhuoran, "Another solution to perturbation glitches", fractalforums.org 2021, and C. Heiland-Allen's account.
Complex numbers are mantissa times power of two, because A and B outgrow float64 in deep views.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEVER = -1e18  # log2 of the radius of an entry that must not be used
ESCAPE2 = 4 * (1 - 1e-9)  # an entry must not jump over an index at which a pixel may escape

Numbers = NDArray[np.complex128]
Reals = NDArray[np.float64]
Powers = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """All levels, one after the other: level k has the entries start[k] to start[k + 1].

    a, b: mantissas, 1/2 <= |a| < 2, with powers a_power, b_power; radius: log2 R.
    """

    a: Numbers
    b: Numbers
    a_power: Powers
    b_power: Powers
    radius: Reals
    start: Powers


@dataclass(frozen=True)
class _Level:
    a: Numbers
    b: Numbers
    a_power: Powers
    b_power: Powers
    radius: Reals


def build(values: Reals, exponents: NDArray[np.int32], log2_dc: float, log2_epsilon: float) -> Table:
    """The table for the orbit Z_m = values[m] 2^exponents[m], m = 0 … M, and pixels with |dc| up to 2^log2_dc.

    log2_epsilon: part of a step's result that may be left out; -53 loses nothing against float64.
    """
    levels = [_first(values, exponents, log2_dc, log2_epsilon)]
    while levels[-1].a.size > 1:
        levels.append(_merge(levels[-1], log2_dc))
    sizes = [level.a.size for level in levels]
    start: Powers = np.cumsum([0, *sizes]).astype(np.int64)
    parts = [np.concatenate([getattr(level, name) for level in levels]) for name in _Level.__annotations__]
    return Table(parts[0], parts[1], parts[2], parts[3], parts[4], start)


def _first(values: Reals, exponents: NDArray[np.int32], log2_dc: float, log2_epsilon: float) -> _Level:
    """Single steps from Z_1 … Z_{M-1}: A = 2 Z, B = 1, R = epsilon |A| - |dc| / |A|."""
    z = values[1:-1, 0] + 1j * values[1:-1, 1]
    a, power = normal(2 * z, exponents[1:-1].astype(np.int64))
    size = _log2(a, power)
    radius = _minus(log2_epsilon + size, log2_dc - size)
    after = values[2:, 0] ** 2 + values[2:, 1] ** 2
    radius[after > ESCAPE2] = NEVER
    return _Level(a, np.ones_like(a), power, np.zeros_like(power), radius)


def _merge(below: _Level, log2_dc: float) -> _Level:
    """x then y: A = Ay Ax, B = Ay Bx + By, R = min(Rx, (Ry - |Bx| |dc|) / |Ax|); an odd last entry is copied."""
    even = below.a.size // 2 * 2
    x, y, odd = (_taken(below, part) for part in (slice(0, even, 2), slice(1, even, 2), slice(even, None)))
    a, a_power = normal(y.a * x.a, y.a_power + x.a_power)
    b, b_power = plus(*normal(y.a * x.b, y.a_power + x.b_power), y.b, y.b_power)
    reach = _minus(y.radius, _log2(x.b, x.b_power) + log2_dc) - _log2(x.a, x.a_power)
    radius = np.maximum(np.minimum(x.radius, reach), NEVER)
    radius[(x.radius <= NEVER) | (y.radius <= NEVER) | (a == 0)] = NEVER
    pairs = _Level(a, b, a_power, b_power, radius)
    joined = (np.concatenate([getattr(pairs, name), getattr(odd, name)]) for name in _Level.__annotations__)
    return _Level(*joined)


def _taken(level: _Level, which: slice) -> _Level:
    return _Level(*(getattr(level, name)[which] for name in _Level.__annotations__))


def normal(z: Numbers, power: Powers) -> tuple[Numbers, Powers]:
    """The same numbers with a mantissa around 1."""
    shift = np.frexp(np.maximum(np.abs(z.real), np.abs(z.imag)))[1].astype(np.int64)
    return scaled(z, -shift), np.where(z == 0, 0, power + shift)


def plus(a: Numbers, a_power: Powers, b: Numbers, b_power: Powers) -> tuple[Numbers, Powers]:
    """The sum of two arrays of such numbers."""
    top = np.maximum(np.where(a == 0, b_power, a_power), np.where(b == 0, a_power, b_power))
    return normal(scaled(a, a_power - top) + scaled(b, b_power - top), top)


def scaled(z: Numbers, power: Powers) -> Numbers:
    """z 2^power, 0 or inf where that is beyond float64."""
    power = np.clip(power, -2000, 2000)
    return np.ldexp(z.real, power) + 1j * np.ldexp(z.imag, power)


def _log2(z: Numbers, power: Powers) -> Reals:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(np.abs(z)) + power)


def _minus(a: Reals, b: Reals) -> Reals:
    """log2(2^a - 2^b), NEVER where that is not positive."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference = a + np.log2(1 - np.exp2(np.minimum(b - a, 0.0)))
    return np.where(b < a - 1e-9, difference, NEVER)
