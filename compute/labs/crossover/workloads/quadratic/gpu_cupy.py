"""Quadratic formula on the GPU, in CuPy and CUDA C."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_cupy")
def root_cupy(a: Array, b: Array, c: Array, x: Array) -> None:
    """CuPy, unfused: a kernel and a temporary array for every operation.

    Write the root of a x² + b x + c next to 0 to x; all (n,).
    """
    cp.divide(-b + cp.sqrt(b**2 - 4 * a * c), 2 * a, out=x)


_root_elementwise = cp.ElementwiseKernel(
    "T a, T b, T c",
    "T x",
    "x = (-b + sqrt(b * b - 4 * a * c)) / (2 * a)",
    "quadratic_root",
)


@way("gpu_cupy_elementwise")
def root_cupy_elementwise(a: Array, b: Array, c: Array, x: Array) -> None:
    """CuPy's ElementwiseKernel: the formula in C; CuPy writes the loop around it, for every dtype.

    Write the root of a x² + b x + c next to 0 to x; all (n,).
    """
    _root_elementwise(a, b, c, x)


@cp.fuse()
def _root_fused(a: Array, b: Array, c: Array) -> Array:
    return (-b + cp.sqrt(b**2 - 4 * a * c)) / (2 * a)


@way("gpu_cupy_fuse")
def root_cupy_fuse(a: Array, b: Array, c: Array, x: Array) -> Array:
    """CuPy's fuse: traces the operations and combines them into one kernel.

    Return the root of a x² + b x + c next to 0; all (n,).
    """
    return _root_fused(a, b, c)


CODE = r"""
extern "C" __global__ void root(const REAL* a, const REAL* b, const REAL* c, REAL* x, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (-b[i] + sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i]);
}
"""
KERNELS = {
    "float32": cp.RawKernel(CODE, "root", options=("-DREAL=float",)),
    "float64": cp.RawKernel(CODE, "root", options=("-DREAL=double",)),
}


@way("gpu_cupy_kernel")
def root_cupy_kernel(a: Array, b: Array, c: Array, x: Array) -> None:
    """CUDA C, compiled by CuPy when it first runs: one thread per element.

    Write the root of a x² + b x + c next to 0 to x; all (n,).
    """
    KERNELS[a.dtype.name]((-(-a.size // 256),), (256,), (a, b, c, x, a.size))
