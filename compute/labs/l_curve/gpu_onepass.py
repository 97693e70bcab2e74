"""A step of the recurrence in one pass over A: how its entries are laid out for gpu_onepass.cu, and its launch.

Two products read A and its transpose, 270 MB a step for the tutorial's matrix; one pass reads 138 MB. It pays where
rows are long enough to keep a block busy, and it is possible where v and a sum of rows, both of n numbers, fit into a
block's shared memory: n = 28 000 in float32 on an H200, 14 000 in float64.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.l_curve.bidiagonal import Rows
from compute.labs.l_curve.gpu_launch import PACK, REAL, STATIC_SHARED, WARP, Recurrence, facts

SOURCE = Path(__file__).with_suffix(".cu")
SHAPES = {"float32": (8, 4, 2), "float64": (8, 2, 4)}  # warps of a block, rows of a turn, turns in registers
SEGMENT = PACK * WARP  # entries of a row that a warp has, at most
BUSY = 8  # lanes of a warp that have entries, at least, on average
BANK_BYTES = 128  # of shared memory that can be read at once
LAYING_OUT = 80  # bytes an entry that laying it out takes for a moment
ODD = 2  # bytes of a column


@dataclass(frozen=True)
class Tiles:
    """A matrix as gpu_onepass.cu reads it, each row cut into one segment for each warp.

    starts: (rows * warps + 1,) int32, of the segments in packs of 8 entries; columns: uint16, `width` where there is no
    entry, values: 0 there.
    """

    shape: tuple[int, int]
    warps: int
    starts: Array
    columns: Array
    values: Array


_tiles: dict[int, Tiles | None] = {}  # by the identity of the Rows they are made from, for as long as those are alive


def tiles_of(matrix: Rows) -> Tiles | None:
    """`matrix` laid out, on first call; None where one pass is not possible, or does not pay."""
    if id(matrix) not in _tiles:
        weakref.finalize(matrix, _tiles.pop, id(matrix), None)
        _tiles[id(matrix)] = _laid_out(matrix) if _pays(matrix) else None
    return _tiles[id(matrix)]


def _pays(matrix: Rows) -> bool:
    pays = pays_for(matrix.shape, matrix.entries, matrix.values.dtype.name, matrix.values.device.id)
    return pays and matrix.columns.dtype.itemsize == ODD and _free_bytes() >= LAYING_OUT * matrix.entries


def pays_for(shape: tuple[int, int], entries: int, real: str, device: int) -> bool:
    """Whether a matrix of so many entries fits a GPU's shared memory, and has rows that are long enough."""
    rows, width = shape
    fits = _shared_bytes(width, real) + STATIC_SHARED <= facts(device).shared
    return fits and entries >= BUSY * PACK * SHAPES[real][0] * rows


def _laid_out(matrix: Rows) -> Tiles | None:
    arrays = matrix.starts, matrix.columns, matrix.values
    return lay_out(_library(), *arrays, matrix.shape, SHAPES[matrix.values.dtype.name][0])


def lay_out(xp: Any, starts: Array, columns: Array, values: Array, shape: tuple[int, int], warps: int) -> Tiles | None:
    """The matrix laid out, by `xp`: NumPy or CuPy. None if a row has too many entries for one of its segments.

    Within a segment the entries take turns between the banks of shared memory that their columns lie in. The lanes
    read 8 entries each, but use their first ones together, then their second ones, and so on.
    """
    (rows, width), count = shape, int(values.size)
    banks = BANK_BYTES // values.dtype.itemsize
    column = columns.astype(np.int64)
    segment = (xp.searchsorted(starts, xp.arange(count), side="right") - 1) * warps + column // -(-width // warps)
    lengths = xp.bincount(segment, minlength=rows * warps)
    if int(lengths.max()) > SEGMENT:
        return None
    rank = _ranks(xp, segment * banks + column % banks, column, rows * warps * banks)
    order = xp.argsort((segment * SEGMENT + rank) * banks + column % banks)  # no two entries have the same
    begins, lanes = xp.cumsum(lengths) - lengths, -(-lengths // PACK)
    packs = xp.zeros(rows * warps + 1, np.int32)
    packs[1:] = xp.cumsum(lanes)
    of = segment[order]
    place = xp.arange(count) - begins[of]
    target = (packs[of].astype(np.int64) + place % lanes[of]) * PACK + place // lanes[of]
    total = int(packs[-1]) * PACK
    placed = xp.full(total, width, np.uint16), xp.zeros(total, values.dtype)
    placed[0][target], placed[1][target] = columns[order], values[order]
    return Tiles(shape, warps, packs, *placed)


def _ranks(xp: Any, group: Array, column: Array, groups: int) -> Array:
    """How many entries of the same group have a smaller column."""
    order = xp.argsort((group << 16) | column)
    sizes = xp.bincount(group, minlength=groups)
    sorted_group = group[order]
    ranks = xp.empty_like(group)
    ranks[order] = xp.arange(group.size) - (xp.cumsum(sizes) - sizes)[sorted_group]
    return ranks


@dataclass(frozen=True)
class Sweep:
    """The kernel for matrices of one shape. blocks: how many sums of rows, and partial sums, it leaves."""

    kernel: Any
    blocks: int
    threads: int
    shared: int

    def __call__(self, tiles: Tiles, source: Array, u: Array, sums: Array, how: Recurrence) -> None:
        """u = A v - norm u, and sums (blocks, n): parts of transpose(A) u; `how` as for a product, but for `old`."""
        (rows, width), arrays = tiles.shape, (tiles.starts, tiles.columns, tiles.values)
        scaling = how.squares, np.int32(how.counted), how.norm, how.stored
        left = u, how.divisor, sums, how.made, np.float64(how.tiny)
        arguments = (*arrays, np.int32(rows), np.int32(width), source, *scaling, *left)
        self.kernel((self.blocks,), (self.threads,), arguments, shared_mem=self.shared)


def sweep(tiles: Tiles) -> Sweep:
    """The kernel for this matrix, compiled for the current GPU."""
    return _sweep(tiles.shape, tiles.values.dtype.name, tiles.values.device.id, SHAPES[tiles.values.dtype.name])


@cache
def _sweep(shape: tuple[int, int], real: str, device: int, form: tuple[int, int, int]) -> Sweep:
    warps, rows, depth = form
    defines: dict[str, int | str | float] = {"REAL": REAL[real], "WARPS": warps, "ROWS": rows, "DEPTH": depth}
    kernel = compile_cuda(SOURCE, defines=defines).get_function("sweep")
    gpu = facts(device)  # matrices of several widths share the compiled kernel: none may lower what another needs
    kernel.max_dynamic_shared_size_bytes = gpu.shared - STATIC_SHARED
    return Sweep(kernel, max(1, min(gpu.multiprocessors, shape[0])), warps * WARP, _shared_bytes(shape[1], real))


def _shared_bytes(width: int, real: str) -> int:
    """Two arrays with room for column `width`, each a multiple of 16 bytes."""
    return 2 * 16 * ((width * np.dtype(real).itemsize + 16) // 16)


def _library() -> Any:
    import cupy

    return cupy


def _free_bytes() -> int:
    import cupy

    return int(cupy.cuda.Device().mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
