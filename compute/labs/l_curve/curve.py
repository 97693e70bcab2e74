"""The curve as a result: norms and bounds at the λ that were asked for, and what the rules say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.rules import Choice
from compute.labs.l_curve.small import Points

Vector = NDArray[np.float64]


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
    choices: Mapping[str, Choice]

    @classmethod
    def of(
        cls, at: Points, bounds: tuple[Vector, Vector], state: tuple[int, bool], choices: Mapping[str, Choice]
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
