"""The trace that generalised cross-validation needs of a matrix too large for its singular values: by a random probe.

m minus the sum of the filter factors is λ^2 trace((A transpose(A) + λ^2)^-1), and for a vector z of random signs
z (A transpose(A) + λ^2)^-1 z has that trace as its mean, at all λ smoothly (Hutchinson 1990). A bidiagonalisation that
starts from z bounds it from either side: G. H. Golub and U. von Matt, "Generalized cross-validation for large-scale
problems", J. Comput. Graph. Stat. 6 (1997). Only the first row of the inverse is wanted, so no basis is kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.bidiagonal import Bidiagonalisation
from compute.labs.l_curve.small import first_of_inverse
from compute.labs.l_curve.state import Work

Vector = NDArray[np.float64]

CHUNK = 16  # steps for which there is room; the last vector of a chunk is the first of the next
CLOSE = 0.01  # relative distance of the two bounds that is enough: the probe's own scatter is larger
SEED = 20020


class Probe:
    """A probe of the matrix of `run`, which it shares. k: steps done; exhausted: whether it is exact."""

    def __init__(self, run: Bidiagonalisation) -> None:
        self._device, self._kernels = run.device, run.kernels
        (self.rows, columns), dtype = run.work.A.shape, run.dtype
        shared = run.work.resized(run.device, CHUNK)
        u, w = (run.device.allocate((size,), dtype) for size in (self.rows, columns))
        self._work = Work(shared.A, shared.T, u, shared.V, w, shared.c, shared.alpha, shared.beta)
        signs = np.random.default_rng(SEED).choice([-1.0, 1.0], self.rows)
        self._device.write(signs.astype(dtype), u)
        self._kernels.start(self._work)
        self._alpha, self._beta = self._device.download(self._work.alpha)[:1], np.zeros(1)
        self._at = 0  # steps in the present chunk
        self.exhausted = False

    @property
    def k(self) -> int:
        """Steps done."""
        return self._alpha.size - 1

    def advance(self, count: int) -> None:
        """`count` more steps, fewer if the matrix is used up."""
        while count > 0 and not self.exhausted:
            if self._at == CHUNK:
                self._turn()
            some = min(count, CHUNK - self._at)
            with self._device.lock:
                self._kernels.steps(self._work, self._at, some, False, 0.0)
            self._at, count = self._at + some, count - some
            self._read(slice(self._at - some + 1, self._at + 1))

    def _turn(self) -> None:
        """The last vector of a chunk becomes the first of the next."""
        self._device.write(self._device.download(self._work.V[CHUNK]), self._work.V[0])
        self._device.write(np.full(CHUNK + 1, self._alpha[-1]), self._work.alpha)
        self._at = 0

    def _read(self, new: slice) -> None:
        alpha, beta = (self._device.download(array)[new] for array in (self._work.alpha, self._work.beta))
        self._alpha, self._beta = np.append(self._alpha, alpha), np.append(self._beta, beta)
        ends = np.flatnonzero(self._alpha == 0)
        if ends.size:
            self._alpha, self._beta, self.exhausted = self._alpha[: ends[0] + 1], self._beta[: ends[0] + 1], True

    def finished(self, lambdas: Vector, most: int) -> bool:
        """Whether the bounds are close at all λ (count,), or `most` steps are done, or no step can be added."""
        if self.exhausted or self.k >= most:
            return True
        low, high = self._bounds(lambdas)
        return bool(((high - low) <= CLOSE * high).all())

    def freedom(self, lambdas: Vector) -> Vector:
        """(count,) m minus the sum of the filter factors, estimated; between 0 and m."""
        low, high = self._bounds(lambdas)
        return np.asarray((low + high) / 2)

    def _bounds(self, lambdas: Vector) -> tuple[Vector, Vector]:
        if not self.k:
            return np.zeros(lambdas.size), np.full(lambdas.size, float(self.rows))
        low, high = first_of_inverse(self._alpha, self._beta, np.ascontiguousarray(lambdas))
        return self.rows * lambdas**2 * low, self.rows * lambdas**2 * high
