"""The attracting cycle of z^2 + c, found for one pixel: plain scalar code that Numba compiles for the CPU and for CUDA.

A quadratic polynomial has at most one attracting cycle, and z = 0 runs into it (Fatou). So whatever cycle Newton's
method finds from somewhere on the orbit of 0: if its multiplier is at most 1 in size, it is the one, and there is no
need to wait until the orbit has come close. It is tried after 16, 32, 64 ... iterations, the shortest periods first.

Numba's cache does not see a change of this file in what calls it: then delete the __pycache__ of this folder.
"""

from __future__ import annotations

import math

from numba import njit

FIRST = 16  # iterations before the first try
NEWTON = 32  # steps at most; near a parabolic point each of them only halves the error
STILL2 = 1e-26  # squared length of a step after which there is nothing to gain
CLOSE2 = 1e-16  # of the last step of a cycle that is accepted, and the squared distance of points that count as one
SLACK = 1e-7  # by which rounding may lift |multiplier| above 1
NOTHING = -1.0  # no cycle


@njit(nogil=True)
def step(x, y, cr, ci):  # type: ignore[no-untyped-def]
    """z^2 + c."""
    return x * x - y * y + cr, 2.0 * x * y + ci


@njit(nogil=True)
def settled(x, y, cr, ci, period):  # type: ignore[no-untyped-def]
    """The point near x + iy that returns after `period` steps, by Newton's method: (x, y, whether it converged)."""
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
    """|product of 2 z| over the cycle of x + iy, whose true period divides `period`; NOTHING if it does not attract."""
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
    """|multiplier| of the attracting cycle of period <= `longest` near x + iy; NOTHING if none was found.

    Tries the periods after which the orbit comes closer to where it was than ever before.
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
    """|multiplier| of the attracting cycle of c, 0 to 1; NaN if none was found within `settle` iterations."""
    x, y, n, wanted = 0.0, 0.0, 0, FIRST
    while n < settle:
        for _ in range(min(wanted, settle) - n):
            x, y = step(x, y, cr, ci)
        n = min(wanted, settle)
        if not x * x + y * y <= 4.0:
            return math.nan
        size = attraction(x, y, cr, ci, min(longest, n))
        if size >= 0.0:
            return size
        wanted *= 2
    return math.nan
