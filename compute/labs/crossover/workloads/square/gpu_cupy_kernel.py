"""CUDA C, compiled by CuPy when it first runs: one thread per element."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array

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


def square(a: Array, out: Array) -> None:
    """Compute out = a * a, both (n,)."""
    KERNELS[a.dtype.name]((-(-a.size // 256),), (256,), (a, out, a.size))
