"""The arithmetic of one pixel in deep views: perturbation with rebasing and bilinear approximation.

A pixel c = C + dc follows the reference orbit Z of C: z_n = Z_m + d with d' = (2 Z_m + d) d + dc. When |z| < |d| the
pixel is nearer to 0 than to the reference, so it restarts on the reference with d = z, m = 0 (rebasing), which avoids
glitches. `perturb` and `perturb_far` read arrays, so they are plain functions here: each backend compiles them with its
own compiler.

Numba's cache does not notice a change of this file in its callers: `fieldlab serve` deletes the stale kernels;
otherwise delete the __pycache__ of this folder.
"""

from __future__ import annotations

import math

from numba import njit

from compute.labs.mandelbrot.formula import ACTIVE, ESCAPED, PERIODIC

VANISHED = -(2**30)  # exponent of 0
LOST = -1100  # a summand smaller than the sum by this power of two does not change any bit of it
FAR_BELOW = -200  # a number with a lower exponent is below reach


def perturb(reference, delta, m, n, end, top, dc, periodic):  # type: ignore[no-untyped-def]
    """Iterate z_n = Z_m + d until |z|^2 > 4, z repeats or n >= end; return (dx, dy, m, n, found, zx, zy) in float64.

    reference: orbit (M + 1, 2), as plain numbers table (T, 4), radius (T,) and reach of bla.py, and settled and cycle
    of ReferenceOrbit. The last jump may pass `end`, but never `top`, so that the results do not depend on how the
    iterations are divided into slices. With `periodic`, d is compared with an earlier value (Brent) after each rebasing
    and each `cycle` steps: if d and the remaining orbit are equal, z repeats for ever.
    """
    orbit, table, radius, reach, settled, cycle = reference
    dx, dy = delta
    cx, cy = dc
    last = orbit.shape[0] - 1
    seen_x, seen_y, seen_m, age, power, look = 8.0, 8.0, m, 0, 1, n + cycle
    here_x, here_y = orbit[m, 0], orbit[m, 1]
    zx, zy, size = here_x + dx, here_y + dy, abs(dx) + abs(dy)
    while n < end:
        jump, length, j, room = 0, 1, m - 1, min(last - m, top - n)
        if size < reach and m > 0:
            while length <= room and (j & (length - 1)) == 0 and size < radius[2 * j + length - 1]:
                jump, length = length, 2 * length
        if jump > 0:
            at = 2 * j + jump - 1
            ax, ay, bx, by = table[at, 0], table[at, 1], table[at, 2], table[at, 3]
            dx, dy = ax * dx - ay * dy + (bx * cx - by * cy), ax * dy + ay * dx + (bx * cy + by * cx)
        else:
            jump = 1
            dx, dy = step(dx, dy, (here_x, here_y), cx, cy)
        m, n = m + jump, n + jump
        here_x, here_y = orbit[m, 0], orbit[m, 1]
        zx, zy = here_x + dx, here_y + dy
        if not zx * zx + zy * zy <= 4.0:
            return dx, dy, m, n, ESCAPED, zx, zy
        size, size_z = abs(dx) + abs(dy), abs(zx) + abs(zy)
        nearer = size_z < size or m == last
        if nearer:
            dx, dy, m, size, here_x, here_y = zx, zy, 0, size_z, 0.0, 0.0
        if periodic and (nearer or n >= look):
            if dx == seen_x and dy == seen_y and alike(m, seen_m, settled, cycle):
                return dx, dy, m, n, PERIODIC, zx, zy
            age, look = age + 1, n + cycle
            if age == power:
                seen_x, seen_y, seen_m, age, power = dx, dy, m, 0, 2 * power
    return dx, dy, m, n, ACTIVE, zx, zy


def perturb_far(reference, delta, m, n, end, top, dc):  # type: ignore[no-untyped-def]
    """Iterate like `perturb`, outside the range of float64: delta and dc are (x, y, e) for (x + iy) 2^e.

    reference: orbit and exponents of reference_orbit.py, table (T, 4) of mantissas, powers (T, 2), log2 radius and
    reach of bla.py. Returns (x, y, e, m, n, found, zx, zy). A delta above reach, which no table entry covers, is far
    above the smallest float64 and is iterated with e = 0: nearly all of the work. Periods are not detected.
    """
    orbit, exponents, table, powers, radius, reach = reference
    last = orbit.shape[0] - 1
    x, y, e = delta
    cx, cy = scaled(dc[0], dc[2]), scaled(dc[1], dc[2])
    here = orbit[m, 0], orbit[m, 1], exponents[m]
    fx, fy = 0.0, 0.0
    while n < end:
        if e == 0 and abs(x) + abs(y) >= reach:
            x, y = step(x, y, above(here), cx, cy)
            m, n = m + 1, n + 1
            here = orbit[m, 0], orbit[m, 1], exponents[m]
            fx, fy = full_value(here, x, y)
            z, nearer = (fx, fy, e), abs(fx) + abs(fy) < abs(x) + abs(y)
        else:
            x, y, e = normal(x, y, e)
            jump, length, j, room = 0, 1, m - 1, min(last - m, top - n) if m > 0 else 0
            size = log2_size(x, y, e)
            while length <= room and (j & (length - 1)) == 0 and size < radius[2 * j + length - 1]:
                jump, length = length, 2 * length
            if jump > 0:
                at = 2 * j + jump - 1
                entry = table[at, 0], table[at, 1], powers[at, 0], table[at, 2], table[at, 3], powers[at, 1]
                x, y, e = leap_far(x, y, e, entry, dc)
            else:
                jump = 1
                x, y, e = step_far(x, y, e, here, dc)
            m, n = m + jump, n + jump
            here = orbit[m, 0], orbit[m, 1], exponents[m]
            z = plus(here[0], here[1], here[2], x, y, e)
            fx, fy = scaled(z[0], z[2]), scaled(z[1], z[2])
            nearer = smaller(z[0], z[1], z[2], x, y, e)
        if not fx * fx + fy * fy <= 4.0:
            return x, y, e, m, n, ESCAPED, fx, fy
        if nearer or m == last:
            x, y, e = z
            m, here = 0, (orbit[0, 0], orbit[0, 1], exponents[0])
        x, y, e = levelled(x, y, e, reach)
    return x, y, e, m, n, ACTIVE, fx, fy


@njit(cache=True, nogil=True)
def alike(m, other, settled, cycle):  # type: ignore[no-untyped-def]
    """Return whether the orbit continues through the same numbers from both indices."""
    return m == other or (min(m, other) >= settled and (m - other) % cycle == 0)


@njit(cache=True, nogil=True)
def step(x, y, z, cx, cy):  # type: ignore[no-untyped-def]
    """Return d' = (2 Z + d) d + dc."""
    tx, ty = 2.0 * z[0] + x, 2.0 * z[1] + y
    return x * tx - y * ty + cx, x * ty + y * tx + cy


@njit(cache=True, nogil=True)
def step_far(x, y, e, z, dc):  # type: ignore[no-untyped-def]
    """Return the same as `step`, with exponents."""
    tx, ty, te = plus(2.0 * z[0], 2.0 * z[1], z[2], x, y, e)
    ux, uy, ue = times(x, y, e, tx, ty, te)
    return plus(ux, uy, ue, dc[0], dc[1], dc[2])


@njit(cache=True, nogil=True)
def leap_far(x, y, e, entry, dc):  # type: ignore[no-untyped-def]
    """Return A d + B dc."""
    ux, uy, ue = times(entry[0], entry[1], entry[2], x, y, e)
    vx, vy, ve = times(entry[3], entry[4], entry[5], dc[0], dc[1], dc[2])
    return plus(ux, uy, ue, vx, vy, ve)


@njit(cache=True, nogil=True)
def above(z):  # type: ignore[no-untyped-def]
    """Return Z as a plain number; 0 for a tiny Z, which is negligible compared with a delta above reach."""
    return (z[0], z[1]) if z[2] == 0 else (0.0, 0.0)


@njit(cache=True, nogil=True)
def full_value(z, x, y):  # type: ignore[no-untyped-def]
    """Return Z + d as a plain number."""
    zx, zy = above(z)
    return zx + x, zy + y


@njit(cache=True, nogil=True)
def levelled(x, y, e, reach):  # type: ignore[no-untyped-def]
    """Return the same number, with e = 0 if it is above reach."""
    if e == 0 or e < FAR_BELOW:
        return x, y, e
    fx, fy = scaled(x, e), scaled(y, e)
    return (fx, fy, 0 * e) if abs(fx) + abs(fy) >= reach else (x, y, e)


@njit(cache=True, nogil=True)
def scaled(x, power):  # type: ignore[no-untyped-def]
    """Return x 2^power; 0 below the range of float64."""
    return 0.0 if power < LOST else math.ldexp(x, power)


@njit(cache=True, nogil=True)
def normal(x, y, e):  # type: ignore[no-untyped-def]
    """Return the same number with mantissas within 2^40 of 1, so that squares and short sums stay in range."""
    largest = max(abs(x), abs(y))
    if largest == 0.0:
        return 0.0, 0.0, VANISHED
    if 1e-12 < largest < 1e12:
        return x, y, e
    shift = math.frexp(largest)[1]
    return math.ldexp(x, -shift), math.ldexp(y, -shift), e + shift


@njit(cache=True, nogil=True)
def plus(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """Return a + b."""
    if ae >= be:
        return normal(ax + scaled(bx, be - ae), ay + scaled(by, be - ae), ae)
    return normal(bx + scaled(ax, ae - be), by + scaled(ay, ae - be), be)


@njit(cache=True, nogil=True)
def times(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """Return a b."""
    return normal(ax * bx - ay * by, ax * by + ay * bx, max(ae + be, VANISHED))


@njit(cache=True, nogil=True)
def smaller(ax, ay, ae, bx, by, be):  # type: ignore[no-untyped-def]
    """Return whether |a| < |b|, in the norm |x| + |y|."""
    shift = ae - be
    if shift > 100:
        return False
    if shift < -100:
        return True
    return math.ldexp(abs(ax) + abs(ay), shift) < abs(bx) + abs(by)


@njit(cache=True, nogil=True)
def log2_size(x, y, e):  # type: ignore[no-untyped-def]
    """Return log2(|x| + |y|) + e; a very low number for 0."""
    size = abs(x) + abs(y)
    return math.log2(size) + e if size > 0.0 else -1e17
