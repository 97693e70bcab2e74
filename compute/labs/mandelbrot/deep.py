"""The arithmetic of one pixel in deep views, written once: perturbation with rebasing and bilinear approximation.

A pixel c = C + dc follows the reference orbit Z of C: z_n = Z_m + d with d' = (2 Z_m + d) d + dc. When |z| < |d| the
pixel is nearer to 0 than to the reference, so it starts on it anew with d = z, m = 0 (rebasing): no glitches.
`perturb` and `perturb_far` read arrays, so they stay plain here: each backend compiles them with its own compiler.

Numba's cache does not see a change of this file in what calls it: then delete the __pycache__ of this folder.
"""

from __future__ import annotations

import math

from numba import njit

from compute.labs.mandelbrot.formula import ACTIVE, ESCAPED, PERIODIC

VANISHED = -(2**30)  # exponent of 0
LOST = -1100  # a part smaller than the sum by this power of two is below every bit of it


def perturb(reference, delta, m, n, end, top, dc, periodic):  # type: ignore[no-untyped-def]
    """Continue z_n = Z_m + d until |z|^2 > 4, z repeats or n >= end: (dx, dy, m, n, found, zx, zy), all in float64.

    reference: orbit (M + 1, 2), table (T, 4) of A and B, radius (T,) and start of bla.py as plain numbers. The last
    stretch may go beyond `end`, never beyond `top`: what a slice ends with does not depend on where it is cut. With
    `periodic`, d is compared with an earlier one (Brent) after each rebasing: what is equal there repeats for ever.
    """
    orbit, table, radius, start = reference
    dx, dy = delta
    cx, cy = dc
    last = orbit.shape[0] - 1
    levels = start.shape[0] - 1
    seen_x, seen_y, age, power = 8.0, 8.0, 0, 1
    zx = orbit[m, 0] + dx
    zy = orbit[m, 1] + dy
    while n < end:
        best, jump, level, j = -1, 0, 0, m - 1
        size = abs(dx) + abs(dy)
        while m > 0 and level < levels and (j & ((1 << level) - 1)) == 0:
            entry = start[level] + (j >> level)
            length = min(1 << level, last - 1 - j)
            if entry >= start[level + 1] or not size < radius[entry] or n + length > top:
                break
            best, jump, level = entry, length, level + 1
        if best >= 0:
            ax, ay, bx, by = table[best, 0], table[best, 1], table[best, 2], table[best, 3]
            dx, dy = ax * dx - ay * dy + (bx * cx - by * cy), ax * dy + ay * dx + (bx * cy + by * cx)
            m, n = m + jump, n + jump
        else:
            tx, ty = 2.0 * orbit[m, 0] + dx, 2.0 * orbit[m, 1] + dy
            dx, dy = dx * tx - dy * ty + cx, dx * ty + dy * tx + cy
            m, n = m + 1, n + 1
        zx, zy = orbit[m, 0] + dx, orbit[m, 1] + dy
        if not zx * zx + zy * zy <= 4.0:
            return dx, dy, m, n, ESCAPED, zx, zy
        if abs(zx) + abs(zy) < abs(dx) + abs(dy) or m == last:
            dx, dy, m = zx, zy, 0
            if periodic and dx == seen_x and dy == seen_y:
                return dx, dy, m, n, PERIODIC, zx, zy
            age += 1
            if age == power:
                seen_x, seen_y, age, power = dx, dy, 0, 2 * power
    return dx, dy, m, n, ACTIVE, zx, zy


def perturb_far(reference, delta, m, n, end, top, dc):  # type: ignore[no-untyped-def]
    """As `perturb`, beyond the range of float64: delta and dc are (x, y, e) for (x + iy) 2^e.

    reference: orbit and exponents of orbit.py, table (T, 4) of mantissas, powers (T, 2), log2 radius and start of
    bla.py. Returns (x, y, e, m, n, found, zx, zy). Looks for no period:
    a view this deep would have to be inside a copy of the set.
    """
    orbit, exponents, table, powers, radius, start = reference
    last = orbit.shape[0] - 1
    levels = start.shape[0] - 1
    x, y, e = delta
    cx, cy, ce = dc
    fx, fy = 0.0, 0.0
    while n < end:
        best, jump, level, j = -1, 0, 0, m - 1
        size = log2_size(x, y, e) if m > 0 else 0.0
        while m > 0 and level < levels and (j & ((1 << level) - 1)) == 0:
            entry = start[level] + (j >> level)
            length = min(1 << level, last - 1 - j)
            if entry >= start[level + 1] or not size < radius[entry] or n + length > top:
                break
            best, jump, level = entry, length, level + 1
        if best >= 0:
            ux, uy, ue = times(table[best, 0], table[best, 1], powers[best, 0], x, y, e)
            vx, vy, ve = times(table[best, 2], table[best, 3], powers[best, 1], cx, cy, ce)
            x, y, e = plus(ux, uy, ue, vx, vy, ve)
            m, n = m + jump, n + jump
        else:
            tx, ty, te = plus(2.0 * orbit[m, 0], 2.0 * orbit[m, 1], exponents[m], x, y, e)
            ux, uy, ue = times(x, y, e, tx, ty, te)
            x, y, e = plus(ux, uy, ue, cx, cy, ce)
            m, n = m + 1, n + 1
        zx, zy, ze = plus(orbit[m, 0], orbit[m, 1], exponents[m], x, y, e)
        fx, fy = scaled(zx, ze), scaled(zy, ze)
        if not fx * fx + fy * fy <= 4.0:
            return x, y, e, m, n, ESCAPED, fx, fy
        if smaller(zx, zy, ze, x, y, e) or m == last:
            x, y, e, m = zx, zy, ze, 0
    return x, y, e, m, n, ACTIVE, fx, fy


@njit(cache=True, nogil=True)
def scaled(x, power):  # type: ignore[no-untyped-def]
    """x 2^power; 0 where that is beyond float64."""
    return 0.0 if power < LOST else math.ldexp(x, power)


@njit(cache=True, nogil=True)
def normal(x, y, e):  # type: ignore[no-untyped-def]
    """The same number with mantissas within 2^40 of 1, so that squares and sums of a few stay in range."""
    largest = max(abs(x), abs(y))
    if largest == 0.0:
        return 0.0, 0.0, VANISHED
    if 1e-12 < largest < 1e12:
        return x, y, e
    shift = math.frexp(largest)[1]
    return math.ldexp(x, -shift), math.ldexp(y, -shift), e + shift


@njit(cache=True, nogil=True)
def plus(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """a + b."""
    if ae >= be:
        return normal(ax + scaled(bx, be - ae), ay + scaled(by, be - ae), ae)
    return normal(bx + scaled(ax, ae - be), by + scaled(ay, ae - be), be)


@njit(cache=True, nogil=True)
def times(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """a b."""
    return normal(ax * bx - ay * by, ax * by + ay * bx, max(ae + be, VANISHED))


@njit(cache=True, nogil=True)
def smaller(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """Whether |a| < |b|, in the norm |x| + |y|."""
    shift = ae - be
    if shift > 100:
        return False
    if shift < -100:
        return True
    return math.ldexp(abs(ax) + abs(ay), shift) < abs(bx) + abs(by)


@njit(cache=True, nogil=True)
def log2_size(x, y, e):  # type: ignore[no-untyped-def]
    """log2(|x| + |y|) + e; very low for 0."""
    size = abs(x) + abs(y)
    return math.log2(size) + e if size > 0.0 else -1e17
