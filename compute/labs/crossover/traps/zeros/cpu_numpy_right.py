"""Sums an array that was written before, so that all of it is in memory."""

from __future__ import annotations

from time import perf_counter

import numpy as np


def run(n: int = 50_000_000) -> dict[str, float]:
    """Read n numbers of 8 bytes."""
    a = np.random.default_rng(0).random(n)
    a.sum()
    start = perf_counter()
    a.sum()
    return {"gigabytes_per_second": 1e-9 * a.nbytes / (perf_counter() - start)}
