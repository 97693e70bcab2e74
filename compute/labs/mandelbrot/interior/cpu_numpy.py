"""The multiplier of the attracting cycle in NumPy: the reference. The algorithm is described in cycle.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.mandelbrot.interior.cycle import CLOSE2, FIRST, NEWTON, SLACK, STILL2

Axis = NDArray[np.float64]
Points = NDArray[np.complex128]


def multiplier(
    re: Axis, im: Axis, count: NDArray[Any], out: NDArray[Any], max_iterations: int, settle: int, longest: int
) -> None:
    """out = |product of 2 z over the attracting cycle|, 0 to 1, for the pixels whose count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other
    pixels and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    out[...] = np.nan
    i, j = np.nonzero(count == max_iterations)
    c = re[j] + 1j * im[i]
    z, n, wanted = np.zeros_like(c), 0, FIRST
    with np.errstate(over="ignore", invalid="ignore"):
        while n < settle and c.size:
            for _ in range(min(wanted, settle) - n):
                z = z * z + c
            n, wanted = min(wanted, settle), 2 * wanted
            stays = np.abs(z) <= 2
            i, j, c, z = i[stays], j[stays], c[stays], z[stays]
            size = _attraction(z, c, min(longest, n))
            out[i, j] = size
            left = np.isnan(size)
            i, j, c, z = i[left], j[left], c[left], z[left]


def _attraction(z: Points, c: Points, longest: int) -> Axis:
    """|multiplier| of the attracting cycles near z; NaN where none was found. Tries the periods of closest return."""
    sizes, best, w, k = np.full(c.size, np.nan), np.full(c.size, np.inf), z, np.arange(c.size)
    for period in range(1, longest + 1):
        w = w * w + c[k]
        apart = np.abs(w - z[k])
        tries = k[apart < best]
        best = np.minimum(best, apart)
        if tries.size:
            sizes[tries] = _strength(_settled(z[tries], c[tries], period), c[tries], period)
            left = np.isnan(sizes[k])
            k, w, best = k[left], w[left], best[left]
    return sizes


def _settled(z: Points, c: Points, period: int) -> Points:
    """The points near z that return after `period` steps, by Newton's method; NaN where it does not converge."""
    z, k = z.copy(), np.arange(z.size)
    move2 = np.full(z.size, np.inf)
    for _ in range(NEWTON):
        if not k.size:
            break
        w, slope = z[k], np.ones(k.size, complex)
        for _ in range(period):
            slope, w = 2 * w * slope, w * w + c[k]
        good = (slope != 1) & (np.abs(w) <= 4)
        move2[k[~good]] = np.inf
        k, w, slope = k[good], w[good], slope[good]
        move = (w - z[k]) / (slope - 1)
        z[k] -= move
        move2[k] = move.real**2 + move.imag**2
        k = k[~(move2[k] <= STILL2)]
    return np.where((move2 <= CLOSE2) & (np.abs(z) <= 2), z, np.nan)


def _strength(z: Points, c: Points, period: int) -> Axis:
    """|product of 2 z| over the cycles of z, whose true period divides `period`; NaN where it is above 1."""
    w, slope, open_ = z, np.ones_like(z), np.ones(z.size, bool)
    for _ in range(period):
        slope = np.where(open_, 2 * w * slope, slope)
        w = w * w + c
        open_ &= ~(np.abs(w - z) ** 2 <= CLOSE2)
    size = np.abs(slope)
    return np.where(size <= 1 + SLACK, np.minimum(size, 1), np.nan)
