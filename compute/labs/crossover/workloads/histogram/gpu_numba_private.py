"""Numba-CUDA, private rows: no two threads share a count; adding the rows takes nearly all the time."""

from __future__ import annotations

import numpy as np
from numba import cuda

from compute.devices.devices import Array

THREADS = 16384  # in total; each has a row of bins
BLOCK = 64


@cuda.jit
def _count(x: Array, scale: float, rows: Array) -> None:
    t = cuda.grid(1)
    for b in range(rows.shape[1]):
        rows[t, b] = 0
    for i in range(t, x.size, cuda.gridsize(1)):
        rows[t, int(x[i] * scale)] += 1


@cuda.jit
def _add(rows: Array, counts: Array) -> None:
    b = cuda.grid(1)
    if b < counts.size:
        total = 0
        for t in range(rows.shape[0]):
            total += rows[t, b]
        counts[b] = total


def prepare(x: Array, bins: int, counts: Array) -> tuple[Array, int, Array, Array]:
    """Append rows, (threads, bins), to the arguments."""
    threads = min(THREADS, BLOCK * -(-x.size // BLOCK))
    return x, bins, counts, cuda.device_array((threads, bins), np.int32)


def histogram(x: Array, bins: int, counts: Array, rows: Array) -> None:
    """Count the numbers x, (n,), from 0 to 1 into counts, (bins,); rows: scratch."""
    _count[rows.shape[0] // BLOCK, BLOCK](x, x.dtype.type(bins), rows)
    _add[-(-bins // BLOCK), BLOCK](rows, counts)
