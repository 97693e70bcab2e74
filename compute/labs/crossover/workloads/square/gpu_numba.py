"""Square on the GPU, in Numba-CUDA."""

from __future__ import annotations

from numba import cuda

from compute.devices.devices import Array
from compute.ways.declaring import way


@cuda.jit
def _kernel(a: Array, out: Array) -> None:
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] * a[i]


@way("gpu_numba")
def square(a: Array, out: Array) -> None:
    """Numba-CUDA: the kernel in Python, one thread per element.

    Compute out = a * a, both (n,).
    """
    _kernel[-(-a.size // 256), 256](a, out)
