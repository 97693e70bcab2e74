"""Many small launches on the GPU, in CuPy and CUDA C."""

from __future__ import annotations

from typing import Any

import cupy as cp

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_cupy")
def add_many_cupy(a: Array, n: int) -> None:
    """CuPy: a loop of n launches, each with the full overhead of CuPy.

    Add 1 to every element of a, (4096,), n times.
    """
    for _ in range(n):
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
def add_many_cupy_kernel(a: Array, n: int) -> None:
    """CuPy: a loop of n launches of a custom kernel.

    Add 1 to every element of a, (4096,), n times.
    """
    kernel, grid, block, arguments = KERNELS[a.dtype.name], (-(-a.size // 256),), (256,), (a, a.size)
    for _ in range(n):
        kernel(grid, block, arguments)


def prepare_cupy_graph(a: Array, n: int) -> tuple[Array, int, Any]:
    """Append the graph of n launches to the arguments."""
    KERNELS[a.dtype.name].compile()  # no kernel may be loaded while a graph is recorded
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        add_many_cupy_kernel(a, n)
        graph = stream.end_capture()
    return a, n, graph


@way("gpu_cupy_graph", prepare=prepare_cupy_graph)
def add_many_cupy_graph(a: Array, n: int, graph: Any) -> None:
    """CuPy, a CUDA graph: the n launches are recorded once and started by a single call.

    Add 1 to every element of a, (4096,), n times.
    """
    graph.launch()
