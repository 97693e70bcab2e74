"""NumPy: all points first, then a look at each."""

from __future__ import annotations

import numpy as np

from compute.devices import Array


def prepare(n: int, seed: int, out: Array) -> tuple[int, np.random.Generator, Array]:
    """With a generator in the place of the seed."""
    return n, np.random.default_rng(seed), out


def estimate(n: int, rng: np.random.Generator, out: Array) -> None:
    """out (1,): 4 x the share of n points of the unit square that lie within the quarter circle."""
    x, y = rng.random((2, n), out.dtype)
    out[0] = 4 * np.count_nonzero(x * x + y * y < 1) / n
