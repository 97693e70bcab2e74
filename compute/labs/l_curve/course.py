"""The race for a curve: from b on the host to both norms at every λ, as `fieldlab bench l_curve` times "as in the lab".

One run of the live problem determines the number of steps: until its ribbons close, or until the limit of steps or an
exhausted matrix ends it. Every lane does the same number of steps. Intermediate pictures show the bounds of both norms
after the completed steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.devices.backends import Backend
from compute.labs.l_curve.comparison import ROUNDING, RULES
from compute.labs.l_curve.fixtures import BEFORE, PACKAGE, CurveFixture, InTheLab
from compute.labs.l_curve.lab import LCurve
from compute.labs.l_curve.picture import state_words
from compute.labs.l_curve.small_system import Points, points
from compute.labs.l_curve.system import OWN
from compute.measure.case import Implementation
from compute.measure.course import Course, turns
from compute.measure.timing import Timing

TIMED = "wall time from b on the host to both norms at every λ, the matrix on the device before"
FEW = 5 * BEFORE  # steps of a curve up to which the first call computes the whole curve


class LaneCurve:
    """The reference curve of a race, computed by one of its lanes, with the interface of a CurveFixture's reference.

    A: (m, n) csr; b: (m,) float64 with its noise; steps: number of steps; ended: a sentence with the reason for the
    end; n: columns.
    """

    def __init__(self, values: Mapping[str, Any], made_by: Backend) -> None:
        self._values = {**values, "reorthogonalise": True}
        with closing(LCurve(**self._values, backend=made_by.name)) as lab:
            while not lab.done:
                lab.advance(lab.chunk)
            self.A, self.b, self.grid = lab.system.A, lab.b, lab.grid
            self.small, self.steps, self.ended = lab.bidiagonal.small, lab.bidiagonal.k, state_words(lab)
        self.n, self.name = int(self.A.shape[1]), made_by.label
        self._right = points(self.small, self.grid)

    def lambdas(self, count: int) -> NDArray[np.float64]:  # noqa: ARG002 as many as the curve has
        """Return the λ of the curve, ascending."""
        return self.grid

    def matrix(self, dtype: str) -> scipy.sparse.csr_matrix:
        """Return A in this type."""
        return self.A.astype(dtype, copy=False)

    def distance(self, residual: NDArray[np.float64], solution: NDArray[np.float64]) -> tuple[float, float]:
        """Return the (largest relative, largest absolute) difference from both reference norms, as in the readout."""
        right, got = np.stack([self._right.residual, self._right.solution]), np.stack([residual, solution])
        return RULES.agreement(right, got, self._values, 1).difference, float(np.abs(got - right).max())


@dataclass(frozen=True)
class CurveCase:
    """The live problem as a case of the bench: see TimedCase. Norms that differ by up to `tolerance` count as equal."""

    title: str
    dtype: str
    tolerance: float
    cells: int  # non-zeros of two products
    needed_bytes: int
    plain = False

    @property
    def shared(self) -> str:
        """The key of its reference, which is not shared."""
        return self.title

    @property
    def pace(self) -> str:
        """The key of its pace, which is not shared."""
        return self.title

    def facts(self) -> dict[str, Any]:
        """Return the values for the record."""
        return {"title": self.title, "dtype": self.dtype}


class WholeCurve(InTheLab):
    """A curve as in the lab; `first` computes a short curve whole, because it may have fewer than BEFORE steps."""

    def first(self, rig: CurveFixture, way: Implementation) -> tuple[Timing, float]:
        """Run the first call, and predict the seconds of a curve."""
        if rig.right.steps > FEW:
            return super().first(rig, way)
        return rig.run(way, 1), rig.run(way, 1).step_seconds


def course_of(values: Mapping[str, Any], made_by: Backend) -> Course:
    """Return the race for the curve of a lab with these values."""
    right, dtype = LaneCurve(values, made_by), str(values["dtype"])
    entries, real = int(right.A.nnz), np.dtype(dtype).itemsize
    needed = 4 * entries * (real + 4) + (right.steps + 2 * BEFORE) * right.n * real
    case = CurveCase(words_of(values), dtype, values["tolerance"] + ROUNDING[dtype], 2 * entries, needed)
    marks = turns(right.steps)
    unknown = np.full((2, 2, right.grid.size), np.nan)
    curves = unknown, *(bounds(points(right.small.part(k), right.grid)) for k in marks[1:])
    kernel, said = lambda of: WholeCurve(of.kernels(PACKAGE).steps), "norms within {:.1e}".format
    return Course(case, right, kernel, TIMED, said, "step", marks, curves=curves, ended=right.ended)


def bounds(at: Points) -> NDArray[np.float64]:
    """Return (2, 2, λ): lower and upper bounds of |A x - b| and of |x|."""
    return np.stack([at.residual_bounds, at.solution_bounds], axis=1)


def words_of(values: Mapping[str, Any]) -> str:
    """Return a description of the work."""
    name = "one's own A and b" if values["problem"] == OWN else values["problem"].replace("_", " ")
    size = "" if values["problem"] == OWN else f", n = {values['n']}"
    until = f"until its ribbons are {values['tolerance']:g} wide, {values['steps_at_most']} steps at most"
    penalty = f", derivative {values['derivative']} in the penalty" if values["derivative"] else ""
    return f"one whole curve of {name}{size}{penalty}, {values['dtype']}, {until}"
