"""The L-curve as a path on the screen: which λ lies nearest to a place, and where a λ lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compute.frames import Frame

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Path:
    """Logarithms (base 10) of λ, ascending, of the residual norm and of the solution norm, at the same λ."""

    lam: Vector
    residual: Vector
    solution: Vector

    @classmethod
    def of(cls, frame: Frame) -> Path | None:
        """Of the curve of a frame, without points that no logarithmic axis can show; None if too few are left."""
        curve, lambdas = frame.curves["l-curve"], frame.curves["width"].x
        good = np.isfinite(curve.x) & np.isfinite(curve.y) & (curve.x > 0) & (curve.y > 0)
        if np.count_nonzero(good) < 2:
            return None
        return cls(*(np.log10(values[good]) for values in (lambdas, curve.x, curve.y)))

    def points(self) -> Vector:
        """(n, 2) residual and solution norms, in the order of λ."""
        return np.asarray(10.0 ** np.column_stack([self.residual, self.solution]))

    def at(self, lam: float) -> tuple[float, float]:
        """(residual norm, solution norm) for λ, by interpolation; the end of the curve for a λ beyond it."""
        where = np.log10(lam)
        residual, solution = (np.interp(where, self.lam, values) for values in (self.residual, self.solution))
        return float(10**residual), float(10**solution)

    def nearest(self, x: float, y: float, scale: tuple[float, float]) -> float:
        """The λ whose point is nearest to (x, y) on the screen.

        x, y: norms > 0; scale: px of a decade of each. Between two λ of the curve, by interpolation.
        """
        points = np.column_stack([self.residual * scale[0], self.solution * scale[1]])
        place = np.array([np.log10(x) * scale[0], np.log10(y) * scale[1]])
        starts, steps = points[:-1], np.diff(points, axis=0)
        squares = (steps**2).sum(axis=1)
        along = ((place - starts) * steps).sum(axis=1)
        parts = np.clip(np.divide(along, squares, out=np.zeros_like(along), where=squares > 0), 0, 1)
        distances = ((starts + parts[:, None] * steps - place) ** 2).sum(axis=1)
        best = int(np.argmin(distances))
        return float(10 ** (self.lam[best] + parts[best] * (self.lam[best + 1] - self.lam[best])))
