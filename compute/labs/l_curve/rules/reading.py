"""The input of a rule: the curve on a grid of λ, restricted to closed ribbons, and functions of the curve at any λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.small_system import Points, Small, largest, points

Vector = NDArray[np.float64]
Function = Callable[[Vector], Vector]

CLOSED = 0.01  # relative width of a ribbon up to which a point of the curve is used
ZOOMS, INSIDE = 5, 17  # rounds of refinement around the best λ of the grid, and λ in each: to 1e-5 of a grid step
OPEN = "the ribbon is still open there"


@dataclass(frozen=True)
class RuleChoice:
    """The choice of a rule: λ, or None and the reason; a reason in addition to λ is a remark."""

    lam: float | None
    reason: str = ""


@dataclass(frozen=True)
class CurveReading:
    """The curve after some steps.

    small: the small system. points: on the grid, ascending in λ. rows: m. noise: |e| of b = A x + e, 0 if unknown.
    singular: (r,) all singular values of A, or None: then probe(λ), if not None, estimates m minus the sum of the
    filter factors. weight: of weighted GCV, or None for an adaptive weight. whitest: the result of the search for the
    whitest residual, None until then.
    """

    small: Small
    points: Points
    rows: int
    noise: float = 0.0
    singular: Vector | None = None
    probe: Function | None = None
    weight: float | None = None
    whitest: RuleChoice | None = None

    @property
    def lambdas(self) -> Vector:
        """The grid."""
        return self.points.lambdas

    @property
    def first(self) -> int:
        """Index of the lowest λ from which on all ribbons are closed; the size of the grid if none is."""
        open_ = np.flatnonzero(self.points.widths > CLOSED)
        return int(open_[-1]) + 1 if open_.size else 0

    def closed(self) -> CurveReading:
        """Return the reading without λ with open ribbons and λ above the largest Ritz value, where x is nearly 0."""
        above = np.searchsorted(self.lambdas, self.top, side="right")
        return replace(self, points=points(self.small, self.lambdas[self.first : above]))

    @property
    def top(self) -> float:
        """The largest Ritz value."""
        return largest(self.small)

    def at(self, lambdas: Vector) -> Points:
        """Return the curve at any λ."""
        return points(self.small, lambdas)

    @property
    def traced(self) -> bool:
        """Whether the sum of the filter factors is available, from the singular values or from a probe."""
        return self.singular is not None or self.probe is not None

    def freedom(self, at: Points) -> Vector:
        """Return m minus the sum of the filter factors σ^2 / (σ^2 + λ^2); raise ValueError unless `traced`."""
        if self.singular is not None:
            mu = at.lambdas[:, None] ** 2
            return self.rows - self.singular.size + np.asarray((mu / (self.singular**2 + mu)).sum(axis=1))
        if self.probe is None:
            raise ValueError("the sum of the filter factors is unknown")
        return self.probe(at.lambdas)


def zoom(function: Function, low: float, high: float) -> tuple[float, float]:
    """Return (λ, value) of the largest `function` of λ between `low` and `high`, with a single peak in ln λ."""
    for _ in range(ZOOMS):
        lambdas = np.geomspace(low, high, INSIDE)
        values = function(lambdas)
        best = int(np.argmax(values))
        low, high = lambdas[max(best - 1, 0)], lambdas[min(best + 1, INSIDE - 1)]
    return float(lambdas[best]), float(values[best])
