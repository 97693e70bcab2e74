"""Numba: each thread counts a part of the samples in a row of its own; then the rows are added."""

from __future__ import annotations

import numpy as np
from numba import get_num_threads, njit, prange

from compute.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def _histogram(x: Array, counts: Array, rows: Array) -> None:
    threads, bins = rows.shape
    for t in prange(threads):
        mine = np.zeros(bins, np.int32)  # not in `rows`: threads must not write to the same cache line
        for i in range(t * x.size // threads, (t + 1) * x.size // threads):
            mine[int(x[i] * bins)] += 1
        for b in range(bins):
            rows[t, b] = mine[b]
    for b in prange(bins):
        counts[b] = 0
        for t in range(threads):
            counts[b] += rows[t, b]


def histogram(x: Array, bins: int, counts: Array) -> None:
    """counts (bins,) of the numbers x, (n,), from 0 to 1."""
    _histogram(x, counts, np.empty((get_num_threads(), bins), np.int32))
