"""Vectors and the rows of V in CUDA C for the L-curve lab: how gpu_vectors.cu is launched.

Launches only. Functions that leave partial sums of squares return how many.
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
LINE = 32 * 16  # bytes of a row that a block of `subtract` adds up: a warp, 16 bytes a thread
SLICES = 8  # parts that a scalar product is cut into, at most
SLICE = 1024  # numbers of a slice, at least: one turn of a block
FULL = 4  # blocks of `project` a multiprocessor that are wanted


def squares(x: Array, made: Array) -> int:
    """made[: blocks] = sums of squares of x, float64."""
    blocks = _blocks(x.size, 256)
    _kernel("squares", x)((blocks,), (256,), (x, np.int32(x.size), made))
    return blocks


def project(V: Array, rows: int, w: Array, parts: Array, slices: int) -> None:
    """parts (rows, slices): the scalar products of V[:rows] with w, in so many parts."""
    grid = -(-rows // FOLD), slices
    _kernel("project", V)(grid, (256,), (V, np.int32(rows), np.int32(w.size), w, np.int32(slices), parts))


def slices_for(rows: int, w: Array) -> int:
    """Parts that keep the GPU busy."""
    wanted = FULL * facts(w.device.id).multiprocessors // -(-rows // FOLD)
    return max(1, min(SLICES, wanted, w.size // SLICE))


def subtract(V: Array, rows: int, parts: Array, slices: int, w: Array, made: Array) -> int:
    """w -= c V[:rows], c the sums of the parts; made: sums of squares of w."""
    blocks = _blocks(w.nbytes, LINE)
    arguments = V, np.int32(rows), np.int32(w.size), parts, np.int32(slices), w, made
    _kernel("subtract", V)((blocks,), (1024,), arguments)
    return blocks


def combine(V: Array, y: Array, x: Array) -> None:
    """x = y V[: y.size]."""
    _kernel("combine", V)((_blocks(x.nbytes, LINE),), (1024,), (V, np.int32(y.size), np.int32(x.size), y, x))


def merge(sums: tuple[Array, int], w: Array, beta: Array, old: Array, squares: tuple[Array, Array], tiny: float) -> int:
    """w = (the sum of the rows of sums[0]) / beta - beta old; squares: those beta is made of, and those of w.

    sums: the rows, and how many; there are as many sums of squares that beta is the root of.
    """
    blocks, rows = _blocks(w.nbytes, LINE), np.int32(sums[1])
    arguments = sums[0], rows, np.int32(w.size), squares[0], rows, beta, old, w, squares[1], np.float64(tiny)
    _kernel("merge", w)((blocks,), (1024,), arguments)
    return blocks


def finish(w: Array, v: Array, u: Array, squares: tuple[Array, int], norms: tuple[Array, Array], tiny: float) -> None:
    """norms[0] = |w| from its squares, v = w over that, u /= norms[1]."""
    sizes = np.int32(w.size), u, np.int32(u.size)
    arguments = w, v, *sizes, squares[0], np.int32(squares[1]), *norms, np.float64(tiny)
    _kernel("finish", w)((_blocks(max(w.size, u.size), 256),), (256,), arguments)


def _blocks(size: int, each: int) -> int:
    return max(1, min(MOST_BLOCKS, -(-size // each)))


def _kernel(name: str, like: Array) -> Any:
    return _compiled(name, like.dtype.name, like.device.id)


@cache
def _compiled(name: str, real: str, device: int) -> Any:
    return compile_cuda(SOURCE, defines={"REAL": REAL[real]}).get_function(name)
