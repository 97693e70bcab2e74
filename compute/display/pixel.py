"""The arithmetic of one pixel, written once: plain scalar code that Numba compiles for the CPU and for CUDA.

Numba's cache does not see a change of this file in what calls it: then delete the __pycache__ of this folder.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from compute.display.cpu_numpy import LAST_DIGIT, LN2

HALF, ONE = np.float32(0.5), np.float32(1)  # literals would turn float32 arithmetic into float64


@njit(cache=True, nogil=True, error_model="numpy")
def place(value, low, high, bins):  # type: ignore[no-untyped-def]
    """Where `value` lies among the equal bins of [low, high]: 0 at low, `bins` at high, saturating. float64."""
    if low < high:
        return min(max((value - low) * (bins / (high - low)), 0.0), float(bins))
    return 0.0 if value < low else float(bins)


@njit(cache=True, nogil=True)
def level(position, before, after):  # type: ignore[no-untyped-def]
    """254 times the share at `position` (0 to 1) between two entries of the table, rounded."""
    return math.floor(254.0 * (before + position * (after - before)) + 0.5)


@njit(cache=True, nogil=True)
def slope(before, here, after):  # type: ignore[no-untyped-def]
    """The difference per pixel between neighbours, 0 if neither is finite, and whether one of them is."""
    if math.isfinite(before):
        if math.isfinite(after):
            return HALF * (after - before), True
        return here - before, True
    if math.isfinite(after):
        return after - here, True
    return HALF - HALF, False


@njit(cache=True, nogil=True, error_model="numpy")
def reach(dx, dy, here):  # type: ignore[no-untyped-def]
    """1 / (ln 2 |gradient|), the gradient at least what float32 can tell at the value `here`."""
    return ONE / (LN2 * max(math.sqrt(dx * dx + dy * dy), LAST_DIGIT * max(abs(here), ONE)))
