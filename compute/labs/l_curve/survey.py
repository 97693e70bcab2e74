"""What is worked out beside the steps: the curve on the lab's λ, what the rules say, the error where x is known.

The points cost O(k) for each λ and are made anew for each picture; rules, error and Ritz values cost more, and are
made anew when the steps have grown by a quarter, and when they are done. LCurveResult is what a caller gets of them.

TraceProbe estimates the trace that generalised cross-validation needs of a matrix too large for its singular values. m
minus the sum of the filter factors is λ^2 trace((A transpose(A) + λ^2)^-1), and for a vector z of random signs
z (A transpose(A) + λ^2)^-1 z has that trace as its mean, at all λ smoothly (Hutchinson 1990). A bidiagonalisation that
starts from z bounds it from either side: G. H. Golub and U. von Matt, "Generalized cross-validation for large-scale
problems", J. Comput. Graph. Stat. 6 (1997). Only the first row of the inverse is wanted, so no basis is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Bidiagonalisation
from compute.labs.l_curve.rules import FEWEST, CurveReading, RuleChoice
from compute.labs.l_curve.rules.minima import FEWEST_ROWS, ncp_search
from compute.labs.l_curve.small_system import Points, distances, first_of_inverse, points, ritz_values

if TYPE_CHECKING:
    from compute.labs.l_curve.lab import LCurve


Vector = NDArray[np.float64]

CHUNK = 16  # steps for which there is room; the last vector of a chunk is the first of the next
CLOSE = 0.01  # relative distance of the two bounds that is enough: the probe's own scatter is larger
SEED = 20020

GROWN = 1.25  # factor of the steps after which rules, error and Ritz values are worked out again
PROBED, LEAST = 2, 64  # steps of the probe at most, as a multiple of the run's, but no fewer than 64 are tried
FINE = 200  # λ on the grid that the rules read, at the least


@dataclass(frozen=True)
class LCurveResult:
    """An L-curve after `steps` steps; every array is float64.

    lambdas, residual_norms |A x - b|, solution_norms |x|, curvature: (k,), ascending in λ. residual_bounds,
    solution_bounds: (2, k), lower and upper: the norms of the exact solution lie between them. width: the largest
    relative distance of two bounds, before rounding widened them. converged: whether it is within the tolerance, or
    the matrix is used up. choices: λ and reason by rule.
    """

    lambdas: Vector
    residual_norms: Vector
    solution_norms: Vector
    residual_bounds: Vector
    solution_bounds: Vector
    curvature: Vector
    steps: int
    width: float
    converged: bool
    choices: Mapping[str, RuleChoice]

    @classmethod
    def of(
        cls, at: Points, bounds: tuple[Vector, Vector], state: tuple[int, bool], choices: Mapping[str, RuleChoice]
    ) -> LCurveResult:
        """From the points of the small system, their bounds after rounding, (steps, converged) and the choices."""
        width = float(at.widths.max())
        norms = at.residual, at.solution
        return cls(at.lambdas, *norms, *bounds, at.curvature, state[0], width, state[1], choices)

    @property
    def corners(self) -> dict[str, float | None]:
        """The λ of every rule, None where it has none; `choices` has the reasons."""
        return {name: choice.lam for name, choice in self.choices.items()}

    @property
    def alphas(self) -> Vector:
        """λ^2, which other packages call α."""
        return np.asarray(self.lambdas**2)


# -- the trace for generalised cross-validation


class TraceProbe:
    """A probe of the matrix of `run`, which it shares. k: steps done; exhausted: whether it is exact."""

    def __init__(self, run: Bidiagonalisation) -> None:
        self._device, self._kernels = run.device, run.kernels
        (self.rows, columns), dtype = run.work.A.shape, run.dtype
        shared = run.work.resized(run.device, CHUNK)
        u, w = (run.device.allocate((size,), dtype) for size in (self.rows, columns))
        self._work = BidiagonalArrays(shared.A, shared.T, u, shared.V, w, shared.c, shared.alpha, shared.beta)
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


# -- beside the steps


class CurveSurvey:
    """Of one run of a lab. history: (steps, widest ribbon) of every picture on the present λ, ascending in steps."""

    def __init__(self, lab: LCurve) -> None:
        self._lab = lab
        self.history: list[tuple[int, float]] = []
        self._history_on: Vector = np.empty(0)  # the λ that its ribbons are of
        self._picard: tuple[Vector, Vector] | None = None
        self.forget()

    def forget(self) -> None:
        """Other λ: what was worked out for the old ones is of no use."""
        self._at: tuple[int, Points] | None = None
        self._rest: tuple[int, dict[str, RuleChoice], Vector | None] | None = None
        self._ritz: tuple[int, Vector] | None = None
        self._search: Generator[None, None, RuleChoice] | None = None
        self._whitest: RuleChoice | None = None
        self.complete = False

    @property
    def points(self) -> Points:
        """The curve on the lab's λ after the steps done."""
        k = self._lab.bidiagonal.k
        if self._at is None or self._at[0] != k:
            grid = self._lab.grid
            at = points(self._lab.bidiagonal.small, grid)
            self._at = k, at
            same = np.array_equal(grid, self._history_on)
            self._history_on = grid
            self.history = [entry for entry in self.history if same and entry[0] < k] + [(k, float(at.widths.max()))]
        return self._at[1]

    def reading(self, at: Points | None = None) -> CurveReading:
        """What the rules read: the points `at`, or if None the curve on a grid that is fine enough for them."""
        lab = self._lab
        small = lab.bidiagonal.small
        if at is None and lab.grid.size >= FINE:
            at = self.points
        if at is None:
            at = points(small, np.geomspace(lab.grid[0], lab.grid[-1], FINE))
        singular = None if lab.system.spectrum is None else lab.system.spectrum.values
        probe = lab.probe.freedom if lab.probe and self.probed else None
        rows, noise, weight = lab.system.shape[0], lab.noise_norm, lab.gcv_weight
        return CurveReading(small, at, rows, noise, singular, probe, weight, self._whitest)

    @property
    def probed(self) -> bool:
        """Whether the probe has gone far enough for the lab's λ."""
        lab = self._lab
        return lab.probe is not None and lab.probe.finished(lab.grid, max(PROBED * lab.bidiagonal.k, LEAST))

    # -- what costs more

    def probe(self, steps: int) -> bool:
        """Advance the probe by `steps`, if the matrix needs one; False if there is nothing to do for it."""
        lab = self._lab
        if lab.system.spectrum is not None or self.probed:
            return False
        lab.probe = lab.probe or TraceProbe(lab.bidiagonal)
        lab.probe.advance(steps)
        return True

    def listen(self, count: int) -> bool:
        """Work out `count` residuals for the search for the whitest; False if there is nothing to do for it."""
        lab = self._lab
        if self._whitest is not None or lab.system.shape[0] < FEWEST_ROWS:
            return False
        if self._search is None:
            lambdas = self.reading().closed().lambdas
            if lambdas.size < FEWEST:
                return False
            self._search = ncp_search(lab.residual, lambdas, lab.system.shape[0])
        try:
            for _ in range(count):
                next(self._search)
        except StopIteration as found:
            self._whitest = found.value
        return True

    def look(self) -> None:
        """Work out rules and error for the last time; nothing is left to do then."""
        self._rest, self._ritz = None, None
        self._refresh()
        self.complete = True

    def _stale(self, k: int) -> bool:
        now = self._lab.bidiagonal.k
        return now != k and (now >= GROWN * k or self._lab.done)

    def _refresh(self) -> tuple[int, dict[str, RuleChoice], Vector | None]:
        if self._rest is None or self._stale(self._rest[0]):
            self._rest = self._lab.bidiagonal.k, self._lab.choices(), self._errors()
        return self._rest

    @property
    def choices(self) -> dict[str, RuleChoice]:
        """λ and reason by rule, perhaps of some steps ago."""
        return self._refresh()[1]

    @property
    def errors(self) -> Vector | None:
        """(count,) |x - truth| / |truth| on the lab's λ, perhaps of some steps ago; None where no truth is known."""
        return self._refresh()[2]

    def _errors(self) -> Vector | None:
        """|x - truth|^2 = |y - V truth|^2 + |truth - its part in the span of V|^2."""
        lab, truth = self._lab, self._lab.system.x
        if truth is None:
            return None
        shadow = lab.bidiagonal.projection(truth)
        rest = np.linalg.norm(truth - lab.device.download(lab.bidiagonal.solution(shadow)))
        return np.asarray(np.hypot(distances(lab.bidiagonal.small, lab.grid, shadow), rest) / np.linalg.norm(truth))

    # -- singular values

    @property
    def singular(self) -> tuple[Vector, str]:
        """Singular values of A, descending, and "exact"; or the Ritz values, perhaps of some steps ago."""
        spectrum, k = self._lab.system.spectrum, self._lab.bidiagonal.k
        if spectrum is not None:
            return spectrum.values, "singular values"
        if self._ritz is None or self._stale(self._ritz[0]):
            self._ritz = k, ritz_values(self._lab.bidiagonal.small)
        return self._ritz[1], "Ritz values"

    @property
    def picard(self) -> tuple[Vector, Vector] | None:
        """(singular values, |u_i b|) of the exact decomposition; None for a large matrix."""
        spectrum = self._lab.system.spectrum
        if spectrum is not None and self._picard is None:
            self._picard = spectrum.values, np.abs(spectrum.left.T @ self._lab.b)
        return self._picard
