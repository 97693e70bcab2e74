"""Bidiagonalisation in Numba: rows in parallel over all cores, two-byte columns for up to 65 536 columns.

Sums are reassociated, so that LLVM can vectorise them: results agree with the reference up to rounding, not bit for
bit. They do not depend on the number of threads. Small problems run on one thread: a step has four parallel regions,
and waking the threads may take longer than one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute.devices import numba_threads
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Rows

numba_threads.choose_layer()

Vector = NDArray[np.floating]
LOOSE = {"reassoc", "contract", "nsz"}  # flags that let LLVM vectorise a sum; NaN and inf keep their meaning
SHARE = 16  # rows of a matrix per thread and turn
PROBE = 64  # rows and columns of the dense matrix with which the time per entry is measured
BLOCK = 1024  # columns of V that a thread updates together: with all k rows they pass through its cache once


def index_types(columns: int, entries: int) -> tuple[type, type]:
    """Return the types of starts and columns: two bytes for up to 65 536 columns save a quarter of float32 traffic."""
    return np.int64, np.uint16 if columns <= 2**16 else np.int32


def one_pass(matrix: Rows) -> bool:
    """Return whether `steps` reads the matrix once for both products: never here."""
    return False


def start(work: BidiagonalArrays) -> None:
    """Compute beta_0 u_0 = b, alpha_0 v_0 = transpose(A) u_0, where b is read from work.u; contract in cpu_numpy."""
    numba_threads.launch()
    with numba_threads.shared(_seconds(work.T, work.T.values.size)):
        _start(*_arrays(work.T), work.u, work.V, work.w, work.alpha, work.beta)


def steps(work: BidiagonalArrays, first: int, count: int, orthogonal: bool, tiny: float) -> None:
    """Compute steps first to first + count - 1 of the bidiagonalisation; contract in cpu_numpy."""
    vectors = work.u, work.V, work.w, work.c
    numba_threads.launch()
    regions = 4 if orthogonal else 2
    entries = 2 * work.A.values.size + (2 * (first + count // 2) * work.w.size if orthogonal else 0)
    with numba_threads.shared(_seconds(work.A, entries // regions), regions * count):
        _steps(_arrays(work.A), _arrays(work.T), vectors, work.alpha, work.beta, first, count, (orthogonal, tiny))


def multiply(matrix: Rows, x: Vector, out: Vector) -> None:
    """Compute out (rows,) = matrix x, x (columns,), all of one type."""
    with numba_threads.shared(_seconds(matrix, matrix.values.size)):
        _multiply(*_arrays(matrix), x, out)


def combine(V: Vector, y: Vector, x: Vector) -> None:
    """Compute x (n,) = y_0 V[0] + y_1 V[1] + ... for y (k,), k >= 1, of V's type."""
    x[:] = 0
    _subtract(V, y.size, -y, x)


def project(V: Vector, x: Vector, y: Vector) -> None:
    """Compute y (k,) = V[:k] x, the scalar products of x (n,) with the first k rows; all of V's type."""
    _project(V, y.size, x, y)


def _seconds(matrix: Rows, entries: int) -> float:
    """Return the seconds of one thread for `entries` entries of a matrix of this type, or numbers of V."""
    return entries * _seconds_per_entry(matrix.values.dtype.name, matrix.starts.dtype.name, matrix.columns.dtype.name)


@cache
def _seconds_per_entry(values: str, starts: str, columns: str) -> float:
    """Measure the product of a dense matrix in the cache, by its arrays' types, once per process."""
    first = np.arange(PROBE + 1, dtype=starts) * PROBE
    matrix = first, np.tile(np.arange(PROBE, dtype=columns), PROBE), np.ones(PROBE * PROBE, values)
    x, out = np.ones(PROBE, values), np.empty(PROBE, values)
    return numba_threads.seconds_alone(lambda: _multiply(*matrix, x, out)) / PROBE**2


def _arrays(matrix: Rows) -> tuple[Any, Any, Any]:
    return matrix.starts, matrix.columns, matrix.values


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _row(starts, columns, values, i, x):  # type: ignore[no-untyped-def]
    """Return row i times x. Unsigned indices avoid a test for negative ones, which costs more than all the rest."""
    total = values.dtype.type(0)
    for entry in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
        total += values[entry] * x[columns[entry]]
    return total


@njit(cache=True, nogil=True, parallel=True)
def _multiply(starts, columns, values, x, out):  # type: ignore[no-untyped-def]
    for i in prange(out.size):
        out[i] = _row(starts, columns, values, np.int64(i), x)


@njit(cache=True, nogil=True)
def _total(numbers):  # type: ignore[no-untyped-def]
    """Return the sum in order: in a parallel function Numba would make it another parallel region."""
    total = 0.0
    for number in numbers:
        total += number
    return total


@njit(cache=True, nogil=True, parallel=True)
def _multiply_less(matrix, x, scale, old, out):  # type: ignore[no-untyped-def]
    """Compute out = matrix x - scale old; return |out|^2 in float64, the sum of the shares' sums. out may be old."""
    starts, columns, values = matrix
    squares = np.empty((out.size + SHARE - 1) // SHARE)
    for share in prange(squares.size):
        low = np.int64(share) * SHARE
        total = 0.0
        for i in range(low, min(low + SHARE, out.size)):
            value = _row(starts, columns, values, i, x) - scale * old[i]
            out[i] = value
            total += np.float64(value) * np.float64(value)
        squares[share] = total
    return _total(squares)


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True, parallel=True)
def _project(V, rows, w, c):  # type: ignore[no-untyped-def]
    """Compute c = V[:rows] w."""
    for i in prange(rows):
        c[i] = _dot(V[i], w)


@njit(cache=True, nogil=True, parallel=True)
def _subtract(V, rows, c, w):  # type: ignore[no-untyped-def]
    """Compute w -= c V[:rows]; return |w|^2 in float64, the sum of the blocks' sums."""
    squares = np.empty((w.size + BLOCK - 1) // BLOCK)
    for block in prange(squares.size):
        low = np.int64(block) * BLOCK
        high = min(low + BLOCK, w.size)
        _subtract_block(V[:rows, low:high], c, w[low:high])
        squares[block] = _squares(w[low:high])
    return _total(squares)


@njit(cache=True, nogil=True, fastmath=LOOSE)
def _subtract_block(V, c, w):  # type: ignore[no-untyped-def]
    """Compute w -= c V, four rows at a time, so that w is loaded and stored once for four rows."""
    rows = V.shape[0]
    fours = rows // 4 * 4
    for i in range(0, fours, 4):
        a, b, d, e = V[i], V[i + 1], V[i + 2], V[i + 3]
        p, q, r, s = c[i], c[i + 1], c[i + 2], c[i + 3]
        for j in range(w.size):
            w[j] -= (p * a[j] + q * b[j]) + (r * d[j] + s * e[j])
    for i in range(fours, rows):
        a, p = V[i], c[i]
        for j in range(w.size):
            w[j] -= p * a[j]


@njit(cache=True, nogil=True)
def _scale(vector, squares, tiny, out):  # type: ignore[no-untyped-def]
    """Write out = vector / norm; return the norm, or 0 and zeros if the norm is at most `tiny`."""
    norm = np.sqrt(squares)
    if norm <= tiny:
        out[:] = 0
        return 0.0
    factor = vector.dtype.type(norm)
    for j in range(vector.size):
        out[j] = vector[j] / factor
    return norm


@njit(cache=True, nogil=True)
def _squares(vector):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(vector.size):
        total += np.float64(vector[j]) * np.float64(vector[j])
    return total


@njit(cache=True, nogil=True)
def _start(starts, columns, values, u, V, w, alpha, beta):  # type: ignore[no-untyped-def]
    beta[0] = _scale(u, _squares(u), 0.0, u)
    _multiply(starts, columns, values, u, w)
    alpha[0] = _scale(w, _squares(w), 0.0, V[0])


@njit(cache=True, nogil=True)
def _steps(A, T, vectors, alpha, beta, first, count, how):  # type: ignore[no-untyped-def]
    u, V, w, c = vectors
    orthogonal, tiny = how
    real = u.dtype.type
    for j in range(first, first + count):
        beta[j + 1] = _scale(u, _multiply_less(A, V[j], real(alpha[j]), u, u), tiny, u)
        squares = _multiply_less(T, u, real(beta[j + 1]), V[j], w)
        if orthogonal:
            _project(V, j + 1, w, c)
            squares = _subtract(V, j + 1, c, w)
        alpha[j + 1] = _scale(w, squares, tiny, V[j + 1])
        if beta[j + 1] == 0.0:
            alpha[j + 1] = 0.0
            V[j + 1, :] = 0


VARIANTS: dict[str, Callable[..., None]] = {"all λ at once": steps}
