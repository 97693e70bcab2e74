"""How a curve is known to be right: bounds that have closed in float64, confirmed by the gradient of the solution.

The tutorial's problem of size n is solved in float64 on the fastest backend there is until both bounds of both norms
agree to CLOSED at every λ. That the bounds are right is confirmed without them: SciPy's products give the gradient
g = transpose(A) (b - A x) - λ^2 x, and |x - solution| <= |g| / λ^2.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from compute.backends import backend
from compute.labs.l_curve.bidiagonal import SPARE, Bidiagonalisation
from compute.labs.l_curve.problems import make
from compute.labs.l_curve.small import Points, Small, points
from compute.labs.l_curve.state import compressed
from compute.labs.l_curve.system import TUTORIAL

PACKAGE = "compute.labs.l_curve"
FASTEST = ("gpu_cupy", "cpu_numba")
ACCURACY = 0.02  # relative error of the tutorial's own norms at its smallest λ: what all are timed at
CLOSED, CONFIRMED = 1e-10, 1e-3  # relative width of the bounds, and error of x that the gradient allows: ~ its root
MORE, ROOM = 100, 4000  # steps between two looks, and at most
COUNTS = (10, 200)  # λ of a curve: the tutorial's, and one to look at


class Right:
    """The tutorial's problem of size n and its curve. A: (n, n) csr float32; b: (n,) float64; k: see `steps`."""

    def __init__(self, n: int) -> None:
        self.n = n
        made, self.b, _ = make("random_sparse", n=n)
        self.A = compressed(made, "float32")
        self.name = "float64, its bounds closed and its gradient checked"

    @cached_property
    def small(self) -> Small:
        """The small system at which the bounds have closed; RuntimeError if they do not, or are not confirmed."""
        chosen = next(backend(name) for name in FASTEST if not backend(name).missing)
        device, widest, room = chosen.open_device(), self.lambdas(COUNTS[0]), min(self.n + SPARE, ROOM)
        run = Bidiagonalisation(device, chosen.kernels(PACKAGE), self.matrix("float64"), room, True)
        run.start(self.b)
        while not run.exhausted:
            run.advance(MORE)
            width = points(run.small, widest).widths.max()
            if width <= CLOSED:
                break
            if run.k >= run.most:
                raise RuntimeError(f"the bounds of the reference are still {width:.1e} apart after {run.k} steps")
        self._confirm(run, widest)
        return run.small

    def _confirm(self, run: Bidiagonalisation, lambdas: NDArray[np.float64]) -> None:
        A = self.A.astype(np.float64)
        for lam in lambdas:
            x = run.solve(float(lam))
            gradient = A.T @ (self.b - A @ x) - lam**2 * x
            error = float(np.linalg.norm(gradient) / lam**2 / np.linalg.norm(x))
            if not error <= CONFIRMED:
                raise RuntimeError(f"the reference may be wrong by {error:.1e} at λ = {lam:g}")

    def lambdas(self, count: int) -> NDArray[np.float64]:
        """(count,) λ over the tutorial's range."""
        return np.geomspace(*TUTORIAL[:2], count)

    def curve(self, count: int) -> Points:
        """The right norms at so many λ."""
        return points(self.small, self.lambdas(count))

    @cached_property
    def steps(self) -> int:
        """The fewest steps, in tens, after which both norms are within ACCURACY at the tutorial's λ."""
        k = 10
        while self.small.k > k and self.error(truncated(self.small, k), COUNTS[0])[0] > ACCURACY:
            k += 10
        return min(k, self.small.k)

    def error(self, small: Small, count: int) -> tuple[float, float]:
        """(largest relative, largest absolute) error of both norms that a small system gives at `count` λ."""
        return self.distance(points(small, self.lambdas(count)).residual, points(small, self.lambdas(count)).solution)

    def distance(self, residual: NDArray[np.float64], solution: NDArray[np.float64]) -> tuple[float, float]:
        """The same of norms that are there."""
        truth = self.curve(residual.size)
        apart = np.abs(np.stack([residual - truth.residual, solution - truth.solution]))
        return float((apart / np.stack([truth.residual, truth.solution])).max()), float(apart.max())

    def matrix(self, dtype: str) -> sp.csr_matrix:
        """A in this type."""
        return self.A.astype(dtype, copy=False)


def truncated(small: Small, k: int) -> Small:
    """What was known after k steps."""
    return Small.of(small.diagonal[: k + 1], small.below[: k + 1])
