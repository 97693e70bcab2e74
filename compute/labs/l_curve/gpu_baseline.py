"""The baselines of baseline.py on the GPU, by CuPy's sparse matrices and its LSMR.

CuPy multiplies a sparse matrix with a vector by cuSPARSE, and waits for the device three times per iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.labs.l_curve.baseline import TITLE, Solver


class StackedCuPy:
    """The tutorial's method on the current GPU. A: (m, n) csr on the host; b: (m,)."""

    title = f"{TITLE}, stacked in float64 (the tutorial's way), CuPy"

    def __init__(self, A: scipy.sparse.csr_matrix, b: NDArray[Any]) -> None:
        self._cupy, self._sparse, self._linalg = _libraries()
        self._A, self._b = self._sparse.csr_matrix(A), self._cupy.asarray(np.asarray(b, np.float64))

    def solve(self, lam: float) -> tuple[Any, int]:
        """Return (x, iterations)."""
        n = self._A.shape[1]
        stacked = self._sparse.vstack([self._A, lam * self._sparse.eye(n, format="csr")], format="csr")
        x, _, iterations, *_ = self._linalg.lsmr(stacked, self._cupy.concatenate([self._b, self._cupy.zeros(n)]))
        return x, int(iterations)

    def norms(self, x: Any) -> tuple[float, float]:
        """Return |A x - b| and |x|, in float64."""
        norm = self._cupy.linalg.norm
        return float(norm(self._A @ x - self._b)), float(norm(x))


class DampedCuPy(StackedCuPy):
    """LSMR with λ as its damping, products in A's type; the same tolerances."""

    title = f"{TITLE}, damped, CuPy"

    def __init__(self, A: scipy.sparse.csr_matrix, b: NDArray[Any]) -> None:
        super().__init__(A, b)
        self._T, self._real = self._sparse.csr_matrix(A.T.tocsr()), A.dtype

    def solve(self, lam: float) -> tuple[Any, int]:
        """Return (x, iterations)."""
        operator = self._linalg.LinearOperator(
            self._A.shape,
            matvec=lambda x: (self._A @ x.astype(self._real, copy=False)).astype(np.float64, copy=False),
            rmatvec=lambda y: (self._T @ y.astype(self._real, copy=False)).astype(np.float64, copy=False),
            dtype=np.float64,
        )
        x, _, iterations, *_ = self._linalg.lsmr(operator, self._b, damp=lam)
        return x, int(iterations)


def _libraries() -> tuple[Any, Any, Any]:
    import cupy
    from cupyx.scipy import sparse
    from cupyx.scipy.sparse import linalg

    return cupy, sparse, linalg


SOLVERS: dict[str, Callable[[scipy.sparse.csr_matrix, NDArray[Any]], Solver]] = {
    "stacked": StackedCuPy,
    "damped": DampedCuPy,
}
