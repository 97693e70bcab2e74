"""The standard form of Tikhonov regularisation with a derivative: min |A x - b|^2 + λ^2 |L x|^2, L (n - d, n).

L is the first or second difference of neighbouring unknowns, [-1 1] or [1 -2 1] in each row, as `get_l` of
Regularization Tools. Constants, and for d = 2 straight lines, have L x = 0, so that they are not damped. Eldén's
transformation (BIT 17, 1977; P. C. Hansen, *Rank-Deficient and Discrete Ill-Posed Problems*, SIAM 1998, section 2.3)
separates them: with the QR factorisation A W = Q [T; 0] of the images of a basis W (n, d) of this null space, Q = [Q1
Q2], and any G (n, n - d) with L G = I, here d cumulative sums,

    min |Ā y - b̄|^2 + λ^2 |y|^2, Ā = transpose(Q2) A G (m - d, n - d), b̄ = transpose(Q2) b,

has y = L x and the same residual norm. One bidiagonalisation of Ā serves every λ. The solution is x = G y + W c with T
c = transpose(Q1) (b - A G y): G y - W T^-1 transpose(Q1) A G y is the A-weighted pseudo-inverse of L times y, the rest
is x0, the part that L does not see. Ā is dense even if A is sparse. Everything here is float64, on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

HIGHEST = 2  # order of the derivative
COPIES = 5  # of A in float64 that exist at the same time while Ā is made
BLIND = 1e-12  # relative size of T's smallest diagonal entry below which A maps a part of the null space to 0
OF_RIGHT = 4  # roundoffs of b in b̄, after one or two reflections
EXPLAINED = 1e-13  # relative size of b̄ below which x0 alone explains b


@dataclass(frozen=True)
class StandardForm:
    """The transformed problem of order d >= 1. A: Ā (m - d, n - d); basis: W (n, d), orthonormal.

    reflectors: d Householder vectors (m,) whose reflections are Q; triangle: T (d, d); coupling: transpose(Q1) A G (d,
    n - d). error: |δĀ| in Frobenius' norm, an estimate of the rounding errors.
    """

    A: Matrix
    basis: Matrix
    reflectors: tuple[Vector, ...]
    triangle: Matrix
    coupling: Matrix
    error: float

    @classmethod
    def of(cls, A: Any, order: int) -> StandardForm:
        """Transform A (m, n), an array or a sparse matrix; raise ValueError if m or n <= order, or A W is singular."""
        m, n = A.shape
        if min(m, n) <= order:
            raise ValueError(f"derivative must be below the {min(m, n)} rows or columns of A, not {order}")
        dense = np.asarray(A.toarray() if scipy.sparse.issparse(A) else A, np.float64)
        basis = null_space(n, order)
        reflectors, triangle = _householder(dense @ basis)
        if not np.abs(np.diag(triangle)).min() > BLIND * np.linalg.norm(dense):
            parts = "constants" if order == 1 else "constants and straight lines"
            raise ValueError(f"derivative must be 0 for this A: it maps {parts} to 0 in part, and L does not damp them")
        summed = dense
        for _ in range(order):
            summed = np.cumsum(summed[:, ::-1], axis=1)[:, -2::-1]  # column j: the sum of all columns after j
        rotated = _reflected(summed, reflectors)
        error = float(np.finfo(np.float64).eps) * np.sqrt(n) * float(np.linalg.norm(summed))
        return cls(rotated[order:], basis, reflectors, triangle, rotated[:order], error)

    @property
    def order(self) -> int:
        """The order d of the derivative."""
        return len(self.reflectors)

    def split(self, b: Vector) -> tuple[Vector, Vector]:
        """Return (b̄ (m - d,), transpose(Q1) b (d,)) for b (m,); raise ValueError if x0 alone explains b."""
        rotated = _reflected(b, self.reflectors)
        if not np.linalg.norm(rotated[self.order :]) > EXPLAINED * np.linalg.norm(b):
            parts = "a constant" if self.order == 1 else "a straight line"
            raise ValueError(f"derivative must be below {self.order} for this b: x = {parts} explains it for every λ")
        return rotated[self.order :], rotated[: self.order]

    def errors(self, reduced: Vector, seen: Vector) -> tuple[float, float]:
        """Return estimates of |δĀ| and of |δb̄|, the rounding errors of the transformation."""
        roundoff = OF_RIGHT * float(np.finfo(np.float64).eps)
        return self.error, roundoff * float(np.hypot(np.linalg.norm(reduced), np.linalg.norm(seen)))

    def solution(self, y: Vector, seen: Vector) -> Vector:
        """Return x (n,) for y (n - d,) = L x; seen: transpose(Q1) b."""
        made = y.astype(np.float64)
        for _ in range(self.order):
            made = np.concatenate([[0.0], np.cumsum(made)])
        free = scipy.linalg.solve_triangular(self.triangle, seen - self.coupling @ y)
        return np.asarray(made + self.basis @ free)

    def residual(self, reduced: Vector) -> Vector:
        """Return the residual b - A x (m,) from b̄ - Ā y (m - d,)."""
        padded = np.concatenate([np.zeros(self.order), reduced])
        return _reflected(padded, self.reflectors[::-1])


def difference(n: int, order: int) -> scipy.sparse.csr_matrix:
    """Return L (n - order, n): the identity for order 0, else the first or second difference."""
    L = scipy.sparse.eye(n, format="csr")
    for _ in range(order):
        L = L[1:] - L[:-1]
    return L


def null_space(n: int, order: int) -> Matrix:
    """Return an orthonormal basis (n, order) of the vectors with L x = 0: constants, then the straight line."""
    line = np.arange(n) - (n - 1) / 2
    columns = np.column_stack([np.ones(n), line])[:, :order]
    return np.asarray(columns / np.linalg.norm(columns, axis=0))


def _householder(columns: Matrix) -> tuple[tuple[Vector, ...], Matrix]:
    """Return (Householder vectors (m,), each of norm √2, or 0 for no reflection, and T) of columns = Q [T; 0]."""
    left, vectors = columns.copy(), []
    for j in range(columns.shape[1]):
        v = left[:, j].copy()
        v[:j] = 0
        v[j] += np.copysign(np.linalg.norm(v), v[j])
        size = np.linalg.norm(v)
        v *= np.sqrt(2) / size if size else 0.0
        left = _reflected(left, (v,))
        vectors.append(v)
    return tuple(vectors), np.triu(left[: columns.shape[1]])


def _reflected(values: NDArray[np.float64], vectors: tuple[Vector, ...]) -> NDArray[np.float64]:
    """Return `values` (m,) or (m, k) after the reflections I - v transpose(v), the first vector first."""
    for v in vectors:
        values = values - (v[:, None] * (v @ values) if values.ndim == 2 else v * (v @ values))
    return values
