"""Add one on the GPU, in CuPy and CUDA C."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_cupy")
def add_one_cupy(a: Array) -> None:
    """CuPy: the same line as NumPy, on an array on the GPU.

    Add 1 to every element of a, (n,), in place.
    """
    a += 1


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


@way("gpu_cupy_kernel")
def add_one_cupy_kernel(a: Array) -> None:
    """CUDA C, compiled by CuPy when it first runs: one thread per element.

    Add 1 to every element of a, (n,), in place.
    """
    KERNELS[a.dtype.name]((-(-a.size // 256),), (256,), (a, a.size))
