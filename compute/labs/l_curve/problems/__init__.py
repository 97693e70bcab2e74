"""Test problems A x = b, by name: `make("shaw", n=64)`. Random parts depend on a seed; noise is not added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.labs.l_curve.problems import integral, pictures
from compute.labs.l_curve.problems.checks import (
    Angles,
    AnyValue,
    ProblemOption,
    RealNumber,
    WholeNumber,
    checked,
    require_memory,
)
from compute.labs.l_curve.problems.own import own

__all__ = ["NAMES", "PROBLEMS", "Problem", "make"]

SEED = WholeNumber(1234, 0, 2**31 - 1)
IMAGE = AnyValue(None, "an (n, n) array, row 0 the lowest; None for the phantom of Shepp and Logan")
BUILDING = 3  # copies of a matrix that exist during its construction


# the random sparse matrix of a GPU tutorial: the speed benchmark; it has no real corner, since b is random
def random_sparse(n: int, density: float, seed: int) -> tuple[scipy.sparse.csr_matrix, NDArray[np.float64], None]:
    """Return A (n, n) float32 with `density` n^2 entries uniform in [0, 1), and b ~ N(3, 1), from one generator.

    The draws are the tutorial's, in its order, so that A and b equal the tutorial's bit for bit; but b is (n,), not (n,
    1).
    """
    rng = np.random.default_rng(seed)
    A = scipy.sparse.csr_matrix(scipy.sparse.random(m=n, n=n, density=density, dtype=np.float32, random_state=rng))
    return A, rng.normal(loc=3.0, scale=1.0, size=(n, 1))[:, 0], None


def random_entries(n: int, density: float, **_others: object) -> int:
    """Return the non-zeros of `random_sparse`."""
    return round(density * n * n)


def _full(n: int, **_options: Any) -> int:
    return n * n


@dataclass(frozen=True)
class Problem:
    """One problem: its title for the screen, its constructor and options, and the conditions on n.

    entries(n, **options): maximum of the non-zeros; multiple: n must be a multiple of it; dimensions: 2 if x is a
    picture of n x n pixels, so that A has n^2 columns.
    """

    title: str
    build: Callable[..., Any]
    options: Mapping[str, ProblemOption] = field(default_factory=dict)
    entries: Callable[..., int] = _full
    multiple: int = 1
    least: int = 4
    dimensions: int = 1

    def unknowns(self, n: int) -> int:
        """Return the columns of A."""
        return int(n) ** self.dimensions

    @property
    def dense(self) -> bool:
        """Whether A is a full array."""
        return self.entries is _full

    def nbytes(self, n: int, options: Mapping[str, Any]) -> int:
        """Return the approximate maximum of the main memory needed to make the problem."""
        drawn = 8 * n * n if self.build is random_sparse else 0  # the generator draws places without replacement
        return BUILDING * (8 if self.dense else 20) * self.entries(n, **options) + drawn


PROBLEMS: Mapping[str, Problem] = {
    "random_sparse": Problem(
        "Random sparse (tutorial)",
        random_sparse,
        {"density": RealNumber(0.1, 1e-9, 1.0), "seed": SEED},
        random_entries,
        least=1,
    ),
    "shaw": Problem("Slit image (shaw)", integral.shaw, multiple=2),
    "phillips": Problem("Phillips", integral.phillips, multiple=4),
    "gravity": Problem("Gravity survey", integral.gravity, {"depth": RealNumber(0.25, 1e-6, 1e6)}),
    "deriv2": Problem("Second derivative", integral.deriv2),
    "heat": Problem("Inverse heat equation", integral.heat, {"kappa": RealNumber(1.0, 0.1, 100.0)}, multiple=2),
    "baart": Problem("Baart", integral.baart, multiple=2),
    "foxgood": Problem("Fox and Goodwin", integral.foxgood),
    "wing": Problem("A jump (wing)", integral.wing),
    "i_laplace": Problem("Inverse Laplace", integral.i_laplace),
    "blur": Problem(
        "Blurred picture",
        pictures.blur,
        {"band": WholeNumber(3, 1, 2**15), "sigma": RealNumber(0.7, 1e-3, 1e3), "image": IMAGE},
        pictures.blur_entries,
        dimensions=2,
    ),
    "tomo": Problem(
        "Tomography, random rays",
        pictures.tomo,
        {"rays": RealNumber(1.0, 1e-3, 100.0), "seed": SEED, "image": IMAGE},
        pictures.tomo_entries,
        dimensions=2,
    ),
    "paralleltomo": Problem(
        "Tomography, parallel beams",
        pictures.paralleltomo,
        {
            "angles": Angles(45, 3600),
            "rays": WholeNumber(0, 0, 2**15),
            "image": IMAGE,
        },
        pictures.paralleltomo_entries,
        dimensions=2,
    ),
}
NAMES: tuple[str, ...] = (*PROBLEMS, "own")


def problem(name: str) -> Problem:
    """Return the problem `name`; ValueError lists all names. "own" has no entry: its file determines its size."""
    if name not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(NAMES)}, not {name!r}")
    return PROBLEMS[name]


def make(name: str, n: int | None = None, **options: Any) -> tuple[Any, NDArray[Any], NDArray[np.float64] | None]:
    """Make the problem `name`; return (A, b, x): A an (m, n) array or CSR matrix, b (m,), x (n,) or None if unknown.

    n: samples of a line, or pixels per side of a picture, as in Regularization Tools; None only for "own". options: see
    PROBLEMS, and `own` for a user's own matrix. Raises ValueError with the option, its value and its bound;
    OutOfMemory, a ValueError, for an n that exceeds the machine's memory.
    """
    if name == "own":
        return checked(*own(n, **_known(name, options, ("matrix", "rhs", "truth"))))
    chosen = problem(name)
    n, settled = require(name, n, options)
    require_memory(chosen.nbytes(n, settled), f"{name} of n = {n}")
    return checked(*chosen.build(n, **settled))


def require(name: str, n: Any, options: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return n and all options of the problem `name`, with defaults; raise ValueError if one of them is invalid."""
    chosen = problem(name)
    n = WholeNumber(0, chosen.least, 2**31 - 1).checked("n", n)
    if n % chosen.multiple:
        raise ValueError(f"n must be a multiple of {chosen.multiple} for {name}, not {n}")
    given = _known(name, options, tuple(chosen.options))
    settled = {key: option.checked(key, given.get(key, option.default)) for key, option in chosen.options.items()}
    return n, settled


def _known(name: str, options: Mapping[str, Any], known: tuple[str, ...]) -> Mapping[str, Any]:
    for key in options:
        if key not in known:
            raise ValueError(f"{name} has no option {key!r}; it has {', '.join(known) or 'none'}")
    return options
