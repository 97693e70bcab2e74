"""The parameters of an L-curve lab, and what they must be together."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, prod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import param
import scipy.sparse as sp

from compute.lab import Lab
from compute.labs.l_curve.bidiagonal import SPARE, nbytes
from compute.labs.l_curve.problems import NAMES, PROBLEMS
from compute.labs.l_curve.problems.options import Angles, Number
from compute.labs.l_curve.rules import RULES
from compute.labs.l_curve.system import OWN, settled, typical

FEWEST, MOST = 3, 1000  # λ on a curve
PICTURE_BYTES = 16 * 2**20  # display buffers and the small system, rounded up


def _bounded(name: str, option: str, label: str) -> Any:
    """A parameter with the default and the bounds of a problem's option."""
    given: Any = PROBLEMS[name].options[option]
    kind = param.Number if isinstance(given, Number) else param.Integer
    bounds = (1, given.most) if isinstance(given, Angles) else (given.low, given.high)
    return kind(default=given.default, bounds=bounds, label=label)


class Settings(Lab):
    """Everything that can be set. The options of a problem are used by those that have one of that name."""

    STRUCTURAL: ClassVar[tuple[str, ...]] = (
        *Lab.STRUCTURAL,
        *("problem", "n", "options", "density", "seed", "depth", "kappa", "band", "sigma", "rays", "angles", "dtype"),
    )

    problem = param.Selector(default="random_sparse", objects=list(NAMES), label="Problem")
    n = param.Integer(default=typical("random_sparse"), bounds=(1, 2**31 - 1), label="n", doc="Samples, or pixels.")
    options = param.Dict(default={}, label="Further options", doc="By name; a file is given by its bytes.")
    density = _bounded("random_sparse", "density", "Share of entries that are not 0")
    seed = _bounded("random_sparse", "seed", "Seed of the problem")
    depth = _bounded("gravity", "depth", "Depth [lengths of the line]")
    kappa = _bounded("heat", "kappa", "Conditioning κ")
    band = _bounded("blur", "band", "Reach of the blur [pixels]")
    sigma = _bounded("blur", "sigma", "Width of the blur σ [pixels]")
    rays = param.Number(default=None, bounds=(0, 2**15), allow_None=True, label="Rays [a pixel, or an angle]")
    angles = _bounded("paralleltomo", "angles", "Angles")
    dtype = param.Selector(default="float64", objects=["float32", "float64"], label="Number type")
    noise = param.Number(default=0.0, bounds=(0, 10), label="Noise added to b [part of |b|]", doc="0: none is added.")
    noise_seed = param.Integer(default=0, bounds=(0, 2**31 - 1), label="Seed of the noise")
    reorthogonalise = param.Boolean(default=True, label="Reorthogonalise", doc="Fewer steps; the same curve.")
    lambdas = param.Tuple(default=None, length=3, allow_None=True, label="λ: lowest, highest, how many")
    tolerance = param.Number(default=1e-4, bounds=(1e-14, 1), label="Ribbon width to reach")
    steps_at_most = param.Integer(default=2000, bounds=(1, 100_000), label="Steps at most")
    chunk = param.Integer(default=16, bounds=(1, 1024), label="Steps between two looks at the ribbon")
    lam = param.Number(default=None, bounds=(0, None), inclusive_bounds=(False, True), allow_None=True, label="λ shown")
    rule = param.Selector(default="curvature", objects=list(RULES), label="Rule", doc="Chooses λ where none is set.")
    gcv_weight = param.Number(default=None, bounds=(0, 10), allow_None=True, label="Weight ω", doc="None: adaptive.")

    def __init__(self, **values: Any) -> None:
        if "problem" in values:
            values.setdefault("n", typical(values["problem"]))
        super().__init__(**values)

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """The matrix, its transpose and the vectors of all steps; of a matrix in a file only what its bytes tell."""
        given = {name: values.get(name, cls.param[name].default) for name in cls.param if name != "name"}
        unknowns, entries = _extent(given)
        basis = min(given["steps_at_most"], unknowns + SPARE) if given["reorthogonalise"] else given["steps_at_most"]
        return nbytes(unknowns, entries, basis, given["dtype"]) + PICTURE_BYTES

    def validate(self, values: dict[str, Any]) -> None:
        """The problem's n and options within their bounds, and λ that are positive, ascending and not too many."""
        if values["lambdas"] is not None:
            require_range(values["lambdas"])
        if values["lam"] is not None and not isfinite(values["lam"]):
            raise ValueError(f"lam must be a finite number above 0, not {values['lam']}")
        if values["problem"] != OWN:
            settled(values)
        elif "matrix" not in values["options"]:
            raise ValueError("options must hold a matrix for the problem 'own': {'matrix': A, 'rhs': b}")

    def update(self, **values: Any) -> None:
        """Set several parameters at once, all or none; a new problem begins with its usual n and no further options.

        One's own data are taken as they are: noise is added to them only if it is given with them, or later.
        """
        name = values.get("problem", self.problem)
        if name != self.problem:
            clean = {"noise": 0.0} if name == OWN else {}
            values = {"n": typical(name), "options": {}, **clean, **values}
        super().update(**values)


def require_range(lambdas: Any) -> None:
    """ValueError unless `lambdas` is (lowest, highest, count) with 0 < lowest < highest and 3 <= count <= 1000."""
    low, high, count = lambdas
    if not (_number(low) and _number(high) and 0 < low < high):
        raise ValueError(f"lambdas must be (lowest, highest, count) with 0 < lowest < highest, not {lambdas}")
    if isinstance(count, bool) or not isinstance(count, Integral) or not FEWEST <= int(count) <= MOST:
        raise ValueError(f"lambdas must hold {FEWEST} to {MOST} λ, not {count!r}")


def require_lambda(lam: Any) -> float:
    """A finite λ > 0 as float; ValueError otherwise."""
    if not (_number(lam) and lam > 0):
        raise ValueError(f"lam must be a finite number above 0, not {lam!r}")
    return float(lam)


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def _extent(given: Mapping[str, Any]) -> tuple[int, int]:
    """(columns, entries) of the problem's matrix, at most."""
    if given["problem"] == OWN:
        matrix = given["options"].get("matrix", b"")
        if isinstance(matrix, (bytes, bytearray)):
            return given["n"], len(matrix) // np.dtype(given["dtype"]).itemsize
        if sp.issparse(matrix):
            return matrix.shape[1], int(matrix.nnz)
        shape = np.asarray(matrix).shape
        if len(shape) != 2:
            raise ValueError(f"matrix must have rows and columns, not the shape {shape}")
        return shape[1], prod(shape)
    n, options = settled(given)
    made = PROBLEMS[given["problem"]]
    return made.unknowns(n), made.entries(n, **options)
