"""A step of the recurrence in one pass over A: the layout of its entries for gpu_onepass.cu, and its launch.

Two products read A and its transpose, 270 MB per step for the tutorial's matrix; one pass reads 138 MB. It is faster if
rows are long enough to keep a block busy, and possible if v and a sum of rows, both of n numbers, fit into a block's
shared memory: n = 28 000 in float32 on an H200, 14 000 in float64.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda
from compute.devices.devices import Array
from compute.labs.l_curve.bidiagonal import Rows
from compute.labs.l_curve.gpu_launch import PACK, REAL, STATIC_SHARED, WARP, Recurrence, facts

SOURCE = Path(__file__).with_suffix(".cu")
# Groups of a block, warps of a group, rows of a turn, turns in registers: the first form whose sums fit into shared
# memory is used. All forms of a type have the same number of warps. gpu_tune.py measures other forms.
Form = tuple[int, int, int, int]
SHAPES: dict[str, tuple[Form, ...]] = {
    "float32": ((2, 8, 2, 2), (1, 8, 4, 2)),
    "float64": ((1, 8, 2, 4),),
}
SEGMENT = PACK * WARP  # maximum entries of a row per warp
BUSY = 8  # minimum mean number of lanes of a warp that have entries
BANK_BYTES = 128  # of shared memory that can be read in one cycle
VECTOR_BYTES = 16  # loaded by a lane in one instruction
LAYING_OUT = 80  # temporary bytes per entry during the layout
ODD = 2  # bytes of a column


@dataclass(frozen=True)
class Tiles:
    """A matrix in the layout of gpu_onepass.cu, each row cut into one segment for each warp.

    starts: (rows * warps + 1,) int32, of the segments in packs of 8 entries, a pack per lane. columns: uint16, the 8 of
    a lane in sequence, beyond the width for empty places. values: 0 in empty places; within a segment the first 16
    bytes of each lane, then the second 16 bytes of each, and so on.
    """

    shape: tuple[int, int]
    warps: int
    starts: Array
    columns: Array
    values: Array


_tiles: dict[int, Tiles | None] = {}  # by the identity of their Rows, while those are alive


def tiles_of(matrix: Rows) -> Tiles | None:
    """Return `matrix` laid out, cached after the first call; None if one pass is not possible or not faster."""
    if id(matrix) not in _tiles:
        weakref.finalize(matrix, _tiles.pop, id(matrix), None)
        _tiles[id(matrix)] = _laid_out(matrix) if _pays(matrix) else None
    return _tiles[id(matrix)]


def _pays(matrix: Rows) -> bool:
    pays = pays_for(matrix.shape, matrix.entries, matrix.values.dtype.name, matrix.values.device.id)
    return pays and matrix.columns.dtype.itemsize == ODD and _free_bytes() >= LAYING_OUT * matrix.entries


def pays_for(shape: tuple[int, int], entries: int, real: str, device: int) -> bool:
    """Return whether a matrix with `entries` entries fits a GPU's shared memory and has sufficiently long rows."""
    rows, width = shape
    return _form(width, real, device) is not None and entries >= BUSY * PACK * _warps(real) * rows


def _form(width: int, real: str, device: int) -> Form | None:
    """Return the first form that fits into this GPU's shared memory."""
    room = facts(device).shared - STATIC_SHARED
    return next((form for form in SHAPES[real] if _shared_bytes(width, real, form[0]) <= room), None)


def defines(real: str, form: Form) -> dict[str, int | str | float]:
    """Return the macros with which gpu_onepass.cu is compiled."""
    groups, warps, rows, depth = form
    return {"REAL": REAL[real], "GROUPS": groups, "WARPS": warps, "ROWS": rows, "DEPTH": depth}


def _warps(real: str) -> int:
    return SHAPES[real][0][1]


def _laid_out(matrix: Rows) -> Tiles | None:
    arrays = matrix.starts, matrix.columns, matrix.values
    return lay_out(_library(), *arrays, matrix.shape, _warps(matrix.values.dtype.name))


def lay_out(xp: Any, starts: Array, columns: Array, values: Array, shape: tuple[int, int], warps: int) -> Tiles | None:
    """Lay out the matrix with `xp`: NumPy or CuPy. Return None if a row has too many entries for one of its segments.

    Each lane of a warp has up to 8 entries of a segment. All lanes use their first entries together, then their second
    entries, and so on: these are the turns. `_turns` assigns the entries to the turns.
    """
    (rows, width), count = shape, int(values.size)
    banks = BANK_BYTES // values.dtype.itemsize
    column = columns.astype(np.int64)
    segment = (xp.searchsorted(starts, xp.arange(count), side="right") - 1) * warps + column // -(-width // warps)
    lengths = xp.bincount(segment, minlength=rows * warps)
    if int(lengths.max()) > SEGMENT:
        return None
    begins, lanes = xp.cumsum(lengths) - lengths, -(-lengths // PACK)
    turn = _turns(xp, segment, column, lengths, banks)
    order = xp.argsort(((segment * PACK + turn) << 16) | column)  # no two entries have the same key
    packs = xp.zeros(rows * warps + 1, np.int32)
    packs[1:] = xp.cumsum(lanes)
    of = segment[order]
    place = xp.arange(count) - begins[of]
    lane, turn, first = place % lanes[of], place // lanes[of], packs[of].astype(np.int64) * PACK
    total, vector = int(packs[-1]) * PACK, VECTOR_BYTES // values.dtype.itemsize
    idle = width + xp.repeat(xp.arange(rows * warps) % warps * WARP - packs[:-1], lanes) + xp.arange(total // PACK)
    placed = xp.repeat(idle.astype(np.uint16), PACK), xp.zeros(total, values.dtype)  # a column for each lane
    placed[0][first + lane * PACK + turn] = columns[order]
    placed[1][first + (turn // vector * lanes[of] + lane) * vector + turn % vector] = values[order]
    return Tiles(shape, warps, packs, *placed)


def _turns(xp: Any, segment: Array, column: Array, lengths: Array, banks: int) -> Array:
    """Return (entries,) 0 ... 7: the turn of each entry, such that few entries of a turn are in the same bank.

    A turn needs as many reads as its fullest bank has entries; the minimum for the tutorial's matrix is 1.38 per turn,
    because some bank of a segment has 11 entries. So each bank distributes its entries evenly over the turns, as far as
    possible. The remainders of banks with more than 8 entries are put into the same turns, since these take longer
    anyway; the remainders of other banks go to the turns with the most room. This needs 1.40 reads per turn; dealing
    out entries bank by bank needs 1.63.
    """
    key = segment * banks + column % banks
    held = xp.bincount(key, minlength=lengths.size * banks).reshape(lengths.size, banks)
    over, full = held % PACK, held >= PACK
    lanes = -(-lengths // PACK)
    room = xp.clip(lengths[:, None] - lanes[:, None] * xp.arange(PACK), 0, lanes[:, None])
    room = room - (held // PACK).sum(1)[:, None]
    by_size = xp.argsort(-(over + PACK * full), axis=1)  # full banks first, then banks by decreasing remainder
    dealt = xp.zeros((*held.shape, PACK), np.int8)
    each, turns = xp.arange(lengths.size), xp.arange(PACK)
    for number in range(banks):
        bank = by_size[:, number]
        wish = xp.where(full[each, bank][:, None], (room <= 0) * PACK, -room * PACK) + turns
        chosen = xp.argsort(wish, axis=1)
        dealt[each, bank] = chosen
        taken = (turns < over[each, bank][:, None]).astype(room.dtype)
        room[each[:, None], chosen] -= taken
    rank = _ranks(xp, key, column, lengths.size * banks)
    return dealt.reshape(-1, PACK)[key, rank % PACK].astype(np.int64)


def _ranks(xp: Any, group: Array, column: Array, groups: int) -> Array:
    """Return, for each entry, the number of entries of the same group with a smaller column."""
    order = xp.argsort((group << 16) | column)
    sizes = xp.bincount(group, minlength=groups)
    sorted_group = group[order]
    ranks = xp.empty_like(group)
    ranks[order] = xp.arange(group.size) - (xp.cumsum(sizes) - sizes)[sorted_group]
    return ranks


@dataclass(frozen=True)
class OnePassKernel:
    """The kernel for matrices of one shape. blocks: the number of sums of rows, and of partial sums, that it writes."""

    kernel: Any
    blocks: int
    threads: int
    shared: int

    def __call__(self, tiles: Tiles, source: Array, u: Array, sums: Array, how: Recurrence) -> None:
        """Compute u = A v - norm u, and sums (blocks, n): parts of transpose(A) u; `how.old` is unused."""
        (rows, width), arrays = tiles.shape, (tiles.starts, tiles.columns, tiles.values)
        scaling = how.squares, np.int32(how.counted), how.norm, how.stored
        left = u, how.divisor, sums, how.made, how.tiny
        arguments = (*arrays, np.int32(rows), np.int32(width), source, *scaling, *left)
        self.kernel((self.blocks,), (self.threads,), arguments, shared_mem=self.shared)


def sweep(tiles: Tiles) -> OnePassKernel:
    """Return the kernel for this matrix, compiled for the current GPU."""
    (_, width), real, device = tiles.shape, tiles.values.dtype.name, tiles.values.device.id
    form = _form(width, real, device)
    if form is None:
        raise ValueError(f"a matrix of {width} columns in {real} does not fit this GPU's shared memory")
    return _sweep(tiles.shape, real, device, form)


@cache
def _sweep(shape: tuple[int, int], real: str, device: int, form: Form) -> OnePassKernel:
    groups, warps, _, _ = form
    kernel = compile_cuda(SOURCE, defines=defines(real, form)).get_function("sweep")
    gpu = facts(device)  # matrices of several widths share the compiled kernel: none may lower the value of another
    kernel.max_dynamic_shared_size_bytes = gpu.shared - STATIC_SHARED
    shared = _shared_bytes(shape[1], real, groups)
    return OnePassKernel(kernel, max(1, min(gpu.multiprocessors, shape[0])), groups * warps * WARP, shared)


def _shared_bytes(width: int, real: str, groups: int) -> int:
    """Return the bytes of v and a sum per group, padded by a column per lane and to a multiple of 16 bytes."""
    width += _warps(real) * WARP
    return (1 + groups) * 16 * ((width * np.dtype(real).itemsize + 16) // 16)


def _library() -> Any:
    import cupy

    return cupy


def _free_bytes() -> int:
    import cupy

    return int(cupy.cuda.Device().mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
