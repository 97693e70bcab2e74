"""Synchronises with the device before it reads the clock, at the start and at the end."""

from __future__ import annotations

from time import perf_counter

import cupy as cp


def run(n: int = 4096) -> dict[str, float]:
    """Multiply two n x n matrices."""
    a = cp.ones((n, n), cp.float32)
    a @ a
    cp.cuda.get_current_stream().synchronize()
    start = perf_counter()
    a @ a
    cp.cuda.get_current_stream().synchronize()
    return {"milliseconds": 1e3 * (perf_counter() - start)}
