"""The arithmetic of one pixel: plain scalar code that Numba compiles for the CPU and for CUDA.

One step is z^2 + c as t = c_re - y y, d = x + x, y = d y + c_im, x = x x + t: on a GPU 3 fused multiply-adds and one
addition. On the CPU the compiler fuses no operations, so that the bits equal those of NumPy.

Numba's cache does not notice a change of this file in its callers: `fieldlab serve` deletes the stale kernels;
otherwise delete the __pycache__ of this folder.

The file also contains the iterations of the lecture, with an escape test after each step. Constants are passed as
numbers of z's type where the type matters.
"""

from __future__ import annotations

import math

from numba import njit

BLOCK = 16  # steps between two escape tests; the block in which a point escapes is replayed step by step
ACTIVE, ESCAPED, PERIODIC = 0, 1, 2  # results of `iterate`
FAR_STEPS = 64  # maximum steps from |z| = 2 to |z| = FAR; near c = -2 it grows slowly at first
FAR2 = 1e8  # |z|^2 at which the smooth count is computed: its error is below 1e-8


@njit(cache=True, nogil=True)
def iterate(x, y, cr, ci, n, end, four, periodic):  # type: ignore[no-untyped-def]
    """Iterate from z_n = x + iy until |z|^2 > 4, until z repeats, or until n = end; return (x, y, n, found).

    After an escape n is the first index with |z_n|^2 > 4. |z| > 2 grows without bound, inf and NaN included, so a test
    every BLOCK steps detects every escape. With `periodic`, z is compared with an earlier value (Brent): equality in
    every bit proves that the orbit never escapes in this arithmetic.
    """
    seen_x, seen_y, age, power = x, y, 0, 1
    while n + BLOCK <= end:
        begin_x, begin_y = x, y
        for _ in range(BLOCK):
            t = cr - y * y
            d = x + x
            y = d * y + ci
            x = x * x + t
        if not x * x + y * y <= four:
            x, y = begin_x, begin_y
            break
        n += BLOCK
        if periodic:
            if x == seen_x and y == seen_y:
                return x, y, n, PERIODIC
            age += 1
            if age == power:
                seen_x, seen_y, age, power = x, y, 0, 2 * power
    while n < end:
        t = cr - y * y
        d = x + x
        y = d * y + ci
        x = x * x + t
        n += 1
        if not x * x + y * y <= four:
            return x, y, n, ESCAPED
    return x, y, n, ACTIVE


@njit(cache=True, nogil=True)
def inside(cr, ci, quarter, sixteenth, one, margin):  # type: ignore[no-untyped-def]
    """Return whether c is in the main cardioid or the disc of period 2, by at least `margin`, which covers rounding.

    The constants are passed as numbers of c's type: a literal would turn float32 arithmetic into float64.
    """
    a = cr - quarter
    y2 = ci * ci
    q = a * a + y2
    left = cr + one
    return q * (q + a) + margin <= quarter * y2 or left * left + y2 + margin <= sixteenth


@njit(cache=True, nogil=True)
def smooth_count(x, y, cr, ci, n):  # type: ignore[no-untyped-def]
    """Return n + 1 - log2(ln|z_n| / ln 2), computed in float64 a few steps later, where the formula is accurate."""
    k = 0
    while k < FAR_STEPS and x * x + y * y < FAR2:
        x, y = x * x - y * y + cr, 2.0 * x * y + ci
        k += 1
    return n + k + 1.0 - math.log2(math.log2(x * x + y * y) * 0.5)


# -- the lecture's iterations: each continues from z_n until |z| > 2 or n = end and returns (x, y, n, found)


@njit(cache=True, nogil=True)
def each_step(x, y, cr, ci, n, end, four):  # type: ignore[no-untyped-def]
    """Iterate with the textbook's loop in real arithmetic, entirely in the type of z."""
    while n < end:
        t = x * x - y * y + cr
        y = (x + x) * y + ci
        x = t
        n += 1
        if x * x + y * y > four:
            return x, y, n, ESCAPED
    return x, y, n, ACTIVE


@njit(cache=True, nogil=True)
def literals(x, y, cr, ci, n, end):  # type: ignore[no-untyped-def]
    """Iterate like `each_step`, with literals: 2 x y is float64 if 2 is int64, as is a comparison with 4.0."""
    while n < end:
        t = x * x - y * y + cr
        y = 2 * x * y + ci
        x = t
        n += 1
        if x * x + y * y > 4.0:
            return x, y, n, ESCAPED
    return x, y, n, ACTIVE


@njit(cache=True, nogil=True)
def complex_power(x, y, cr, ci, n, end):  # type: ignore[no-untyped-def]
    """Iterate z = z**2 + c until abs(z) > 2, as in a textbook: a general power and a hypotenuse in each step."""
    z, c = complex(x, y), complex(cr, ci)
    while n < end:
        z = z**2 + c
        n += 1
        if abs(z) > 2:
            return z.real, z.imag, n, ESCAPED
    return z.real, z.imag, n, ACTIVE


# -- the attracting cycle of z^2 + c, found for one pixel
#
# A quadratic polynomial has at most one attracting cycle, and the orbit of z = 0 converges to it (Fatou). So any cycle
# that Newton's method finds from a point of the orbit of 0 is the attracting cycle if its multiplier is at most 1 in
# size, and the search need not wait until the orbit is close to it. The search runs after 16, 32, 64 ... iterations,
# the shortest periods first.

FIRST = 16  # iterations before the first try
NEWTON = 32  # maximum number of steps; near a parabolic point each of them only halves the error
STILL2 = 1e-26  # squared length of a step after which the iteration stops
CLOSE2 = 1e-16  # of the last step of an accepted cycle, and the squared distance of points that count as equal
SLACK = 1e-7  # by which rounding may lift |multiplier| above 1
NOTHING = -1.0  # no cycle


@njit(nogil=True)
def step(x, y, cr, ci):  # type: ignore[no-untyped-def]
    """Return z^2 + c."""
    return x * x - y * y + cr, 2.0 * x * y + ci


@njit(nogil=True)
def settled(x, y, cr, ci, period):  # type: ignore[no-untyped-def]
    """Find the point near x + iy that returns after `period` steps, by Newton's method; return (x, y, converged)."""
    move = math.inf
    for _ in range(NEWTON):
        u, v, a, b = x, y, 1.0, 0.0
        for _ in range(period):
            a, b = 2.0 * (u * a - v * b), 2.0 * (u * b + v * a)
            u, v = step(u, v, cr, ci)
        p, q, r = u - x, v - y, a - 1.0
        size = r * r + b * b
        if not (size > 0.0 and u * u + v * v <= 16.0):  # no direction, or far away from every bounded orbit
            return x, y, False
        dx, dy = (p * r + q * b) / size, (q * r - p * b) / size
        x, y = x - dx, y - dy
        move = dx * dx + dy * dy
        if move <= STILL2:
            break
    return x, y, move <= CLOSE2 and x * x + y * y <= 4.0


@njit(nogil=True)
def strength(x, y, cr, ci, period):  # type: ignore[no-untyped-def]
    """Return |product of 2 z| over the cycle of x + iy, or NOTHING if it does not attract.

    The true period of the cycle divides `period`.
    """
    u, v, a, b = x, y, 1.0, 0.0
    for _ in range(period):
        a, b = 2.0 * (u * a - v * b), 2.0 * (u * b + v * a)
        u, v = step(u, v, cr, ci)
        if (u - x) * (u - x) + (v - y) * (v - y) <= CLOSE2:
            break
    size = math.sqrt(a * a + b * b)
    return min(size, 1.0) if size <= 1.0 + SLACK else NOTHING


@njit(nogil=True)
def attraction(x, y, cr, ci, longest):  # type: ignore[no-untyped-def]
    """Return |multiplier| of the attracting cycle of period <= `longest` near x + iy; NOTHING if none was found.

    Tries the periods after which the orbit is closer to its start than after any shorter period.
    """
    best, u, v = math.inf, x, y
    for period in range(1, longest + 1):
        u, v = step(u, v, cr, ci)
        apart = (u - x) * (u - x) + (v - y) * (v - y)
        if apart < best:
            best = apart
            at_x, at_y, found = settled(x, y, cr, ci, period)
            size = strength(at_x, at_y, cr, ci, period) if found else NOTHING
            if size >= 0.0:
                return size
    return NOTHING


@njit(nogil=True)
def multiplier_at(cr, ci, settle, longest):  # type: ignore[no-untyped-def]
    """Return |multiplier| of the attracting cycle of c, 0 to 1; NaN if none was found within `settle` iterations."""
    x, y, n, limit = 0.0, 0.0, 0, FIRST
    while n < settle:
        for _ in range(min(limit, settle) - n):
            x, y = step(x, y, cr, ci)
        n = min(limit, settle)
        if not x * x + y * y <= 4.0:
            return math.nan
        size = attraction(x, y, cr, ci, min(longest, n))
        if size >= 0.0:
            return size
        limit *= 2
    return math.nan
