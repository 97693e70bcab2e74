"""Vectors and the rows of V in CUDA C for the L-curve lab: how gpu_vectors.cu is launched.

Launches only. What leaves partial sums of squares returns how many.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.l_curve.gpu_products import MOST_BLOCKS, REAL, facts

SOURCE = Path(__file__).with_suffix(".cu")
FOLD = 4  # rows that a block multiplies with w at once, as in gpu_vectors.cu
WARP = 32
LINE = WARP * 16  # bytes of a row that a block of `subtract` adds up: a warp, 16 bytes a thread
LINES = 32  # rows that it adds at once, a warp each
SLICES = 8  # parts that a scalar product is cut into, at most
SLICE = 1024  # numbers of a slice, at least: one turn of a block
FULL = 4  # blocks of `project` a multiprocessor that are wanted


class Vectors:
    """The kernels for vectors of one type, compiled for one GPU; looked up once, since a step has little time."""

    def __init__(self, real: str, device: int) -> None:
        module = compile_cuda(SOURCE, defines={"REAL": REAL[real], "LINES": LINES})
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
        self, sums: tuple[Array, int], w: Array, beta: Array, old: Array, squares: tuple[Array, Array], tiny: float
    ) -> int:
        """w = (the sum of the rows of sums[0]) / beta - beta old; squares: those beta is made of, and those of w.

        sums: the rows, and how many; there are as many sums of squares that beta is the root of.
        """
        blocks, rows = _blocks(w.nbytes, LINE), np.int32(sums[1])
        arguments = sums[0], rows, np.int32(w.size), squares[0], rows, beta, old, w, squares[1], np.float64(tiny)
        self._kernels["merge"]((blocks,), (LINES * WARP,), arguments)
        return blocks

    def finish(
        self, w: Array, v: Array, u: Array, squares: tuple[Array, int], norms: tuple[Array, Array], tiny: float
    ) -> None:
        """norms[0] = |w| from its squares, v = w over that, u /= norms[1]."""
        sizes = np.int32(w.size), u, np.int32(u.size)
        arguments = w, v, *sizes, squares[0], np.int32(squares[1]), *norms, np.float64(tiny)
        self._kernels["finish"]((_blocks(max(w.size, u.size), 256),), (256,), arguments)


def vectors(like: Array) -> Vectors:
    """The kernels for arrays like this one, on the current GPU, which is its own."""
    return _vectors(like.dtype.name, like.device.id)


@cache
def _vectors(real: str, device: int) -> Vectors:
    return Vectors(real, device)


def _blocks(size: int, each: int) -> int:
    return max(1, min(MOST_BLOCKS, -(-size // each)))
