"""Bidiagonalisation in Numba-CUDA: a warp per row, a thread per column, eight plain launches per step.

It also runs in Numba's CUDA simulator, so lanes add up through shared memory: the simulator has no shuffles. Alpha and
beta stay on the device, as in gpu_cupy; but every vector is normalised by a separate launch, x is read from memory
through the caches, and a launch by Numba takes some 50 us on the host, so that a step of a small problem costs 0.4 ms.
Constants are passed as arguments of the vectors' type: a literal 0 would turn float32 sums into float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from compute.devices.devices import Array
from compute.devices.gpu_numba_kernel import device_function, kernel
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Rows

LANES, ROWS = 32, 4  # threads per row, rows per block
THREADS = LANES * ROWS
cuda: Any = None  # numba.cuda, set when the first kernel is compiled
add_up: Any = None  # the device function of _add_up, likewise


def index_types(columns: int, entries: int) -> tuple[type, type]:
    """Return the types of starts and columns: two bytes for up to 65 536 columns save a quarter of float32 traffic."""
    return np.int64, np.uint16 if columns <= 2**16 else np.int32


def one_pass(matrix: Rows) -> bool:
    """Return whether `steps` reads the matrix once for both products: never here."""
    return False


def start(work: BidiagonalArrays) -> None:
    """Compute beta_0 u_0 = b, alpha_0 v_0 = transpose(A) u_0, where b is read from work.u; contract in cpu_numpy."""
    squares = _scratch(max(work.u.size, work.w.size))
    count = _blocks(work.u.size, THREADS)
    _kernel(_squares)[count, THREADS](work.u, squares)
    _normalise(work.u, squares, count, work.beta, work.u, 0.0)
    multiply(work.T, work.u, work.w)
    count = _blocks(work.w.size, THREADS)
    _kernel(_squares)[count, THREADS](work.w, squares)
    _normalise(work.w, squares, count, work.alpha, work.V[0], 0.0)


def steps(work: BidiagonalArrays, first: int, count: int, orthogonal: bool, tiny: float) -> None:
    """Compute steps first to first + count - 1 of the bidiagonalisation; contract in cpu_numpy."""
    squares = _scratch(max(work.u.size, work.w.size))
    for j in range(first, first + count):
        v, beta = work.V[j], work.beta[j + 1 :]
        blocks = _less(work.A, v, work.alpha[j:], work.u, work.u, squares)
        _normalise(work.u, squares, blocks, beta, work.u, tiny)
        blocks = _less(work.T, work.u, beta, v, work.w, squares)
        if orthogonal:
            _kernel(_project)[j + 1, THREADS](work.V, work.w, work.c, _real(work.w, 0))
            blocks = _blocks(work.w.size, THREADS)
            _kernel(_subtract)[blocks, THREADS](work.V, j + 1, work.c, work.w, squares, _real(work.w, 0))
        _normalise(work.w, squares, blocks, work.alpha[j + 1 :], work.V[j + 1], tiny)


def multiply(matrix: Rows, x: Array, out: Array) -> None:
    """Compute out (rows,) = matrix x, x (columns,), all of one type."""
    arrays = matrix.starts, matrix.columns, matrix.values
    _kernel(_multiply)[_blocks(out.size, ROWS), THREADS](*arrays, x, out, _real(x, 0))


def combine(V: Array, y: Array, x: Array) -> None:
    """Compute x (n,) = y_0 V[0] + y_1 V[1] + ... for y (k,), k >= 1, of V's type."""
    _kernel(_combine)[_blocks(x.size, THREADS), THREADS](V, y, x, _real(x, 0))


def project(V: Array, x: Array, y: Array) -> None:
    """Compute y (k,) = V[:k] x, the scalar products of x (n,) with the first k rows; all of V's type."""
    _kernel(_project)[y.size, THREADS](V, x, y, _real(x, 0))


def _less(matrix: Rows, x: Array, scale: Array, old: Array, out: Array, squares: Array) -> int:
    """Compute out = matrix x - scale[0] old; return the number of sums of squares of out."""
    blocks = _blocks(out.size, ROWS)
    arrays = matrix.starts, matrix.columns, matrix.values
    _kernel(_multiply_less)[blocks, THREADS](*arrays, x, scale, old, out, squares, _real(x, 0))
    return blocks


def _normalise(vector: Array, squares: Array, count: int, norm: Array, out: Array, tiny: float) -> None:
    _kernel(_norm)[1, THREADS](squares, count, norm, tiny)
    _kernel(_scale)[_blocks(vector.size, THREADS), THREADS](vector, norm, out, _real(vector, 0))


@cache
def _kernel(function: Callable[..., None]) -> Any:
    """Return `function` as a kernel, and bind the device function that kernels call."""
    global add_up  # noqa: PLW0603 - Numba looks up the names in a kernel among the globals of its module
    add_up = device_function(_add_up)
    return kernel(function)


def _blocks(size: int, each: int) -> int:
    return -(-size // each)


def _real(like: Array, value: float) -> Any:
    return like.dtype.type(value)


def _scratch(size: int) -> Array:
    """Return scratch for sums of squares, at most one per ROWS numbers."""
    return _allocated(1 << _blocks(size, ROWS).bit_length())


@cache
def _allocated(size: int) -> Array:
    from numba import cuda as numba_cuda

    return numba_cuda.device_array(size, np.float64)


# The loops are `while` loops with one condition, as in the other labs.


def _add_up(sums, i, count):  # type: ignore[no-untyped-def]
    """Add the `count` sums of a group of threads to the first one, by halves. i: the thread's number in its group.

    All threads of the block must call it, since it contains barriers.
    """
    t = cuda.threadIdx.x
    cuda.syncthreads()
    half = count // 2
    while half > 0:
        if i < half:
            sums[t] += sums[t + half]
        cuda.syncthreads()
        half //= 2


def _multiply(starts, columns, values, x, out, zero):  # type: ignore[no-untyped-def]
    """Compute out = matrix x."""
    sums = cuda.shared.array(THREADS, values.dtype)
    t = cuda.threadIdx.x
    lane, i = t % LANES, cuda.blockIdx.x * ROWS + t // LANES
    total = zero
    if i < out.size:
        entry = starts[i] + lane
        while entry < starts[i + 1]:
            total += values[entry] * x[columns[entry]]
            entry += LANES
    sums[t] = total
    add_up(sums, lane, LANES)
    if lane == 0 and i < out.size:
        out[i] = sums[t]


def _multiply_less(  # type: ignore[no-untyped-def] # noqa: PLR0913, PLR0917 three of them are one matrix
    starts, columns, values, x, scale, old, out, squares, zero
):
    """Compute out = matrix x - scale[0] old, and the sum of its squares over each block."""
    sums = cuda.shared.array(THREADS, values.dtype)
    factor = cuda.shared.array(1, values.dtype)
    parts = cuda.shared.array(ROWS, np.float64)
    t = cuda.threadIdx.x
    lane, i = t % LANES, cuda.blockIdx.x * ROWS + t // LANES
    total = zero
    if i < out.size:
        entry = starts[i] + lane
        while entry < starts[i + 1]:
            total += values[entry] * x[columns[entry]]
            entry += LANES
    sums[t] = total
    if t == 0:
        factor[0] = scale[0]
    add_up(sums, lane, LANES)
    if lane == 0:
        parts[t // LANES] = 0
        if i < out.size:
            value = sums[t] - factor[0] * old[i]
            out[i] = value
            parts[t // LANES] = value
    cuda.syncthreads()
    if t == 0:
        square = parts[0] * parts[0]
        row = 1
        while row < ROWS:
            square += parts[row] * parts[row]
            row += 1
        squares[cuda.blockIdx.x] = square


def _squares(vector, squares):  # type: ignore[no-untyped-def]
    """Compute the sum of squares over each block."""
    sums = cuda.shared.array(THREADS, np.float64)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * THREADS + t
    sums[t] = 0
    if i < vector.size:
        sums[t] = vector[i]
    sums[t] *= sums[t]
    add_up(sums, t, THREADS)
    if t == 0:
        squares[cuda.blockIdx.x] = sums[0]


def _norm(squares, count, norm, tiny):  # type: ignore[no-untyped-def]
    """Compute norm[0] = the root of the sum of squares[:count], 0 if it is at most tiny. One block."""
    sums = cuda.shared.array(THREADS, np.float64)
    t = cuda.threadIdx.x
    sums[t] = 0
    i = t
    while i < count:
        sums[t] += squares[i]
        i += THREADS
    add_up(sums, t, THREADS)
    if t == 0:
        root = math.sqrt(sums[0])
        norm[0] = 0 if root <= tiny else root


def _scale(vector, norm, out, zero):  # type: ignore[no-untyped-def]
    """Compute out = vector / norm[0]; zeros if norm[0] is 0."""
    factor = cuda.shared.array(1, vector.dtype)
    if cuda.threadIdx.x == 0:
        factor[0] = norm[0]
    cuda.syncthreads()
    i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < vector.size:
        out[i] = vector[i] / factor[0] if norm[0] != 0 else zero


def _project(V, w, c, zero):  # type: ignore[no-untyped-def]
    """Compute c[row] = V[row] w, a block per row."""
    sums = cuda.shared.array(THREADS, w.dtype)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    total = zero
    j = t
    while j < w.size:
        total += V[row, j] * w[j]
        j += THREADS
    sums[t] = total
    add_up(sums, t, THREADS)
    if t == 0:
        c[row] = sums[0]


def _subtract(V, rows, c, w, squares, zero):  # type: ignore[no-untyped-def]
    """Compute w -= c V[:rows], and the sum of its squares over each block."""
    sums = cuda.shared.array(THREADS, np.float64)
    t = cuda.threadIdx.x
    j = cuda.blockIdx.x * THREADS + t
    sums[t] = 0
    if j < w.size:
        total = zero
        i = 0
        while i < rows:
            total += c[i] * V[i, j]
            i += 1
        w[j] -= total
        sums[t] = w[j]
    sums[t] *= sums[t]
    add_up(sums, t, THREADS)
    if t == 0:
        squares[cuda.blockIdx.x] = sums[0]


def _combine(V, y, x, zero):  # type: ignore[no-untyped-def]
    """Compute x = y V[: y.size], a thread per column."""
    j = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if j < x.size:
        total = zero
        i = 0
        while i < y.size:
            total += y[i] * V[i, j]
            i += 1
        x[j] = total


VARIANTS: dict[str, Callable[..., None]] = {"all λ at once": steps}
