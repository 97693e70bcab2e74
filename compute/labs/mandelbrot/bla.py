"""Bilinear approximation: over a stretch of the reference orbit, a small delta becomes A delta + B dc.

Level 0 covers one step, each higher level two entries of the one below: a table with all stretches of 2^k steps that
begin at m = 1 + j, j a multiple of 2^k. An entry may be used where |delta| is below its radius, so that the delta^2
left out is below the rounding. It stands at 2 j + 2^k - 1 (the levels interleaved, as in a tree read from left to
right): entries with the same beginning are neighbours, and a kernel finds the longest usable one without an index.
Source: Zhuoran, "Another solution to perturbation glitches", fractalforums.org 2021, and C. Heiland-Allen's account.
Complex numbers are mantissa times power of two, because A and B outgrow float64 in deep views.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEVER = -1e18  # log2 of the radius of an entry that must not be used
ESCAPE2 = 4 * (1 - 1e-9)  # an entry must not jump over an index at which a pixel may escape
LEAST = 1e-9  # the terms of a radius must differ by this power of two at least: below it is rounding
PLAIN_POWER = 1000  # powers of two below which A, B and 1 / R are plain float64
LARGEST_A = 2  # log2 of |A| = 2 |Z| at most

Numbers = NDArray[np.complex128]
Reals = NDArray[np.float64]
Powers = NDArray[np.int64]


def entries(last: int) -> int:
    """T: entries of the table of an orbit Z_0 … Z_last; one at least, so that no array is empty."""
    return max(1, 2 * (last - 1) - 1)


def reach(log2_epsilon: float) -> float:
    """No radius is larger, at any level: R <= epsilon |A| at level 0, and no merged one exceeds its parts."""
    return float(2.0 ** (log2_epsilon + LARGEST_A))


def bla(
    orbit: Reals,
    exponents: NDArray[np.int32],
    table: Reals,
    powers: NDArray[np.int32],
    radius: Reals,
    log2_dc: float,
    log2_epsilon: float,
    far: bool,
) -> None:
    """Fill the table of the orbit Z_m = orbit[m] 2^exponents[m], m = 0 … M, for pixels with |dc| up to 2^log2_dc.

    orbit (M + 1, 2) float64, exponents (M + 1,) int32; table (T, 4) float64: A and B, powers (T, 2) int32 of both,
    radius (T,) float64: log2 R. Not `far`: plain numbers, exponents and powers unused, and R = 0 where any of these is
    out of range. log2_epsilon: part of a step's result that may be left out; -53 loses nothing against float64.
    """
    level, k = _first(orbit, exponents if far else np.zeros(len(orbit), np.int32), log2_dc, log2_epsilon), 0
    while level.a.size:
        at = (np.arange(level.a.size) << (k + 1)) + (1 << k) - 1
        numbers = np.stack([level.a.real, level.a.imag, level.b.real, level.b.imag], axis=1)
        shifts: NDArray[np.int64] = np.stack([level.a_power, level.b_power], axis=1)
        if far:
            table[at], powers[at], radius[at] = numbers, shifts, level.radius
        else:
            usable = np.all(np.abs(shifts) < PLAIN_POWER, axis=1) & (level.radius > -PLAIN_POWER)
            table[at] = np.ldexp(numbers, np.where(usable[:, None], shifts, 0).repeat(2, axis=1))
            level.radius[~usable] = NEVER  # nor what would be merged from it
            radius[at] = np.where(usable, np.exp2(np.where(usable, level.radius, 0.0)), 0.0)
        level, k = _merge(level, log2_dc), k + 1


@dataclass(frozen=True)
class _Level:
    """Mantissas a, b with 1/2 <= |a| < 2, their powers, and log2 R."""

    a: Numbers
    b: Numbers
    a_power: Powers
    b_power: Powers
    radius: Reals


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
    """x then y: A = Ay Ax, B = Ay Bx + By, R = min(Rx, (Ry - |Bx| |dc|) / |Ax|); an odd last entry has no pair."""
    even = below.a.size // 2 * 2
    x, y = (_taken(below, part) for part in (slice(0, even, 2), slice(1, even, 2)))
    a, a_power = normal(y.a * x.a, y.a_power + x.a_power)
    b, b_power = plus(*normal(y.a * x.b, y.a_power + x.b_power), y.b, y.b_power)
    reach = _minus(y.radius, _log2(x.b, x.b_power) + log2_dc) - _log2(x.a, x.a_power)
    radius = np.maximum(np.minimum(x.radius, reach), NEVER)
    radius[(x.radius <= NEVER) | (y.radius <= NEVER) | (a == 0)] = NEVER
    return _Level(a, b, a_power, b_power, radius)


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
    return np.where(b < a - LEAST, difference, NEVER)
