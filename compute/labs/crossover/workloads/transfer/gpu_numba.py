"""Transfer on the GPU, in Numba-CUDA."""

from __future__ import annotations

from numba import cuda

from compute.devices.devices import Array
from compute.ways.declaring import way


@cuda.jit
def _kernel(b: Array) -> None:
    i = cuda.grid(1)
    if i < b.size:
        b[i] += 1


@way("gpu_numba")
def round_trip(a: Array, out: Array) -> None:
    """Numba-CUDA, pageable.

    Compute out = a + 1, both (n,) in main memory.
    """
    b = cuda.to_device(a)
    _kernel[-(-a.size // 256), 256](b)
    b.copy_to_host(out)
