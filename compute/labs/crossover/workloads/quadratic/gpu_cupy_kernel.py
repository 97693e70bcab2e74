"""CUDA C, compiled by CuPy when it first runs: one thread per element."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array

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


def root(a: Array, b: Array, c: Array, x: Array) -> None:
    """Write the root of a x² + b x + c next to 0 to x; all (n,)."""
    KERNELS[a.dtype.name]((-(-a.size // 256),), (256,), (a, b, c, x, a.size))
