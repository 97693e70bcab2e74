"""NumPy: draws all points first, then tests them."""

from __future__ import annotations

import numpy as np

from compute.devices.devices import Array


def prepare(n: int, seed: int, out: Array) -> tuple[int, np.random.Generator, Array]:
    """Replace the seed by a generator."""
    return n, np.random.default_rng(seed), out


def estimate(n: int, rng: np.random.Generator, out: Array) -> None:
    """Write 4 x the fraction of n points of the unit square within the quarter circle to out, (1,)."""
    x, y = rng.random((2, n), out.dtype)
    out[0] = 4 * np.count_nonzero(x * x + y * y < 1) / n
