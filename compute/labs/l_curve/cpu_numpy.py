"""Bidiagonalisation with SciPy's sparse products and NumPy: the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Rows

Vector = NDArray[np.floating]


def index_types(columns: int, entries: int) -> tuple[type, type]:
    """Return the types of starts and columns: one type for both, as in SciPy."""
    small = max(columns, entries) < 2**31
    return (np.int32, np.int32) if small else (np.int64, np.int64)


def one_pass(matrix: Rows) -> bool:
    """Return whether `steps` reads the matrix once for both products: never here, possibly on a GPU."""
    return False


def start(work: BidiagonalArrays) -> None:
    """Compute beta_0 u_0 = b, alpha_0 v_0 = transpose(A) u_0; b is read from work.u and must not be orthogonal to A.

    Writes beta[0], alpha[0], u = u_0 and V[0] = v_0. Norms are accumulated in float64 for every type of the vectors.
    """
    work.beta[0] = _normalise(work.u, work.u, 0.0)
    multiply(work.T, work.u, work.w)
    work.alpha[0] = _normalise(work.w, work.V[0], 0.0)


def steps(work: BidiagonalArrays, first: int, count: int, orthogonal: bool, tiny: float) -> None:
    """Compute steps first to first + count - 1, count >= 1, at most up to work.most; `start` writes step -1.

    Step j: beta_(j+1) u_(j+1) = A v_j - alpha_j u_j, then alpha_(j+1) v_(j+1) = transpose(A) u_(j+1) - beta_(j+1) v_j,
    minus, if `orthogonal`, its projection on v_0 to v_j (one pass of classical Gram-Schmidt). Reads and writes u; reads
    V[: j + 1], writes V[j + 1], alpha[j + 1], beta[j + 1]; uses w and c. A norm of at most `tiny` is stored as 0 and
    its vector as zeros, as are all later norms and vectors: the matrix is exhausted. u may lose its orthogonality,
    early for a wide matrix; norms and bounds from alpha and beta stay correct as long as V is orthogonal.
    """
    for j in range(first, first + count):
        v, w = work.V[j], work.w
        multiply(work.A, v, product := np.empty_like(work.u))
        work.u[:] = product - work.u.dtype.type(work.alpha[j]) * work.u
        work.beta[j + 1] = _normalise(work.u, work.u, tiny)
        multiply(work.T, work.u, w)
        w -= w.dtype.type(work.beta[j + 1]) * v
        if orthogonal:
            V = work.V[: j + 1]
            w -= (V @ w) @ V
        work.alpha[j + 1] = _normalise(w, work.V[j + 1], tiny) if work.beta[j + 1] else 0.0
        if not work.alpha[j + 1]:
            work.V[j + 1] = 0


def multiply(matrix: Rows, x: Vector, out: Vector) -> None:
    """Compute out (rows,) = matrix x, x (columns,), all of one type."""
    arrays = (matrix.values, matrix.columns, matrix.starts)
    out[:] = scipy.sparse.csr_matrix(arrays, shape=matrix.shape, copy=False) @ x


def combine(V: Vector, y: Vector, x: Vector) -> None:
    """Compute x (n,) = y_0 V[0] + y_1 V[1] + ... for y (k,), k >= 1, of V's type."""
    x[:] = y @ V[: y.size]


def project(V: Vector, x: Vector, y: Vector) -> None:
    """Compute y (k,) = V[:k] x, the scalar products of x (n,) with the first k rows; all of V's type."""
    y[:] = V[: y.size] @ x


def _normalise(vector: Vector, out: Vector, tiny: float) -> float:
    """Write out = vector / norm; return the norm, or 0 and zeros if the norm is at most `tiny`."""
    norm = float(np.sqrt(np.sum(vector.astype(np.float64) ** 2)))
    if norm <= tiny:
        out[:] = 0
        return 0.0
    out[:] = vector / vector.dtype.type(norm)
    return norm


VARIANTS: dict[str, Callable[..., None]] = {"all λ at once": steps}
