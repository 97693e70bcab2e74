"""CuPy, a CUDA graph: the n launches are recorded once and started by a single call."""

from __future__ import annotations

from typing import Any

import cupy as cp

from compute.devices.devices import Array
from compute.labs.crossover.workloads.many_launches import gpu_cupy_kernel


def prepare(a: Array, n: int) -> tuple[Array, int, Any]:
    """Append the graph of n launches to the arguments."""
    gpu_cupy_kernel.KERNELS[a.dtype.name].compile()  # no kernel may be loaded while a graph is recorded
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        gpu_cupy_kernel.add_many(a, n)
        graph = stream.end_capture()
    return a, n, graph


def add_many(a: Array, n: int, graph: Any) -> None:
    """Add 1 to every element of a, (4096,), n times."""
    graph.launch()
