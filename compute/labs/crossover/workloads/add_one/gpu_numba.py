"""Add one on the GPU, in Numba-CUDA."""

from __future__ import annotations

from numba import cuda

from compute.devices.devices import Array
from compute.ways.declaring import way


@cuda.jit
def _kernel(a: Array) -> None:
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


@way("gpu_numba")
def add_one(a: Array) -> None:
    """Numba-CUDA: the kernel in Python, one thread per element.

    Add 1 to every element of a, (n,), in place.
    """
    _kernel[-(-a.size // 256), 256](a)
