"""Square on the GPU, in CuPy and CUDA C."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_cupy")
def square_cupy(a: Array, out: Array) -> None:
    """CuPy: a * a.

    Compute out = a * a, both (n,).
    """
    cp.multiply(a, a, out=out)


CODE = r"""
extern "C" __global__ void square(const REAL* a, REAL* out, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] * a[i];
}
"""
KERNELS = {
    "float32": cp.RawKernel(CODE, "square", options=("-DREAL=float",)),
    "float64": cp.RawKernel(CODE, "square", options=("-DREAL=double",)),
}


@way("gpu_cupy_kernel")
def square_cupy_kernel(a: Array, out: Array) -> None:
    """CUDA C, compiled by CuPy when it first runs: one thread per element.

    Compute out = a * a, both (n,).
    """
    KERNELS[a.dtype.name]((-(-a.size // 256),), (256,), (a, out, a.size))


@way("gpu_cupy_power")
def square_cupy_power(a: Array, out: Array) -> Array:
    """CuPy: a ** 2, which calls the general power function pow(a, 2) for every element.

    Return a ** 2, (n,).
    """
    return a**2


@way("gpu_cupy_square")
def square_cupy_square(a: Array, out: Array) -> None:
    """CuPy: its function square.

    Compute out = a * a, both (n,).
    """
    cp.square(a, out=out)
