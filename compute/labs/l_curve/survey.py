"""Results in addition to the steps: the curve on the lab's λ, the choices of the rules, the error if x is known.

The points cost O(k) for each λ and are recomputed for each picture; rules, error and Ritz values cost more, and are
recomputed when the steps have grown by a quarter, and after the last step. LCurveResult contains the results for a
caller.

The rules read the curve after the first step with closed ribbons, however many steps follow: weighted GCV depends on
the number of steps, which depends on the portions in which they were done.

TraceProbe estimates the trace that generalised cross-validation needs, for a matrix too large for its singular values.
m minus the sum of the filter factors is λ^2 trace((A transpose(A) + λ^2)^-1), and for a vector z of random signs z (A
transpose(A) + λ^2)^-1 z has that trace as its mean, smoothly at all λ (Hutchinson 1990). A bidiagonalisation that
starts from z bounds it from either side: G. H. Golub and U. von Matt, "Generalized cross-validation for large-scale
problems", J. Comput. Graph. Stat. 6 (1997). It needs only the first row of the inverse, so no basis is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.bidiagonal import BidiagonalArrays, Bidiagonalisation
from compute.labs.l_curve.rules import FEWEST, CurveReading, RuleChoice
from compute.labs.l_curve.rules.minima import FEWEST_ROWS, ncp_search
from compute.labs.l_curve.rules.reading import Function
from compute.labs.l_curve.small_system import Points, distances, first_closed, first_of_inverse, points, ritz_values

if TYPE_CHECKING:
    from compute.labs.l_curve.lab import LCurve


Vector = NDArray[np.float64]

CHUNK = 16  # allocated steps; the last vector of a chunk is the first of the next
CLOSE = 0.01  # sufficient relative distance of the two bounds: the probe's own scatter is larger
SEED = 20020

GROWN = 1.25  # factor of the steps after which rules, error and Ritz values are recomputed
PROBED, LEAST = 2, 64  # maximum steps of the probe, as a multiple of the run's steps, at least 64
FINE = 200  # minimum number of λ on the grid for the rules


@dataclass(frozen=True)
class LCurveResult:
    """An L-curve after `steps` steps; every array is float64.

    lambdas, residual_norms |A x - b|, solution_norms |x|, curvature: (k,), ascending in λ. residual_bounds,
    solution_bounds: (2, k), lower and upper bounds of the norms of the exact solution. width: the largest relative
    distance of two bounds, before they were widened by rounding errors. converged: whether the width is within the
    tolerance, or the matrix is exhausted. choices: λ and reason by rule.
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
        """Build from the points of the small system, bounds after rounding, (steps, converged) and choices."""
        width = float(at.widths.max())
        norms = at.residual, at.solution
        return cls(at.lambdas, *norms, *bounds, at.curvature, state[0], width, state[1], choices)

    @property
    def corners(self) -> dict[str, float | None]:
        """The λ of every rule, None if it has none; `choices` contains the reasons."""
        return {name: choice.lam for name, choice in self.choices.items()}

    @property
    def alphas(self) -> Vector:
        """λ^2, which other packages call α."""
        return np.asarray(self.lambdas**2)


# -- the trace for generalised cross-validation


class TraceProbe:
    """A probe of the matrix of `run`, which it shares. k: completed steps; exhausted: whether it is exact."""

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
        """Completed steps."""
        return self._alpha.size - 1

    def advance(self, count: int) -> None:
        """Do `count` further steps, fewer if the matrix is exhausted."""
        while count > 0 and not self.exhausted:
            if self._at == CHUNK:
                self._turn()
            some = min(count, CHUNK - self._at)
            with self._device.lock:
                self._kernels.steps(self._work, self._at, some, False, 0.0)
            self._at, count = self._at + some, count - some
            self._read(slice(self._at - some + 1, self._at + 1))

    def _turn(self) -> None:
        """Start the next chunk with the last vector of the present one."""
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
        """Return whether the bounds are close at all λ (count,), or `most` steps are done, or no step can be added."""
        return self.exhausted or self.k >= most or self._close(lambdas, self.k)

    def first_close(self, lambdas: Vector, most: int) -> int:
        """Return the fewest steps after which the bounds are close at all λ; all steps, at most `most`, if none are."""
        last = min(self.k, most)
        return 1 + bisect_left(range(1, last), True, key=lambda steps: self._close(lambdas, steps))

    def _close(self, lambdas: Vector, steps: int) -> bool:
        low, high = self.bounds(lambdas, steps)
        return bool(((high - low) <= CLOSE * high).all())

    def freedom(self, lambdas: Vector, steps: int | None = None) -> Vector:
        """Return the estimate (count,) of m minus the sum of the filter factors; between 0 and m."""
        low, high = self.bounds(lambdas, steps)
        return np.asarray((low + high) / 2)

    def bounds(self, lambdas: Vector, steps: int | None = None) -> tuple[Vector, Vector]:
        """Return lower and upper bounds (count,) of that quadratic form at all λ, after `steps` or all steps."""
        count = self.k if steps is None else steps
        if not count:
            return np.zeros(lambdas.size), np.full(lambdas.size, float(self.rows))
        alpha, beta = self._alpha[: count + 1], self._beta[: count + 1]
        low, high = first_of_inverse(alpha, beta, np.ascontiguousarray(lambdas))
        return self.rows * lambdas**2 * low, self.rows * lambdas**2 * high


# -- in addition to the steps


class CurveSurvey:
    """Results of one run of a lab. history: (steps, widest ribbon) per picture on the present λ, ascending in steps."""

    def __init__(self, lab: LCurve) -> None:
        self._lab = lab
        self.history: list[tuple[int, float]] = []
        self._history_on: Vector = np.empty(0)  # the λ of the history
        self._picard: tuple[Vector, Vector] | None = None
        self.forget()

    def forget(self) -> None:
        """Discard the results for the old λ."""
        self._at: tuple[int, Points] | None = None
        self._rest: tuple[int, dict[str, RuleChoice], Vector | None] | None = None
        self._ritz: tuple[int, Vector] | None = None
        self._search: Generator[None, None, RuleChoice] | None = None
        self._whitest: RuleChoice | None = None
        self._read_at: tuple[int, int] | None = None
        self._probe_at: tuple[int, int] | None = None
        self.complete = False

    @property
    def points(self) -> Points:
        """The curve on the lab's λ after the completed steps."""
        k = self._lab.bidiagonal.k
        if self._at is None or self._at[0] != k:
            grid = self._lab.grid
            at = points(self._lab.bidiagonal.small, grid)
            self._at = k, at
            same = np.array_equal(grid, self._history_on)
            self._history_on = grid
            self.history = [entry for entry in self.history if same and entry[0] < k] + [(k, float(at.widths.max()))]
        return self._at[1]

    @property
    def read_steps(self) -> int:
        """The steps that the rules read: the fewest with closed ribbons on the lab's λ, or all while one is open."""
        lab, k = self._lab, self._lab.bidiagonal.k
        if not lab.done:
            return k
        if self._read_at is None or self._read_at[0] != k:
            self._read_at = k, first_closed(lab.bidiagonal.small, lab.grid, lab.tolerance)
        return self._read_at[1]

    def reading(self, fine: bool = True) -> CurveReading:
        """Return the input of the rules on the lab's λ. fine: on at least FINE λ."""
        lab, steps = self._lab, self.read_steps
        small, grid = lab.bidiagonal.small.part(steps), lab.grid
        if fine and grid.size < FINE:
            at = points(small, np.geomspace(grid[0], grid[-1], FINE))
        else:
            at = self.points if steps == lab.bidiagonal.k else points(small, grid)
        singular = None if lab.system.spectrum is None else lab.system.spectrum.values
        rows, noise, weight = lab.system.shape[0], lab.noise_norm, lab.gcv_weight
        return CurveReading(small, at, rows, noise, singular, self._trace(), weight, self._whitest)

    @property
    def probed(self) -> bool:
        """Whether the probe has enough steps for the lab's λ."""
        lab = self._lab
        return lab.probe is not None and lab.probe.finished(lab.grid, self._most_probed)

    @property
    def _most_probed(self) -> int:
        return max(PROBED * self.read_steps, LEAST)

    def _trace(self) -> Function | None:
        """Return the probe's estimate after the steps that the lab's λ need, None before."""
        lab = self._lab
        if lab.probe is None or not self.probed:
            return None
        if self._probe_at is None or self._probe_at[0] != lab.probe.k:
            self._probe_at = lab.probe.k, lab.probe.first_close(lab.grid, self._most_probed)
        return partial(lab.probe.freedom, steps=self._probe_at[1])

    # -- more expensive results

    def probe(self, steps: int) -> bool:
        """Advance the probe by `steps` if the matrix needs a probe; return False if no steps remain."""
        lab = self._lab
        if lab.system.spectrum is not None or self.probed:
            return False
        lab.probe = lab.probe or TraceProbe(lab.bidiagonal)
        lab.probe.advance(steps)
        return True

    def listen(self, count: int) -> bool:
        """Compute `count` residuals of the search for the whitest residual; return False if none remain."""
        lab = self._lab
        if self._whitest is not None or lab.system.shape[0] < FEWEST_ROWS:
            return False
        if self._search is None:
            lambdas = self.reading().closed().lambdas
            if lambdas.size < FEWEST:
                return False
            residual = partial(lab.residual, steps=self.read_steps)
            self._search = ncp_search(residual, lambdas, lab.system.shape[0])
        try:
            for _ in range(count):
                next(self._search)
        except StopIteration as found:
            self._whitest = found.value
        return True

    def look(self) -> None:
        """Compute rules and error after the last step; the survey is complete then."""
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
        """λ and reason by rule, possibly of an earlier step."""
        return self._refresh()[1]

    @property
    def errors(self) -> Vector | None:
        """The (count,) |x - truth| / |truth| on the lab's λ, possibly of an earlier step; None without a truth."""
        return self._refresh()[2]

    def _errors(self) -> Vector | None:
        """Compute |x - truth|^2 = |y - V truth|^2 + |truth - its part in the span of V|^2; with an L from every x."""
        lab, truth = self._lab, self._lab.system.x
        if truth is None:
            return None
        if lab.system.form is not None:
            apart = [np.linalg.norm(lab.present(lam) - truth) for lam in lab.grid]
            return np.array(apart) / np.linalg.norm(truth)
        shadow = lab.bidiagonal.projection(truth)
        rest = np.linalg.norm(truth - lab.device.download(lab.bidiagonal.solution(shadow)))
        return np.asarray(np.hypot(distances(lab.bidiagonal.small, lab.grid, shadow), rest) / np.linalg.norm(truth))

    # -- singular values

    @property
    def singular(self) -> tuple[Vector, str]:
        """Singular values of A, descending, and their label; or the Ritz values, possibly of an earlier step."""
        spectrum, k = self._lab.system.spectrum, self._lab.bidiagonal.k
        if spectrum is not None:
            return spectrum.values, "generalised singular values" if self._lab.system.form else "singular values"
        if self._ritz is None or self._stale(self._ritz[0]):
            self._ritz = k, ritz_values(self._lab.bidiagonal.small)
        return self._ritz[1], "Ritz values"

    @property
    def picard(self) -> tuple[Vector, Vector] | None:
        """The (singular values, |u_i b|) of the exact decomposition; None for a large matrix."""
        spectrum = self._lab.system.spectrum
        if spectrum is not None and self._picard is None:
            self._picard = spectrum.values, np.abs(spectrum.left.T @ self._lab.b)
        return self._picard
