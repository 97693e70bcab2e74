"""CuPy: NumPy's lines, and CuPy's generator (XORWOW) on the GPU."""

from __future__ import annotations

from typing import Any

import cupy as cp

from compute.devices import Array


def prepare(n: int, seed: int, out: Array) -> tuple[int, Any, Array]:
    """With a generator in the place of the seed; to make it takes longer than to draw a million numbers."""
    return n, cp.random.default_rng(seed), out


def estimate(n: int, rng: Any, out: Array) -> None:
    """out (1,): 4 x the share of n points of the unit square that lie within the quarter circle."""
    x, y = rng.random((2, n), out.dtype)
    out[0] = 4 * cp.count_nonzero(x * x + y * y < 1) / n
