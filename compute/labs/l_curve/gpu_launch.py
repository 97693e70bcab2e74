"""How gpu_products.cu and gpu_vectors.cu are compiled and launched: sparse products by rows, vectors, the rows of V.

Launches only: nothing here allocates, waits or measures. What leaves partial sums of squares returns how many.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.l_curve.bidiagonal import Rows

PRODUCTS_SOURCE = Path(__file__).with_name("gpu_products.cu")
REAL = {"float32": "float", "float64": "double"}
COLUMN = {"uint16": "u16", "int32": "i32"}
PACK, WARP = 8, 32  # entries that a thread takes at once, as in gpu_products.cu, and threads of a warp
THREADS = {"float32": 1024, "float64": 512}  # of a block that holds x: one a multiprocessor; see gpu_tune.py
FEW_THREADS = 256  # of a block that reads x from memory
MOST_BLOCKS = 1024  # that leave partial sums, which every block of the next kernel adds up
STATIC_SHARED = 1024  # bytes of shared memory that are left for the kernels' own few numbers
WORTH = 4  # times x must be used by a block that copies it into shared memory
NULL = np.int64(0)  # for a pointer

VECTORS_SOURCE = Path(__file__).with_name("gpu_vectors.cu")
FOLD = 4  # rows that a block multiplies with w at once, as in gpu_vectors.cu
LINE = WARP * 16  # bytes of a row that a block of `subtract` adds up: a warp, 16 bytes a thread
LINES = 32  # rows that it adds at once, a warp each
SLICES = 8  # parts that a scalar product is cut into, at most
SLICE = 1024  # numbers of a slice, at least: one turn of a block
FULL = 4  # blocks of `project` a multiprocessor that are wanted


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
        left = how.old, how.divisor, out, how.made, how.tiny
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
    tiny: Array = NULL


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
    kernel = compile_cuda(PRODUCTS_SOURCE, defines=defines).get_function("recur")
    if held:  # matrices of several widths share the compiled kernel: none may lower what another needs
        kernel.max_dynamic_shared_size_bytes = gpu.shared - STATIC_SHARED
    return Product(kernel, blocks, threads, nbytes if held else 0)


def lanes_for(mean: float) -> int:
    """Threads that share a row of so many entries: a power of 2, a warp at most."""
    lanes = 1
    while lanes < WARP and lanes * PACK < mean:
        lanes *= 2
    return lanes


# -- vectors and the rows of V


class Vectors:
    """The kernels for vectors of one type, compiled for one GPU; looked up once, since a step has little time."""

    def __init__(self, real: str, device: int) -> None:
        module = compile_cuda(VECTORS_SOURCE, defines={"REAL": REAL[real], "LINES": LINES})
        names = "squares", "finish", "project", "subtract", "combine", "merge"
        self._kernels: dict[str, Any] = {name: module.get_function(name) for name in names}
        self._wanted = FULL * facts(device).multiprocessors

    def squares(self, x: Array, made: Array) -> int:
        """made[: blocks] = sums of squares of x, float64."""
        blocks = _blocks(x.size, 256)
        self._kernels["squares"]((blocks,), (256,), (x, np.int32(x.size), made))
        return blocks

    def project(self, V: Array, rows: int, w: Array, parts: Array, slices: int) -> None:
        """parts (rows, slices): the scalar products of V[:rows] with w, in so many parts."""
        arguments = V, np.int32(rows), np.int32(w.size), w, np.int32(slices), parts
        self._kernels["project"]((-(-rows // FOLD), slices), (256,), arguments)

    def slices_for(self, rows: int, width: int) -> int:
        """Parts that keep the GPU busy."""
        return max(1, min(SLICES, self._wanted // -(-rows // FOLD), width // SLICE))

    def subtract(self, V: Array, rows: int, parts: Array, slices: int, w: Array, made: Array) -> int:
        """w -= c V[:rows], c the sums of the parts; made: sums of squares of w."""
        blocks = _blocks(w.nbytes, LINE)
        arguments = V, np.int32(rows), np.int32(w.size), parts, np.int32(slices), w, made
        self._kernels["subtract"]((blocks,), (LINES * WARP,), arguments)
        return blocks

    def combine(self, V: Array, y: Array, x: Array) -> None:
        """x = y V[: y.size]."""
        arguments = V, np.int32(y.size), np.int32(x.size), y, x
        self._kernels["combine"]((_blocks(x.nbytes, LINE),), (LINES * WARP,), arguments)

    def merge(
        self, sums: tuple[Array, int], w: Array, beta: Array, old: Array, squares: tuple[Array, Array], tiny: Array
    ) -> int:
        """w = (the sum of the rows of sums[0]) / beta - beta old; squares: those beta is made of, and those of w.

        sums: the rows, and how many; there are as many sums of squares that beta is the root of.
        """
        blocks, rows = _blocks(w.nbytes, LINE), np.int32(sums[1])
        arguments = sums[0], rows, np.int32(w.size), squares[0], rows, beta, old, w, squares[1], tiny
        self._kernels["merge"]((blocks,), (LINES * WARP,), arguments)
        return blocks

    def finish(
        self, w: Array, v: Array, u: Array, squares: tuple[Array, int], norms: tuple[Array, Array], tiny: Array
    ) -> None:
        """norms[0] = |w| from its squares, v = w over that, u /= norms[1]."""
        sizes = np.int32(w.size), u, np.int32(u.size)
        arguments = w, v, *sizes, squares[0], np.int32(squares[1]), *norms, tiny
        self._kernels["finish"]((_blocks(max(w.size, u.size), 256),), (256,), arguments)


def vectors(like: Array) -> Vectors:
    """The kernels for arrays like this one, on the current GPU, which is its own."""
    return _vectors(like.dtype.name, like.device.id)


@cache
def _vectors(real: str, device: int) -> Vectors:
    return Vectors(real, device)


def _blocks(size: int, each: int) -> int:
    return max(1, min(MOST_BLOCKS, -(-size // each)))
