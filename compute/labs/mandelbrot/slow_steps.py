"""The lecture's ways to iterate one pixel, for Numba on the CPU and on the GPU: an escape test after each step.

Each continues from z_n = x + iy until |z| > 2 or n = end and returns (x, y, n, found) as formula.iterate does; no
shortcuts. Constants come in as numbers of z's type where that matters.
"""

from __future__ import annotations

from numba import njit

from compute.labs.mandelbrot.formula import ACTIVE, ESCAPED


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
