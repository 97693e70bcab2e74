"""Bidiagonalisation in WGSL for any GPU, in float32: six plain launches per step.

Alpha and beta stay on the device, as float64 that the kernels write bit by bit: WGSL computes in float32 only. Sums of
squares consist of two floats and a power of two, so that norms have the range and nearly the digits of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from compute.devices.devices import Array
from compute.devices.webgpu_passes import Gpu, Storage, WgpuArray
from compute.devices.wgsl import WgslProgram, folded, kernel
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Rows

THREADS, MOST_LANES = 256, 32  # threads of a workgroup, as in the sources; most threads that share a row
PACK = 4  # entries that a thread loads together, as in the source
COLUMNS = 32  # of the rows of V that a workgroup combines, as in the source
PART_BYTES = 16  # of a partial sum of squares
MOST_PARTS = 2048  # that every workgroup of `normalise` adds up
SHORT = 2**16  # columns that two bytes can number
HERE = Path(__file__).parent
VECTORS = WgslProgram(HERE / "gpu_wgpu_vectors.wgsl", exact=2)
LARGEST_INDEX = 2**31 - 1


def index_types(columns: int, entries: int) -> tuple[type, type]:
    """Return the types of starts and columns: two bytes for up to 65 536 columns save a quarter of the traffic.

    Raises ValueError for more entries than int32 can count.
    """
    if max(columns, entries) > LARGEST_INDEX:
        raise ValueError(f"A must have at most {LARGEST_INDEX} entries on WebGPU, not {max(columns, entries)}")
    return np.int32, np.uint16 if columns <= SHORT else np.int32


def one_pass(matrix: Rows) -> bool:
    """Return whether `steps` reads the matrix once for both products: never here."""
    return False


def start(work: BidiagonalArrays) -> None:
    """Compute beta_0 u_0 = b, alpha_0 v_0 = transpose(A) u_0, where b is read from work.u; contract in cpu_numpy."""
    _normalise(work.u, work.beta, 0, work.u, 0.0, _squares(work.u))
    multiply(work.T, work.u, work.w)
    _normalise(work.w, work.alpha, 0, work.V[0], 0.0, _squares(work.w))


def steps(work: BidiagonalArrays, first: int, count: int, orthogonal: bool, tiny: float) -> None:
    """Compute steps first to first + count - 1 of the bidiagonalisation; contract in cpu_numpy."""
    for j in range(first, first + count):
        groups = _recur(work.A, work.V[j], (work.alpha, j), work.u, work.u)
        _normalise(work.u, work.beta, j + 1, work.u, tiny, groups)
        groups = _recur(work.T, work.u, (work.beta, j + 1), work.V[j], work.w)
        if orthogonal:
            _project(work.V, j + 1, work.w, work.c)
            groups = _subtract(work.V, j + 1, work.c, work.w)
        _normalise(work.w, work.alpha, j + 1, work.V[j + 1], tiny, groups)


def multiply(matrix: Rows, x: Array, out: Array) -> None:
    """Compute out (rows,) = matrix x, x (columns,), all float32."""
    nothing = out.gpu.padding(4)
    _product("multiply", matrix, x, (nothing, 0), (nothing, 0), out, 0)


def combine(V: Array, y: Array, x: Array) -> None:
    """Compute x (n,) = y_0 V[0] + y_1 V[1] + ... for y (k,), k >= 1, all float32."""
    _vectors("combine", -(-x.size // COLUMNS), V, y, x, n=x.size, rows=y.size)


def project(V: Array, x: Array, y: Array) -> None:
    """Compute y (k,) = V[:k] x, the scalar products of x (n,) with the first k rows; all float32."""
    _project(V, y.size, x, y)


def _recur(matrix: Rows, x: Array, factor: tuple[Array, int], old: Array, out: Array) -> int:
    """Compute out = matrix x - factor old; return the number of partial sums of squares of out."""
    scale, index = factor
    held = out.gpu.padding(4) if old is out else old.storage
    return _product("recur", matrix, x, (held, old.offset), (scale.storage, index), out, 2 if old is out else 1)


def _product(
    name: str,
    matrix: Rows,
    x: Array,
    old: tuple[Storage, int],
    factor: tuple[Storage, int],
    out: Array,
    scaled: int,
) -> int:
    if matrix.values.dtype != np.float32 or x.dtype != np.float32:
        raise TypeError(f"a matrix and vectors must be float32 on WebGPU, not {matrix.values.dtype} and {x.dtype}")
    lanes = lanes_for(matrix.entries / matrix.shape[0])
    groups = _groups(matrix.shape[0] * lanes)
    arrays = [each.storage for each in (matrix.starts, matrix.columns, matrix.values, x)]
    arrays += [old[0], factor[0], out.storage, _parts(out.gpu, groups)]
    numbers = np.array([matrix.shape[0], groups, x.offset, old[1], scaled, factor[1]], np.uint32)
    program = _products(lanes, matrix.columns.dtype.name)
    kernel(out.gpu, program, name)(folded(groups), arrays, numbers)
    return groups


UNPACKED = {"uint16": ("vec2<u32>", "from_two_bytes"), "int32": ("vec4<u32>", "from_four_bytes")}  # columns of a pack


@cache
def _products(lanes: int, column: str) -> WgslProgram:
    packed, unpacked = UNPACKED[column]
    defines = ("LANES", f"{lanes}u"), ("COLUMNS", packed), ("UNPACKED", unpacked)
    return WgslProgram(HERE / "gpu_wgpu_products.wgsl", defines, exact=2)


PROGRAMS = {  # for the code panel
    "1 thread per row": _products(1, "uint16"),
    f"{MOST_LANES} threads per row": _products(MOST_LANES, "uint16"),
    "vectors": VECTORS,
}


def lanes_for(mean: float) -> int:
    """Return the number of threads that share a row of `mean` entries: a power of 2, at most MOST_LANES."""
    lanes = 1
    while lanes < MOST_LANES and lanes * PACK < mean:
        lanes *= 2
    return lanes


def _squares(vector: Array) -> int:
    """Write the partial sums of squares of `vector`; return their number."""
    groups = _groups(vector.size)
    _vectors("squares_of", groups, None, vector, None, parts=groups, n=vector.size)
    return groups


def _normalise(vector: Array, norms: Array, index: int, out: Array, tiny: float, groups: int) -> None:
    """Write norms[index] = |vector|, from its partial sums of squares, and out = vector / norm; see cpu_numpy."""
    parts, first = groups, 0
    while groups > MOST_PARTS:
        _vectors("fold", _groups(groups), None, vector, None, parts=parts, groups=groups, first=first)
        first, groups = first + groups, _groups(groups)
    low, high = (int(word) for word in np.array([tiny], "<f8").view("<u4"))
    same = out.storage is vector.storage
    _vectors(
        "normalise", _groups(vector.size), None, None if same else vector, out, norms, parts,
        n=vector.size, first=first, groups=groups, index=index, in_place=int(same), tiny_low=low, tiny_high=high,
    )  # fmt: skip


def _subtract(V: Array, rows: int, c: Array, w: Array) -> int:
    """Compute w -= c V[:rows]; return the number of partial sums of squares of w."""
    groups = -(-w.size // COLUMNS)
    _vectors("subtract", groups, V, c, w, parts=groups, n=w.size, rows=rows)
    return groups


def _project(V: Array, rows: int, x: Array, y: Array) -> None:
    _vectors("project", rows, V, x, y, n=x.size, rows=rows, first=x.offset)


NUMBERS = ("n", "groups", "rows", "first", "first_written", "index", "in_place", "tiny_low", "tiny_high")


def _vectors(
    name: str, grid: int, V: Array | None, w: Array | None, out: Array | None, norms: Array | None = None,
    parts: int = 1, **numbers: int,
) -> None:  # fmt: skip
    """Launch a kernel of gpu_wgpu_vectors.wgsl; the numbers are those of its struct, 0 if not given.

    parts: the number of partial sums of squares that were written to the scratch, or will be.
    """
    known = next(each for each in (V, w, out, norms) if each is not None)
    given = [known.gpu.padding(k) if each is None else each.storage for k, each in enumerate((V, w, out))]
    last = known.gpu.padding(4) if norms is None else norms.storage
    arrays = [*given, _parts(known.gpu, parts), last]
    numbers = {"first_written": out.offset if out is not None else 0, **numbers}
    values = np.array([numbers.get(number, 0) for number in NUMBERS], np.uint32)
    kernel(known.gpu, VECTORS, name)(folded(grid), arrays, values)


def _groups(size: int) -> int:
    return -(-size // THREADS)


def _parts(gpu: Gpu, count: int) -> Storage:
    """Return the scratch for `count` partial sums of squares, and for those that `fold` writes behind them."""
    return _scratch(gpu, 2 << max(count - 1, 0).bit_length()).storage


@cache
def _scratch(gpu: Gpu, count: int) -> WgpuArray:
    return WgpuArray(gpu.storage(count * PART_BYTES), (count, 4), np.dtype(np.float32))


VARIANTS: dict[str, Callable[..., None]] = {"all λ at once": steps}
