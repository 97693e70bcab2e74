"""Many small launches on the GPU, in Numba-CUDA."""

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
def add_many(a: Array, n: int) -> None:
    """Numba-CUDA: a loop of n launches; each checks the types of its arguments again.

    Add 1 to every element of a, (4096,), n times.
    """
    kernel = _kernel[-(-a.size // 256), 256]
    for _ in range(n):
        kernel(a)
