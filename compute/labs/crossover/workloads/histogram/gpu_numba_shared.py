"""Numba-CUDA, shared memory: one histogram per block, close to its threads; the blocks are added at the end."""

from __future__ import annotations

from numba import cuda, int32

from compute.devices.devices import Array

MOST_BINS = 1200  # 4.8 KB of shared memory
MOST_BLOCKS = 1024  # each adds its bins to the result once


@cuda.jit
def _clear(counts: Array) -> None:
    b = cuda.grid(1)
    if b < counts.size:
        counts[b] = 0


@cuda.jit
def _count(x: Array, scale: float, counts: Array) -> None:
    mine = cuda.shared.array(MOST_BINS, int32)
    for b in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        mine[b] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, int(x[i] * scale), 1)
    cuda.syncthreads()
    for b in range(cuda.threadIdx.x, counts.size, cuda.blockDim.x):
        cuda.atomic.add(counts, b, mine[b])


def histogram(x: Array, bins: int, counts: Array) -> None:
    """Count the numbers x, (n,), from 0 to 1 into counts, (bins,); bins <= MOST_BINS."""
    _clear[-(-bins // 256), 256](counts)
    _count[min(MOST_BLOCKS, -(-x.size // 256)), 256](x, x.dtype.type(bins), counts)
