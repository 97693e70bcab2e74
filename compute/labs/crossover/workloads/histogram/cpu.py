"""Histogram on the CPU, in NumPy and Numba."""

from __future__ import annotations

import numpy as np
from numba import get_num_threads, njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def histogram_numpy(x: Array, bins: int, counts: Array) -> None:
    """NumPy: computes the bin of every sample first, then counts.

    Count the numbers x, (n,), from 0 to 1 into counts, (bins,).
    """
    counts[:] = np.bincount((x * bins).astype(np.intp), minlength=bins)


OWN = 4  # rows of a thread: an addition to a bin need not wait for that of the previous sample


@njit(parallel=True, nogil=True, cache=True)
def _histogram(x: Array, counts: Array, rows: Array) -> None:
    threads, bins = rows.shape
    for t in prange(threads):
        mine = np.zeros((OWN, bins), np.int32)  # not in `rows`: threads must not write to the same cache line
        for i in range(t * x.size // threads, (t + 1) * x.size // threads):
            mine[i % OWN, np.uint32(np.int32(x[i] * bins))] += 1  # unsigned: Numba skips its test for negative indices
        for b in range(bins):
            rows[t, b] = mine[:, b].sum()
    for b in prange(bins):
        counts[b] = 0
        for t in range(threads):
            counts[b] += rows[t, b]


@way("cpu_numba", revision=2)
def histogram_numba(x: Array, bins: int, counts: Array) -> None:
    """Numba: each thread counts part of the samples in private rows; then the rows are added.

    Count the numbers x, (n,), from 0 to 1 into counts, (bins,).
    """
    _histogram(x, counts, np.empty((get_num_threads(), bins), np.int32))
