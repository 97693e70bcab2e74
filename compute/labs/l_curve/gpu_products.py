"""Sparse products by rows in CUDA C for the L-curve lab: how gpu_products.cu is compiled and launched.

Launches only: nothing here allocates, waits or measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.l_curve.state import Rows

SOURCE = Path(__file__).with_suffix(".cu")
REAL = {"float32": "float", "float64": "double"}
COLUMN = {"uint16": "u16", "int32": "i32"}
PACK, WARP = 8, 32  # entries that a thread takes at once, as in gpu_products.cu, and threads of a warp
THREADS = {"float32": 1024, "float64": 512}  # of a block that holds x: one a multiprocessor; see gpu_tune.py
FEW_THREADS = 256  # of a block that reads x from memory
MOST_BLOCKS = 1024  # that leave partial sums, which every block of the next kernel adds up
STATIC_SHARED = 1024  # bytes of shared memory that are left for the kernels' own few numbers
WORTH = 4  # times x must be used by a block that copies it into shared memory
NULL = np.int64(0)  # for a pointer


@dataclass(frozen=True)
class Facts:
    """Multiprocessors of a GPU, and bytes of shared memory that a block may have if it asks for them."""

    multiprocessors: int
    shared: int


@cache
def facts(device: int) -> Facts:
    """Of the GPU of this number."""
    import cupy

    attributes = cupy.cuda.Device(device).attributes
    return Facts(int(attributes["MultiProcessorCount"]), int(attributes["MaxSharedMemoryPerBlockOptin"]))


@dataclass(frozen=True)
class Product:
    """The kernel for matrices of one shape and type. blocks: how many partial sums it leaves."""

    kernel: Any
    blocks: int
    threads: int
    shared: int

    def __call__(self, matrix: Rows, source: Array, out: Array, how: Recurrence) -> None:
        """out = matrix x less a multiple of `how.old`, with x = source over its norm; see gpu_products.cu."""
        (rows, width), arrays = matrix.shape, (matrix.starts, matrix.columns, matrix.values)
        scaling = how.squares, np.int32(how.counted), how.norm, how.stored
        left = how.old, how.divisor, out, how.made, np.float64(how.tiny)
        arguments = (*arrays, np.int32(rows), np.int32(width), source, *scaling, *left)
        self.kernel((self.blocks,), (self.threads,), arguments, shared_mem=self.shared)


@dataclass(frozen=True)
class Recurrence:
    """What a product does besides; as the arguments of gpu_products.cu's `recur` of these names."""

    squares: Array = NULL
    counted: int = 0
    norm: Array = NULL
    stored: Array = NULL
    old: Array = NULL
    divisor: Array = NULL
    made: Array = NULL
    tiny: float = 0.0


PLAIN = Recurrence()


def product(matrix: Rows) -> Product:
    """The kernel for this matrix, compiled for the current GPU."""
    shape, types = matrix.shape, (matrix.values.dtype.name, matrix.columns.dtype.name)
    return _product(shape, matrix.entries, *types, matrix.values.device.id)


@cache
def _product(shape: tuple[int, int], entries: int, real: str, column: str, device: int) -> Product:
    (rows, width), gpu, lanes = shape, facts(device), lanes_for(entries / shape[0])
    nbytes = width * np.dtype(real).itemsize
    held = nbytes + STATIC_SHARED <= gpu.shared and entries >= WORTH * width * gpu.multiprocessors
    threads = THREADS[real] if held else FEW_THREADS
    most = gpu.multiprocessors if held else MOST_BLOCKS
    blocks = max(1, min(most, -(-rows * lanes // threads)))
    defines: dict[str, int | str | float] = {
        "REAL": REAL[real], "COLUMN": COLUMN[column], "LANES": lanes, "THREADS": threads, "SHARED": int(held),
    }  # fmt: skip
    kernel = compile_cuda(SOURCE, defines=defines).get_function("recur")
    if held:  # matrices of several widths share the compiled kernel: none may lower what another needs
        kernel.max_dynamic_shared_size_bytes = gpu.shared - STATIC_SHARED
    return Product(kernel, blocks, threads, nbytes if held else 0)


def lanes_for(mean: float) -> int:
    """Threads that share a row of so many entries: a power of 2, a warp at most."""
    lanes = 1
    while lanes < WARP and lanes * PACK < mean:
        lanes *= 2
    return lanes
