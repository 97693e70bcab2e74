"""Numba: each core throws points of its own and keeps none. It draws in float64."""

from __future__ import annotations

from random import random

from numba import njit, prange

from compute.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def _hits(n: int) -> int:
    hits = 0
    for _ in prange(n):
        x, y = random(), random()
        if x * x + y * y < 1:
            hits += 1
    return hits


def estimate(n: int, seed: int, out: Array) -> None:
    """out (1,): 4 x the share of n points within the quarter circle. Every thread has a generator, not from `seed`."""
    out[0] = 4 * _hits(n) / n
