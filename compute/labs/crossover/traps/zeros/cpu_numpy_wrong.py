"""Sums an array of zeros that was never written: one page of memory, read again and again."""

from __future__ import annotations

from time import perf_counter

import numpy as np


def run(n: int = 50_000_000) -> dict[str, float]:
    """Read n numbers of 8 bytes."""
    a = np.zeros(n)
    a.sum()
    start = perf_counter()
    a.sum()
    return {"gigabytes_per_second": 1e-9 * a.nbytes / (perf_counter() - start)}
