"""Numba-CUDA: the kernel in Python, one thread per element."""

from __future__ import annotations

from numba import cuda

from compute.devices.devices import Array


@cuda.jit
def _kernel(a: Array, out: Array) -> None:
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] * a[i]


def square(a: Array, out: Array) -> None:
    """Compute out = a * a, both (n,)."""
    _kernel[-(-a.size // 256), 256](a, out)
