"""Histogram on the GPU, in Numba-CUDA."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32

from compute.devices.devices import Array
from compute.ways.declaring import way


@cuda.jit
def _clear(counts: Array) -> None:
    b = cuda.grid(1)
    if b < counts.size:
        counts[b] = 0


@cuda.jit
def _count_in_global(x: Array, scale: float, counts: Array) -> None:
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, int(x[i] * scale), 1)


@way("gpu_numba_atomics")
def histogram_numba_atomics(x: Array, bins: int, counts: Array) -> None:
    """Numba-CUDA, atomics: all threads add to a single histogram in global memory.

    Count the numbers x, (n,), from 0 to 1 into counts, (bins,).
    """
    _clear[-(-bins // 256), 256](counts)
    _count_in_global[-(-x.size // 256), 256](x, x.dtype.type(bins), counts)


THREADS = 16384  # in total; each has a row of bins
BLOCK = 64


@cuda.jit
def _count_in_rows(x: Array, scale: float, rows: Array) -> None:
    t = cuda.grid(1)
    for b in range(rows.shape[1]):
        rows[t, b] = 0
    for i in range(t, x.size, cuda.gridsize(1)):
        rows[t, int(x[i] * scale)] += 1


@cuda.jit
def _add_rows(rows: Array, counts: Array) -> None:
    b = cuda.grid(1)
    if b < counts.size:
        total = 0
        for t in range(rows.shape[0]):
            total += rows[t, b]
        counts[b] = total


def prepare_numba_private(x: Array, bins: int, counts: Array) -> tuple[Array, int, Array, Array]:
    """Append rows, (threads, bins), to the arguments."""
    threads = min(THREADS, BLOCK * -(-x.size // BLOCK))
    return x, bins, counts, cuda.device_array((threads, bins), np.int32)


@way("gpu_numba_private", prepare=prepare_numba_private)
def histogram_numba_private(x: Array, bins: int, counts: Array, rows: Array) -> None:
    """Numba-CUDA, private rows: no two threads share a count; adding the rows takes nearly all the time.

    Count the numbers x, (n,), from 0 to 1 into counts, (bins,); rows: scratch.
    """
    _count_in_rows[rows.shape[0] // BLOCK, BLOCK](x, x.dtype.type(bins), rows)
    _add_rows[-(-bins // BLOCK), BLOCK](rows, counts)


MOST_BINS = 1200  # 4.8 KB of shared memory
MOST_BLOCKS = 1024  # each adds its bins to the result once


@cuda.jit
def _count_in_shared(x: Array, scale: float, counts: Array) -> None:
    mine = cuda.shared.array(MOST_BINS, int32)
    for b in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[b] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, int(x[i] * scale), 1)
    cuda.syncthreads()
    for b in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, b, mine[b])


@way("gpu_numba_shared")
def histogram_numba_shared(x: Array, bins: int, counts: Array) -> None:
    """Numba-CUDA, shared memory: one histogram per block, close to its threads; the blocks are added at the end.

    Count the numbers x, (n,), from 0 to 1 into counts, (bins,); bins <= MOST_BINS.
    """
    _clear[-(-bins // 256), 256](counts)
    _count_in_shared[min(MOST_BLOCKS, -(-x.size // 256)), 256](x, x.dtype.type(bins), counts)
