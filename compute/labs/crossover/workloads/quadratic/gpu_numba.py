"""Quadratic formula on the GPU, in Numba-CUDA."""

from __future__ import annotations

from math import sqrt

from numba import cuda

from compute.devices.devices import Array
from compute.ways.declaring import way


@cuda.jit
def _kernel(a: Array, b: Array, c: Array, x: Array, two: float, four: float) -> None:
    i = cuda.grid(1)
    if i < a.size:
        x[i] = (-b[i] + sqrt(b[i] * b[i] - four * a[i] * c[i])) / (two * a[i])


@way("gpu_numba")
def root(a: Array, b: Array, c: Array, x: Array) -> None:
    """Numba-CUDA: the formula in Python, in one kernel. Its literals have the array's type, see the trap pages.

    Write the root of a x² + b x + c next to 0 to x; all (n,).
    """
    real = a.dtype.type
    _kernel[-(-a.size // 256), 256](a, b, c, x, real(2), real(4))
