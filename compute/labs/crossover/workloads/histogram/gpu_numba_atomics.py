"""Numba-CUDA, atomics: all threads add to a single histogram in global memory."""

from __future__ import annotations

from numba import cuda

from compute.devices.devices import Array


@cuda.jit
def _clear(counts: Array) -> None:
    b = cuda.grid(1)
    if b < counts.size:
        counts[b] = 0


@cuda.jit
def _count(x: Array, scale: float, counts: Array) -> None:
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, int(x[i] * scale), 1)


def histogram(x: Array, bins: int, counts: Array) -> None:
    """Count the numbers x, (n,), from 0 to 1 into counts, (bins,)."""
    _clear[-(-bins // 256), 256](counts)
    _count[-(-x.size // 256), 256](x, x.dtype.type(bins), counts)
