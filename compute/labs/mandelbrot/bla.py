"""Bilinear approximation: over a stretch of the reference orbit, a small delta becomes A delta + B dc.

Level 0 covers one step, each higher level two entries of the level below: the table contains all stretches of 2^k steps
that begin at m = 1 + j, j a multiple of 2^k. An entry may be used where |delta| is below its radius, so that the
omitted delta^2 is below the rounding. Its index is 2 j + 2^k - 1 (the levels interleaved, as in a tree read from left
to right): entries with the same beginning are neighbours, and a kernel finds the longest usable entry without an index.
Source: Zhuoran, "Another solution to perturbation glitches", fractalforums.org 2021, and C. Heiland-Allen's account.
Complex numbers are mantissa times power of two, because A and B exceed the range of float64 in deep views.

The first part computes the table in NumPy, a level per pass. The second part computes single entries, for compilers:
from the orbit, or from two entries of the level below. Its functions that read arrays are plain functions here: each
backend compiles them with its own compiler. `plain`: everything is float64, R = 0 means unusable; `far`: mantissas and
powers of two, log2 R.

Numba's cache does not notice a change of this file in its callers: `fieldlab serve` deletes the stale kernels;
otherwise delete the __pycache__ of this folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

NEVER = -1e18  # log2 of the radius of an entry that must not be used
MARGIN = 1e-9  # least part of 4 by which |Z|^2 stays below 4 at an index inside a jump: see escape_bound
LEAST = 1e-9  # minimum difference of the terms of a radius, as a power of two: a smaller one is rounding
PLAIN_POWER = 1000  # powers of two below this let A, B and 1 / R be plain float64
LARGEST_A = 2  # log2 of the largest |A| = 2 |Z|

Numbers = NDArray[np.complex128]
Reals = NDArray[np.float64]
Powers = NDArray[np.int64]

SMALL, LARGE = 2.0**-PLAIN_POWER, 2.0 ** (PLAIN_POWER - 1)  # a number in this range has a power below PLAIN_POWER
PART = 2.0**-LEAST  # of the first term of a radius; the second term must be below it


def entries(last: int) -> int:
    """Return T, the number of table entries for an orbit Z_0 … Z_last; at least 1, so that no array is empty."""
    return max(1, 2 * (last - 1) - 1)


def reach(log2_epsilon: float) -> float:
    """Return a bound of all radii: R <= epsilon |A| at level 0, and merging never increases it."""
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
    radius (T,) float64: log2 R. Without `far`: plain numbers, exponents and powers unused, and R = 0 where any of these
    is out of range. log2_epsilon: log2 of the part of a step's result that may be omitted; -53 omits nothing compared
    with float64.
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
            level.radius[~usable] = NEVER  # also invalidates the entries merged from it
            radius[at] = np.where(usable, np.exp2(np.where(usable, level.radius, 0.0)), 0.0)
        level, k = _merge(level, log2_dc), k + 1


@dataclass(frozen=True)
class _Level:
    """The entries of one level: mantissas a, b with 1/2 <= |a| < 2, their powers, and log2 R."""

    a: Numbers
    b: Numbers
    a_power: Powers
    b_power: Powers
    radius: Reals


def _first(values: Reals, exponents: NDArray[np.int32], log2_dc: float, log2_epsilon: float) -> _Level:
    """Return the single steps from Z_1 … Z_{M-1}: A = 2 Z, B = 1, R = epsilon |A| - |dc| / |A|."""
    z = values[1:-1, 0] + 1j * values[1:-1, 1]
    a, power = normal(2 * z, exponents[1:-1].astype(np.int64))
    size = _log2(a, power)
    radius = _minus(log2_epsilon + size, log2_dc - size)
    after = values[2:, 0] ** 2 + values[2:, 1] ** 2
    radius[after > escape_bound(2.0**log2_epsilon)] = NEVER
    return _Level(a, np.ones_like(a), power, np.zeros_like(power), radius)


def _merge(below: _Level, log2_dc: float) -> _Level:
    """Merge x, y: A = Ay Ax, B = Ay Bx + By, R = min(Rx, (Ry - |Bx| |dc|) / |Ax|); an odd last entry is dropped."""
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
    """Return the same numbers with a mantissa around 1."""
    shift = np.frexp(np.maximum(np.abs(z.real), np.abs(z.imag)))[1].astype(np.int64)
    return scaled(z, -shift), np.where(z == 0, 0, power + shift)


def plus(a: Numbers, a_power: Powers, b: Numbers, b_power: Powers) -> tuple[Numbers, Powers]:
    """Return the sum of two arrays of such numbers."""
    top = np.maximum(np.where(a == 0, b_power, a_power), np.where(b == 0, a_power, b_power))
    return normal(scaled(a, a_power - top) + scaled(b, b_power - top), top)


def scaled(z: Numbers, power: Powers) -> Numbers:
    """Return z 2^power; 0 or inf outside the range of float64."""
    power = np.clip(power, -2000, 2000)
    return np.ldexp(z.real, power) + 1j * np.ldexp(z.imag, power)


def _log2(z: Numbers, power: Powers) -> Reals:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(np.abs(z)) + power)


def _minus(a: Reals, b: Reals) -> Reals:
    """Return log2(2^a - 2^b); NEVER where the difference is not positive."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference = a + np.log2(1 - np.exp2(np.minimum(b - a, 0.0)))
    return np.where(b < a - LEAST, difference, NEVER)


# -- single entries


def first_plain(i, orbit, table, radius, dc, epsilon):  # type: ignore[no-untyped-def]
    """Compute entry i of level 0, the step from Z_{i + 1}; dc: largest |dc|."""
    x, y, after_x, after_y = orbit[i + 1, 0], orbit[i + 1, 1], orbit[i + 2, 0], orbit[i + 2, 1]
    at = 2 * i
    table[at, 0], table[at, 1], table[at, 2], table[at, 3] = 2.0 * x, 2.0 * y, 1.0, 0.0
    size = length((2.0 * x, 2.0 * y))
    usable = in_range(2.0 * x, 2.0 * y) and after_x * after_x + after_y * after_y <= escape_bound(epsilon)
    radius[at] = less(epsilon * size, dc / size) if usable else 0.0


def merge_plain(i, level, table, radius, dc):  # type: ignore[no-untyped-def]
    """Compute entry i of a level above 0: first x, then y."""
    half = 1 << (level - 1)
    x = 4 * half * i + half - 1
    y, at = x + 2 * half, x + half
    xa, xb = (table[x, 0], table[x, 1]), (table[x, 2], table[x, 3])
    ya, yb = (table[y, 0], table[y, 1]), (table[y, 2], table[y, 3])
    ax, ay = product(ya, xa)
    bx, by = product(ya, xb)
    bx, by = bx + yb[0], by + yb[1]
    table[at, 0], table[at, 1], table[at, 2], table[at, 3] = ax, ay, bx, by
    usable = in_range(ax, ay) and (in_range(bx, by) or (bx == 0.0 and by == 0.0))
    reach = 0.0
    if usable and radius[x] > 0.0 and radius[y] > 0.0:
        reach = less(radius[y], length(xb) * dc) / length(xa)
        reach = min(radius[x], reach)
    radius[at] = reach if reach > SMALL else 0.0


def first_far(i, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon):  # type: ignore[no-untyped-def]
    """Compute the same entry as first_plain, with mantissas and powers."""
    at = 2 * i
    ax, ay, power = normalised(2.0 * orbit[i + 1, 0], 2.0 * orbit[i + 1, 1], exponents[i + 1])
    after = orbit[i + 2, 0] * orbit[i + 2, 0] + orbit[i + 2, 1] * orbit[i + 2, 1]
    table[at, 0], table[at, 1], table[at, 2], table[at, 3] = ax, ay, 1.0, 0.0
    powers[at, 0], powers[at, 1] = power, 0
    size = log2_of(ax, ay, power)
    usable = after <= escape_bound(2.0**log2_epsilon) and size > NEVER
    radius[at] = minus(log2_epsilon + size, log2_dc - size) if usable else NEVER


def merge_far(i, level, table, powers, radius, log2_dc):  # type: ignore[no-untyped-def]
    """Compute the same entry as merge_plain, with mantissas and powers."""
    half = 1 << (level - 1)
    x = 4 * half * i + half - 1
    y, at = x + 2 * half, x + half
    xa, xb = (table[x, 0], table[x, 1]), (table[x, 2], table[x, 3])
    ya, yb = (table[y, 0], table[y, 1]), (table[y, 2], table[y, 3])
    ax, ay = product(ya, xa)
    ax, ay, a_power = normalised(ax, ay, powers[x, 0] + powers[y, 0])
    bx, by = product(ya, xb)
    bx, by, b_power = total(bx, by, powers[x, 1] + powers[y, 0], yb[0], yb[1], powers[y, 1])
    table[at, 0], table[at, 1], table[at, 2], table[at, 3] = ax, ay, bx, by
    powers[at, 0], powers[at, 1] = a_power, b_power
    reach = NEVER
    if radius[x] > NEVER and radius[y] > NEVER and (ax != 0.0 or ay != 0.0):
        reach = minus(radius[y], log2_of(xb[0], xb[1], powers[x, 1]) + log2_dc) - log2_of(xa[0], xa[1], powers[x, 0])
        reach = min(radius[x], reach)
    radius[at] = max(reach, NEVER)


@njit(cache=True, nogil=True)
def escape_bound(epsilon):  # type: ignore[no-untyped-def]
    """Return the largest |Z|^2 at which a jump may pass an index, because no pixel escapes there.

    At such an index |delta| is below the radius of the next entry, which is at most `reach`, 4 epsilon; the bound
    leaves twice that. With epsilon = 2^-53 it is MARGIN, which also covers the rounding.
    """
    return 4.0 * (1.0 - max(MARGIN, 8.0 * epsilon))


@njit(cache=True, nogil=True)
def in_range(x, y):  # type: ignore[no-untyped-def]
    """Return whether a number is neither near the smallest nor the largest float64; False for NaN."""
    size = max(abs(x), abs(y))
    return size >= SMALL and size < LARGE and x == x and y == y  # noqa: PLR0124


@njit(cache=True, nogil=True)
def product(a, b):  # type: ignore[no-untyped-def]
    """Return a b."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


@njit(cache=True, nogil=True)
def length(a):  # type: ignore[no-untyped-def]
    """Return |a|."""
    square = a[0] * a[0] + a[1] * a[1]
    return math.sqrt(square) if 1e-280 < square < 1e280 else math.hypot(a[0], a[1])


@njit(cache=True, nogil=True)
def less(a, b):  # type: ignore[no-untyped-def]
    """Return a - b, or 0 if the difference is not positive."""
    return a - b if b < a * PART else 0.0


@njit(cache=True, nogil=True)
def normalised(x, y, e):  # type: ignore[no-untyped-def]
    """Return (x + iy) 2^e with the larger part between 1/2 and 1; 0 has the power 0."""
    largest = max(abs(x), abs(y))
    if largest == 0.0:
        return 0.0, 0.0, 0 * e
    shift = math.frexp(largest)[1]
    return math.ldexp(x, -shift), math.ldexp(y, -shift), e + shift


@njit(cache=True, nogil=True)
def total(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """Return a + b."""
    top = be if ax == 0.0 and ay == 0.0 else ae if bx == 0.0 and by == 0.0 else max(ae, be)
    down, other = max(ae - top, -2000), max(be - top, -2000)
    return normalised(math.ldexp(ax, down) + math.ldexp(bx, other), math.ldexp(ay, down) + math.ldexp(by, other), top)


@njit(cache=True, nogil=True)
def log2_of(x, y, e):  # type: ignore[no-untyped-def]
    """Return log2 |x + iy| + e for a normal number, NEVER for 0."""
    square = x * x + y * y
    return 0.5 * math.log2(square) + e if square > 0.0 else NEVER


@njit(cache=True, nogil=True)
def minus(a, b):  # type: ignore[no-untyped-def]
    """Return log2(2^a - 2^b); NEVER if the difference is not positive."""
    if b < a - 64.0:
        return a
    return a + math.log2(1.0 - 2.0 ** (b - a)) if b < a - LEAST else NEVER
