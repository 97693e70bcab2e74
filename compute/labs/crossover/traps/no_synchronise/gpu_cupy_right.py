"""Waits for the device before both readings of the clock."""

from __future__ import annotations

from time import perf_counter

import cupy as cp


def run(n: int = 4096) -> dict[str, float]:
    """Multiply two matrices of n x n."""
    a = cp.ones((n, n), cp.float32)
    a @ a
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    a @ a
    cp.cuda.get_current_stream().synchronize()
    return {"milliseconds": 1e3 * (perf_counter() - start)}
