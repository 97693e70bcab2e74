"""The arithmetic of one pixel, written once: plain scalar code that Numba compiles for the CPU and for CUDA.

One step is z^2 + c as t = c_re - y y, d = x + x, y = d y + c_im, x = x x + t: on a GPU 3 fused multiply-adds and one
addition. On the CPU nothing is fused, so that the bits are those of NumPy.

Numba's cache does not see a change of this file in what calls it: then delete the __pycache__ of this folder.

The lecture's ways to iterate one pixel are here too, with an escape test after each step. Constants come in as numbers
of z's type where that matters.
"""

from __future__ import annotations

import math

from numba import njit

BLOCK = 16  # steps between two escape tests; the block in which a point escapes is replayed step by step
ACTIVE, ESCAPED, PERIODIC = 0, 1, 2  # what `iterate` found
FAR_STEPS = 64  # steps at most from |z| = 2 to |z| = FAR; near c = -2 it grows slowly at first
FAR2 = 1e8  # |z|^2 at which the smooth count is read off: its error is below 1e-8


@njit(cache=True, nogil=True)
def iterate(x, y, cr, ci, n, end, four, periodic):  # type: ignore[no-untyped-def]
    """Continue from z_n = x + iy until |z|^2 > 4, until z repeats, or until n = end: (x, y, n, found).

    After an escape n is the first index with |z_n|^2 > 4. |z| > 2 grows without bound, inf and NaN included, so a test
    each BLOCK steps misses nothing. With `periodic`, z is compared with an earlier one (Brent): equality in every bit
    proves that the orbit never escapes in this arithmetic.
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
    """Whether c lies in the main cardioid or the disc of period 2, by at least `margin`, so that rounding is no risk.

    The constants come in as numbers of c's type: a literal would turn float32 arithmetic into float64.
    """
    a = cr - quarter
    y2 = ci * ci
    q = a * a + y2
    left = cr + one
    return q * (q + a) + margin <= quarter * y2 or left * left + y2 + margin <= sixteenth


@njit(cache=True, nogil=True)
def smooth_count(x, y, cr, ci, n):  # type: ignore[no-untyped-def]
    """n + 1 - log2(ln|z_n| / ln 2), read off a few steps later where it is accurate. Everything in float64."""
    k = 0
    while k < FAR_STEPS and x * x + y * y < FAR2:
        x, y = x * x - y * y + cr, 2.0 * x * y + ci
        k += 1
    return n + k + 1.0 - math.log2(math.log2(x * x + y * y) * 0.5)


# -- the lecture's ways: each continues from z_n until |z| > 2 or n = end and returns (x, y, n, found)


@njit(cache=True, nogil=True)
def each_step(x, y, cr, ci, n, end, four):  # type: ignore[no-untyped-def]
    """The textbook's loop in real arithmetic, all of it in the type of z."""
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
    """The same, written with literals: 2 x y is float64 where 2 is an int64, and so is a comparison with 4.0."""
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
    """As one writes it: z = z**2 + c until abs(z) > 2; a general power and a hypotenuse in each step."""
    z, c = complex(x, y), complex(cr, ci)
    while n < end:
        z = z**2 + c
        n += 1
        if abs(z) > 2:
            return z.real, z.imag, n, ESCAPED
    return z.real, z.imag, n, ACTIVE
