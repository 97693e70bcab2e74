"""What rounding adds to the bounds: they hold in exact arithmetic, and the curve is computed in another one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.small import Points

Vector = NDArray[np.float64]

UNITS = 2.0  # roundoffs of the vectors' type: of A as it is stored, and of the products
COMPARED = 12.0  # roundoffs of float64: of the small system, and of what the bounds are compared with
MIXED = 8.0  # root mean squares of A's singular values that random errors of its entries amount to, at most


def scale(largest: float, frobenius: float, shape: tuple[int, int]) -> float:
    """|δA| in roundoffs, for rounding errors δA of A (m, n): its norm, or less where that is one direction's alone."""
    return min(largest, MIXED * frobenius / float(np.sqrt(min(shape))))


def widened(at: Points, size: float, dtype: str) -> tuple[Vector, Vector]:
    """Bounds (2, count) of the residual norm and of the solution norm, wider by what |δA| = size in roundoffs changes.

    To first order |δx| <= |δA| (|x| / λ + |r| / λ^2) and |δr| <= |δA| (|x| + |r| / (2 λ)), with r = b - A x.
    """
    units = UNITS * float(np.finfo(dtype).eps) / 2 + COMPARED * float(np.finfo(np.float64).eps) / 2
    lam, rho, eta = at.lambdas, at.residual, at.solution
    of_residual = units * (1 + size * (eta / rho + 0.5 / lam))
    of_solution = units * (1 + size * (1 + rho / (lam * eta)) / lam)
    return _wider(at.residual_bounds, of_residual), _wider(at.solution_bounds, of_solution)


def _wider(bounds: Vector, part: Vector) -> Vector:
    return np.stack([bounds[0] * np.maximum(1 - part, 0), bounds[1] * (1 + part)])
