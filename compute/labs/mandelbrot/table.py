"""The entries of the table of bla.py one by one, for compilers: from the orbit, or from two entries a level below.

The functions that read arrays stay plain here: each backend compiles them with its own compiler. `plain`: everything
is float64, R = 0 means unusable; `far`: mantissas and powers of two, log2 R.

Numba's cache does not see a change of this file in what calls it: then delete the __pycache__ of this folder.
"""

from __future__ import annotations

import math

from numba import njit

from compute.labs.mandelbrot.bla import ESCAPE2, LEAST, NEVER, PLAIN_POWER

SMALL, LARGE = 2.0**-PLAIN_POWER, 2.0 ** (PLAIN_POWER - 1)  # a number in this range has a power below PLAIN_POWER
PART = 2.0**-LEAST  # of the first term of a radius, that the second must stay below


def first_plain(i, orbit, table, radius, dc, epsilon):  # type: ignore[no-untyped-def]
    """Entry i of level 0, the step from Z_{i + 1}; dc: largest |dc|."""
    x, y, after_x, after_y = orbit[i + 1, 0], orbit[i + 1, 1], orbit[i + 2, 0], orbit[i + 2, 1]
    at = 2 * i
    table[at, 0], table[at, 1], table[at, 2], table[at, 3] = 2.0 * x, 2.0 * y, 1.0, 0.0
    size = length((2.0 * x, 2.0 * y))
    usable = in_range(2.0 * x, 2.0 * y) and after_x * after_x + after_y * after_y <= ESCAPE2
    radius[at] = less(epsilon * size, dc / size) if usable else 0.0


def merge_plain(i, level, table, radius, dc):  # type: ignore[no-untyped-def]
    """Entry i of a level above 0: first x, then y."""
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
    """As first_plain, for mantissas and powers."""
    at = 2 * i
    ax, ay, power = normal(2.0 * orbit[i + 1, 0], 2.0 * orbit[i + 1, 1], exponents[i + 1])
    after = orbit[i + 2, 0] * orbit[i + 2, 0] + orbit[i + 2, 1] * orbit[i + 2, 1]
    table[at, 0], table[at, 1], table[at, 2], table[at, 3] = ax, ay, 1.0, 0.0
    powers[at, 0], powers[at, 1] = power, 0
    size = log2_of(ax, ay, power)
    radius[at] = minus(log2_epsilon + size, log2_dc - size) if after <= ESCAPE2 and size > NEVER else NEVER


def merge_far(i, level, table, powers, radius, log2_dc):  # type: ignore[no-untyped-def]
    """As merge_plain, for mantissas and powers."""
    half = 1 << (level - 1)
    x = 4 * half * i + half - 1
    y, at = x + 2 * half, x + half
    xa, xb = (table[x, 0], table[x, 1]), (table[x, 2], table[x, 3])
    ya, yb = (table[y, 0], table[y, 1]), (table[y, 2], table[y, 3])
    ax, ay = product(ya, xa)
    ax, ay, a_power = normal(ax, ay, powers[x, 0] + powers[y, 0])
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
def in_range(x, y):  # type: ignore[no-untyped-def]
    """Whether a number is neither near the smallest nor the largest float64; False for NaN."""
    size = max(abs(x), abs(y))
    return size >= SMALL and size < LARGE and x == x and y == y  # noqa: PLR0124


@njit(cache=True, nogil=True)
def product(a, b):  # type: ignore[no-untyped-def]
    """a b."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


@njit(cache=True, nogil=True)
def length(a):  # type: ignore[no-untyped-def]
    """|a|."""
    square = a[0] * a[0] + a[1] * a[1]
    return math.sqrt(square) if 1e-280 < square < 1e280 else math.hypot(a[0], a[1])


@njit(cache=True, nogil=True)
def less(a, b):  # type: ignore[no-untyped-def]
    """a - b, 0 where that is not positive."""
    return a - b if b < a * PART else 0.0


@njit(cache=True, nogil=True)
def normal(x, y, e):  # type: ignore[no-untyped-def]
    """(x + iy) 2^e with the larger part between 1/2 and 1; 0 has the power 0."""
    largest = max(abs(x), abs(y))
    if largest == 0.0:
        return 0.0, 0.0, 0 * e
    shift = math.frexp(largest)[1]
    return math.ldexp(x, -shift), math.ldexp(y, -shift), e + shift


@njit(cache=True, nogil=True)
def total(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """a + b."""
    top = be if ax == 0.0 and ay == 0.0 else ae if bx == 0.0 and by == 0.0 else max(ae, be)
    down, other = max(ae - top, -2000), max(be - top, -2000)
    return normal(math.ldexp(ax, down) + math.ldexp(bx, other), math.ldexp(ay, down) + math.ldexp(by, other), top)


@njit(cache=True, nogil=True)
def log2_of(x, y, e):  # type: ignore[no-untyped-def]
    """log2 |x + iy| + e for a normal number, NEVER for 0."""
    square = x * x + y * y
    return 0.5 * math.log2(square) + e if square > 0.0 else NEVER


@njit(cache=True, nogil=True)
def minus(a, b):  # type: ignore[no-untyped-def]
    """log2(2^a - 2^b), NEVER where that is not positive."""
    if b < a - 64.0:
        return a
    return a + math.log2(1.0 - 2.0 ** (b - a)) if b < a - LEAST else NEVER
