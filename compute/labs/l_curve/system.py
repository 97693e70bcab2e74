"""The problem of a lab: A, b without noise, the solution if known, and derived values; also the noise added to b.

With a derivative in the penalty, A is the matrix of the standard form (standard_form.py); b and x stay the problem's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.files.images import LoadedPicture
from compute.lab.fields import require_whole
from compute.lab.loaded import LoadedFile, fingerprint
from compute.labs.l_curve.bidiagonal import compressed
from compute.labs.l_curve.problems import NAMES, PROBLEMS, make, require
from compute.labs.l_curve.problems.checks import ProblemOption, WholeNumber, require_memory
from compute.labs.l_curve.small_system import LARGEST, SMALLEST
from compute.labs.l_curve.standard_form import COPIES, StandardForm

OWN = NAMES[-1]
EXACT = 400  # rows and columns up to which singular values are computed: a tenth of a second
TYPICAL = {"random_sparse": 3000, **dict.fromkeys(("blur", "tomo", "paralleltomo"), 48)}
TYPICAL_LINE = 200  # n of all other problems
TUTORIAL = (0.1, 5e3, 10)  # λ of the tutorial from which the random sparse matrix originates
SPAN, COUNT = {"float64": 1e-6, "float32": 1e-4}, 200  # automatic range of λ, relative to |A|, and their number


def noisy(b: NDArray[np.float64], level: float, seed: int) -> tuple[NDArray[np.float64], float]:
    """Return (b + e, |e|) with white Gaussian e of exactly |e| = level |b|, level >= 0; e depends on `seed` alone."""
    if level == 0:
        return b, 0.0
    e = np.random.default_rng(seed).standard_normal(b.size)
    size = level * float(np.linalg.norm(b))
    return b + e * (size / np.linalg.norm(e)), size


def typical(name: str) -> int:
    """Return a size of the problem `name` that is solved immediately."""
    return TYPICAL.get(name, TYPICAL_LINE)


def options_of(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of problem `name` from a lab's values: `options`, then parameters of the same name."""
    known = PROBLEMS[name].options if name in PROBLEMS else {}
    named = {option: _whole(kind, values[option]) for option, kind in known.items() if values.get(option) is not None}
    return named | dict(values["options"])


def _whole(kind: ProblemOption, value: Any) -> Any:
    """Return a whole float as int if the option requires an int, because sliders return floats."""
    return int(value) if isinstance(kind, WholeNumber) and isinstance(value, float) and value.is_integer() else value


def settled(values: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return n and all options of a named problem; raise ValueError if one of them is invalid."""
    return require(values["problem"], values["n"], options_of(values["problem"], values))


def files_of(options: Mapping[str, Any]) -> str:
    """Return the fingerprint of the files in a problem's options, loaded or not; "" if they contain none."""
    files = [_fingerprint_of(options[name]) for name in sorted(options)]
    return fingerprint(*(each.encode() for each in files if each)) if any(files) else ""


def _fingerprint_of(value: object) -> str:
    """Return the fingerprint of one option; "" unless it contains a file."""
    if isinstance(value, LoadedFile):
        return value.fingerprint
    return fingerprint(bytes(value)) if isinstance(value, bytes | bytearray) else ""


@dataclass(frozen=True)
class Spectrum:
    """The singular value decomposition of A. values: (r,) descending; left: (m, r), its columns the u_i."""

    values: NDArray[np.float64]
    left: NDArray[np.float64]


@dataclass(frozen=True)
class HeldProblem:
    """A problem. A: csr in the lab's type, to be bidiagonalised; b: (m,) float64 without noise; x: (n,) or None.

    A is the problem's matrix (m, n), or with a derivative of order d in the penalty the matrix (m - d, n - d) of
    `form`. columns: n. side: pixels per side of the picture x, 0 for a one-dimensional x; tutorial: whether this is the
    tutorial's problem; files: the fingerprint of its files, "" for none; kept: the used part of a loaded picture, as
    the six numbers of a Kept.
    """

    A: scipy.sparse.csr_matrix
    b: NDArray[np.float64]
    x: NDArray[np.float64] | None
    columns: int
    form: StandardForm | None
    side: int
    tutorial: bool
    files: str = ""
    kept: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> HeldProblem:
        """Make the problem described by a lab's values.

        Raises ValueError, and OutOfMemory before any large allocation.
        """
        name, dtype, order = values["problem"], values["dtype"], values["derivative"]
        options = options_of(name, values)
        files, kept = files_of(options), ""
        if isinstance(options.get("image"), LoadedPicture | bytes | bytearray):
            picture, n = LoadedPicture.of(options["image"]), values["n"]
            options["image"], kept = picture.field(n, n), " ".join(map(str, astuple(picture.kept(n, n))))
        A, b, x = make(name, None if name == OWN else values["n"], **options)
        entries = A.data if scipy.sparse.issparse(A) else A
        if entries.dtype.kind in "iu":
            require_whole(entries, dtype, "A")
        form = None
        if order:
            require_memory(8 * COPIES * A.shape[0] * A.shape[1], f"the dense matrix of derivative = {order}")
            form = StandardForm.of(A, order)
        with np.errstate(over="ignore"):
            packed = compressed(A if form is None else form.A, dtype)
        if not np.isfinite(packed.data).all():
            raise ValueError(f"A must have entries that {dtype} can hold; its largest is {abs(A).max():.3g}")
        side = int(values["n"]) if name != OWN and PROBLEMS[name].dimensions == 2 else 0
        tutorial = name == "random_sparse" and form is None
        problem = cls(packed, np.asarray(b, np.float64), x, A.shape[1], form, side, tutorial, files, kept)
        problem.require_size()
        return problem

    def require_size(self) -> None:
        """Raise ValueError if the automatic range of λ exceeds the supported range; a zero matrix is accepted."""
        low, high = SMALLEST / SPAN[self.A.dtype.name], LARGEST
        if self.A.data.any() and not low <= self.size <= high:
            words = f"from {low:.0e} to {high:.0e} for {self.A.dtype.name}, as λ follow it"
            raise ValueError(f"A must have a norm {words}; its largest entry is {abs(self.A.data).max():.3g}")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of A."""
        return self.A.shape

    def noisy(self, level: float, seed: int) -> tuple[NDArray[np.float64], float]:
        """Return (b + e, |e|) with white e of |e| = level |b| from the seed."""
        return noisy(self.b, level, seed)

    def split(self, b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (the vector of A's rows for b (m,), what `solution` needs of b for the part that L does not damp)."""
        return (b, b[:0]) if self.form is None else self.form.split(b)

    def solution(self, y: NDArray[Any], seen: NDArray[np.float64]) -> NDArray[Any]:
        """Return x (n,) in the type of y, for y in A's columns and the second result of `split`."""
        return y if self.form is None else self.form.solution(y, seen).astype(y.dtype)

    def residual(self, reduced: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the problem's residual (m,) from the one in A's rows."""
        return reduced if self.form is None else self.form.residual(reduced)

    @cached_property
    def size(self) -> float:
        """Frobenius norm of A, an upper bound of the largest singular value."""
        data = self.A.data
        return float(np.sqrt(np.einsum("i,i->", data, data, dtype=np.float64)))

    @property
    def automatic(self) -> tuple[float, float, int]:
        """Default range of λ: the lowest, the highest and their number."""
        return TUTORIAL if self.tutorial else (SPAN[self.A.dtype.name] * self.size, self.size, COUNT)

    @cached_property
    def spectrum(self) -> Spectrum | None:
        """Singular values and left vectors of the stored A; None if they cost more than for EXACT rows and columns."""
        if min(self.shape) ** 2 * max(self.shape) > EXACT**3:
            return None
        left, values, _ = np.linalg.svd(self.A.toarray().astype(np.float64), full_matrices=False)
        return Spectrum(values, left)
