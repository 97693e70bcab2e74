"""Compilation and launch of gpu_products.cu and gpu_vectors.cu: sparse products by rows, vectors, the rows of V.

The functions only launch: they do not allocate, wait or measure. Functions that write partial sums of squares return
their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda
from compute.devices.devices import Array
from compute.labs.l_curve.bidiagonal import Rows

PRODUCTS_SOURCE = Path(__file__).with_name("gpu_products.cu")
REAL = {"float32": "float", "float64": "double"}
COLUMN = {"uint16": "u16", "int32": "i32"}
PACK, WARP = 8, 32  # entries per thread and turn, as in gpu_products.cu, and threads of a warp
THREADS = {"float32": 1024, "float64": 512}  # of a block with x in shared memory, one a multiprocessor; see gpu_tune.py
FEW_THREADS = 256  # of a block that reads x from memory
MOST_BLOCKS = 1024  # maximum number of blocks that write partial sums, which every block of the next kernel adds up
STATIC_SHARED = 1024  # bytes of shared memory reserved for the kernels' static variables
WORTH = 4  # minimum uses of x by a block that copies it into shared memory
NULL = np.int64(0)  # a null pointer

VECTORS_SOURCE = Path(__file__).with_name("gpu_vectors.cu")
FOLD = 4  # rows that a block multiplies with w together, as in gpu_vectors.cu
LINE = WARP * 16  # bytes of a row that a block of `subtract` adds up: a warp, 16 bytes per thread
LINES = 32  # rows that it adds together, one per warp
SLICES = 8  # maximum number of parts of a scalar product
SLICE = 1024  # minimum numbers per slice: one turn of a block
FULL = 4  # desired blocks of `project` per multiprocessor


@dataclass(frozen=True)
class Facts:
    """Multiprocessors of a GPU, and the bytes of shared memory that a block may request."""

    multiprocessors: int
    shared: int


@cache
def facts(device: int) -> Facts:
    """Return the facts of the GPU number `device`."""
    import cupy

    attributes = cupy.cuda.Device(device).attributes
    return Facts(int(attributes["MultiProcessorCount"]), int(attributes["MaxSharedMemoryPerBlockOptin"]))


@dataclass(frozen=True)
class Product:
    """The kernel for matrices of one shape and type. blocks: the number of partial sums that it writes."""

    kernel: Any
    blocks: int
    threads: int
    shared: int

    def __call__(self, matrix: Rows, source: Array, out: Array, how: Recurrence) -> None:
        """Compute out = matrix x less a multiple of `how.old`, with x = source over its norm; see gpu_products.cu."""
        (rows, width), arrays = matrix.shape, (matrix.starts, matrix.columns, matrix.values)
        scaling = how.squares, np.int32(how.counted), how.norm, how.stored
        left = how.old, how.divisor, out, how.made, how.tiny
        arguments = (*arrays, np.int32(rows), np.int32(width), source, *scaling, *left)
        self.kernel((self.blocks,), (self.threads,), arguments, shared_mem=self.shared)


@dataclass(frozen=True)
class Recurrence:
    """Additional operations of a product: the arguments of `recur` in gpu_products.cu with these names."""

    squares: Array = NULL
    counted: int = 0
    norm: Array = NULL
    stored: Array = NULL
    old: Array = NULL
    divisor: Array = NULL
    made: Array = NULL
    tiny: Array = NULL


PLAIN = Recurrence()


def product(matrix: Rows) -> Product:
    """Return the kernel for this matrix, compiled for the current GPU."""
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
    kernel = compile_cuda(PRODUCTS_SOURCE, defines=defines).get_function("recur")
    if held:  # matrices of several widths share the compiled kernel: none may lower the value of another
        kernel.max_dynamic_shared_size_bytes = gpu.shared - STATIC_SHARED
    return Product(kernel, blocks, threads, nbytes if held else 0)


def lanes_for(mean: float) -> int:
    """Return the number of threads that share a row of `mean` entries: a power of 2, at most a warp."""
    lanes = 1
    while lanes < WARP and lanes * PACK < mean:
        lanes *= 2
    return lanes


# -- vectors and the rows of V


class Vectors:
    """The kernels for vectors of one type, compiled for one GPU; cached, because a step is short."""

    def __init__(self, real: str, device: int) -> None:
        module = compile_cuda(VECTORS_SOURCE, defines={"REAL": REAL[real], "LINES": LINES})
        names = "squares", "finish", "project", "subtract", "combine", "merge"
        self._kernels: dict[str, Any] = {name: module.get_function(name) for name in names}
        self._blocks_to_fill = FULL * facts(device).multiprocessors

    def squares(self, x: Array, made: Array) -> int:
        """Compute made[: blocks] = sums of squares of x, float64; return blocks."""
        blocks = _blocks(x.size, 256)
        self._kernels["squares"]((blocks,), (256,), (x, np.int32(x.size), made))
        return blocks

    def project(self, V: Array, rows: int, w: Array, parts: Array, slices: int) -> None:
        """Compute parts (rows, slices): the scalar products of V[:rows] with w, each in `slices` parts."""
        arguments = V, np.int32(rows), np.int32(w.size), w, np.int32(slices), parts
        self._kernels["project"]((-(-rows // FOLD), slices), (256,), arguments)

    def slices_for(self, rows: int, width: int) -> int:
        """Return the number of parts that keeps the GPU busy."""
        return max(1, min(SLICES, self._blocks_to_fill // -(-rows // FOLD), width // SLICE))

    def subtract(self, V: Array, rows: int, parts: Array, slices: int, w: Array, made: Array) -> int:
        """Compute w -= c V[:rows], c the sums of the parts; made: sums of squares of w. Return their number."""
        blocks = _blocks(w.nbytes, LINE)
        arguments = V, np.int32(rows), np.int32(w.size), parts, np.int32(slices), w, made
        self._kernels["subtract"]((blocks,), (LINES * WARP,), arguments)
        return blocks

    def combine(self, V: Array, y: Array, x: Array) -> None:
        """Compute x = y V[: y.size]."""
        arguments = V, np.int32(y.size), np.int32(x.size), y, x
        self._kernels["combine"]((_blocks(x.nbytes, LINE),), (LINES * WARP,), arguments)

    def merge(
        self, sums: tuple[Array, int], w: Array, beta: Array, old: Array, squares: tuple[Array, Array], tiny: Array
    ) -> int:
        """Compute w = (sum of the rows of sums[0]) / beta - beta old, with beta from squares[0].

        sums: the rows, and their number, which is also that of the sums of squares in squares[0], of which beta is the
        root. squares[1]: sums of squares of w; their number is returned.
        """
        blocks, rows = _blocks(w.nbytes, LINE), np.int32(sums[1])
        arguments = sums[0], rows, np.int32(w.size), squares[0], rows, beta, old, w, squares[1], tiny
        self._kernels["merge"]((blocks,), (LINES * WARP,), arguments)
        return blocks

    def finish(
        self, w: Array, v: Array, u: Array, squares: tuple[Array, int], norms: tuple[Array, Array], tiny: Array
    ) -> None:
        """Compute norms[0] = |w| from its squares, v = w over that, u /= norms[1]."""
        sizes = np.int32(w.size), u, np.int32(u.size)
        arguments = w, v, *sizes, squares[0], np.int32(squares[1]), *norms, tiny
        self._kernels["finish"]((_blocks(max(w.size, u.size), 256),), (256,), arguments)


def vectors(like: Array) -> Vectors:
    """Return the kernels for arrays of this type, on the current GPU, which must be that of the array."""
    return _vectors(like.dtype.name, like.device.id)


@cache
def _vectors(real: str, device: int) -> Vectors:
    return Vectors(real, device)


def _blocks(size: int, each: int) -> int:
    return max(1, min(MOST_BLOCKS, -(-size // each)))
