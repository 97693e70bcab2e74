"""CUDA C, compiled by CuPy when it first runs: one thread per element."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array

CODE = r"""
extern "C" __global__ void add_one(REAL* a, long long n)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += 1;
}
"""
KERNELS = {
    "float32": cp.RawKernel(CODE, "add_one", options=("-DREAL=float",)),
    "float64": cp.RawKernel(CODE, "add_one", options=("-DREAL=double",)),
}


def add_one(a: Array) -> None:
    """Add 1 to every element of a, (n,), in place."""
    KERNELS[a.dtype.name]((-(-a.size // 256),), (256,), (a, a.size))
