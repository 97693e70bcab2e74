"""The baseline of the L-curve lab: one run of LSMR for every λ, on the CPU by SciPy.

`StackedSciPy` is the method of a GPU tutorial: it builds [A; λ I] for every λ and calls LSMR with its default
tolerances. The identity is float64, so the stacked matrix is float64 as well, even if A is float32: 12 bytes per
non-zero, read twice per iteration. At these tolerances both norms are some 2 % off at the tutorial's smallest λ. One
part is not copied: the tutorial subtracts an (n, 1) array from an (n,) array, which gives n x n numbers and a wrong
residual. `DampedSciPy` is the recommended use of LSMR: λ as its damping, A and its transpose stored, products in A's
own type.

LSMR: D. C.-L. Fong and M. A. Saunders, SIAM J. Sci. Comput. 33 (2011).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

TITLE = "LSMR for each λ"


@dataclass(frozen=True)
class BaselinePoint:
    """One λ: |A x - b|, |x|, LSMR's iterations, and seconds from the stacking to the norms."""

    lam: float
    residual_norm: float
    solution_norm: float
    iterations: int
    seconds: float


class Solver(Protocol):
    """Solves for one λ after the other."""

    title: str

    def solve(self, lam: float) -> tuple[Any, int]:
        """Return (x, iterations)."""

    def norms(self, x: Any) -> tuple[float, float]:
        """Return |A x - b| and |x|; waits for the device."""


@dataclass(frozen=True)
class Baseline:
    """The completed points, in the order of the λ; arrays of one value each."""

    title: str
    points: tuple[BaselinePoint, ...]

    def column(self, name: str) -> NDArray[Any]:
        """Return the (count,) values of "lam", "residual_norm", "solution_norm", "iterations" or "seconds"."""
        return np.array([getattr(point, name) for point in self.points])

    @property
    def seconds(self) -> float:
        """Seconds of all points."""
        return float(sum(point.seconds for point in self.points))


def run(
    solver: Solver,
    lambdas: Sequence[float],
    progress: Callable[[BaselinePoint, int], object] = lambda _point, _count: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Baseline:
    """Solve for every λ > 0 in turn; raise ValueError for any other λ.

    progress: called after each λ with its point and the number of points; cancelled: called before each λ, True ends
    the run.
    """
    for lam in lambdas:
        if not 0 < lam < np.inf:
            raise ValueError(f"lambdas must be finite and above 0, not {lam!r}")
    points: list[BaselinePoint] = []
    for lam in lambdas:
        if cancelled():
            break
        start = perf_counter()
        x, iterations = solver.solve(float(lam))
        norms = solver.norms(x)
        points.append(BaselinePoint(float(lam), *norms, iterations, perf_counter() - start))
        progress(points[-1], len(points))
    return Baseline(solver.title, tuple(points))


class StackedSciPy:
    """The tutorial's method on the CPU. A: (m, n) csr; b: (m,)."""

    title = f"{TITLE}, stacked in float64 (the tutorial's way), SciPy"

    def __init__(self, A: scipy.sparse.csr_matrix, b: NDArray[Any]) -> None:
        self._A, self._b = A, np.asarray(b, np.float64)

    def solve(self, lam: float) -> tuple[NDArray[np.float64], int]:
        """Return (x, iterations)."""
        n = self._A.shape[1]
        stacked = scipy.sparse.vstack([self._A, lam * scipy.sparse.eye(n, format="csr")], format="csr")
        x, _, iterations, *_ = scipy.sparse.linalg.lsmr(stacked, np.concatenate([self._b, np.zeros(n)]))
        return x, int(iterations)

    def norms(self, x: NDArray[np.float64]) -> tuple[float, float]:
        """Return |A x - b| and |x|, in float64."""
        return float(np.linalg.norm(self._A @ x - self._b)), float(np.linalg.norm(x))


class DampedSciPy(StackedSciPy):
    """LSMR with λ as its damping, products in A's type; the same tolerances."""

    title = f"{TITLE}, damped, SciPy"

    def __init__(self, A: scipy.sparse.csr_matrix, b: NDArray[Any]) -> None:
        super().__init__(A, b)
        self._T, self._real = A.T.tocsr(), A.dtype

    def solve(self, lam: float) -> tuple[NDArray[np.float64], int]:
        """Return (x, iterations)."""
        operator = scipy.sparse.linalg.LinearOperator(
            self._A.shape,
            matvec=lambda x: (self._A @ x.astype(self._real, copy=False)).astype(np.float64, copy=False),
            rmatvec=lambda y: (self._T @ y.astype(self._real, copy=False)).astype(np.float64, copy=False),
            dtype=np.float64,
        )
        x, _, iterations, *_ = scipy.sparse.linalg.lsmr(operator, self._b, damp=lam)
        return x, int(iterations)


SOLVERS: dict[str, Callable[[scipy.sparse.csr_matrix, NDArray[Any]], Solver]] = {
    "stacked": StackedSciPy,
    "damped": DampedSciPy,
}
