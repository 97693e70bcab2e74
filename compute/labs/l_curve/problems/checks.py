"""Checks of a problem: options within their bounds, and a consistent A and b, from a problem or from a user."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from compute.files.documents import short
from compute.lab.fields import as_type, is_finite, real_array
from compute.lab.lab import RESERVE, OutOfMemory
from compute.machine.container import available_memory

LARGEST = 2**31 - 1  # rows and columns: indices are 32-bit


@dataclass(frozen=True)
class WholeNumber:
    """A whole number from `low` to `high`."""

    default: int
    low: int
    high: int

    def checked(self, name: str, value: Any) -> int:
        """Return the value as int; ValueError names it and its bounds."""
        if isinstance(value, Integral) and not isinstance(value, bool) and self.low <= int(value) <= self.high:
            return int(value)
        raise ValueError(f"{name} must be a whole number from {self.low} to {self.high}, not {value!r}")


@dataclass(frozen=True)
class RealNumber:
    """A number from `low` to `high`."""

    default: float
    low: float
    high: float

    def checked(self, name: str, value: Any) -> float:
        """Return the value as float; ValueError names it and its bounds."""
        if is_finite(value) and self.low <= float(value) <= self.high:
            return float(value)
        raise ValueError(f"{name} must be a number from {self.low:g} to {self.high:g}, not {value!r}")


@dataclass(frozen=True)
class Angles:
    """A number of angles, evenly spread over half a turn, or the angles themselves in degrees."""

    default: int
    most: int

    def checked(self, name: str, value: Any) -> int | tuple[float, ...]:
        """Return the count, or the angles; ValueError names them and the allowed values."""
        if isinstance(value, Integral):
            return WholeNumber(self.default, 1, self.most).checked(name, value)
        known = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        angles = tuple(value) if known else ()
        if not 1 <= len(angles) <= self.most or not all(map(is_finite, angles)):
            expected = f"a count, or 1 to {self.most} finite angles in degrees"
            raise ValueError(f"{name} must be {expected}, not {short(value)}")
        return tuple(map(float, angles))


@dataclass(frozen=True)
class AnyValue:
    """A value of any other kind, which the problem checks. doc: the allowed values."""

    default: Any
    doc: str

    def checked(self, name: str, value: Any) -> Any:  # noqa: ARG002 as the others are called
        """Return the value unchanged."""
        return value


ProblemOption = WholeNumber | RealNumber | Angles | AnyValue


# -- A and b


def require_memory(needed: int, what: str) -> None:
    """Raise OutOfMemory, a ValueError, if `needed` bytes of main memory are not available."""
    free = int((1 - RESERVE) * available_memory())
    if needed > free:
        raise OutOfMemory(
            f"{what} needs {needed / 2**30:.2f} GiB of main memory, but {free / 2**30:.2f} GiB can be used"
        )


def checked(A: Any, b: Any, x: Any) -> tuple[Any, NDArray[Any], NDArray[np.float64] | None]:
    """Return (A, b, x), A as (m, n) array or CSR; ValueError describes the error.

    A and b must be finite and real, of matching shapes, and neither A nor transpose(A) b may vanish: then x would be 0
    for every λ.
    """
    A = scipy.sparse.csr_matrix(A) if scipy.sparse.issparse(A) else real_array(A, "A")
    _require_matrix(A)
    b = real_array(b, "b")
    _require_vector("b", b, A.shape[0], "rows")
    if not np.any(A.T @ b.astype(np.float64)):
        raise ValueError("b must not be orthogonal to every column of A: the solution would be 0 for every λ")
    if x is not None:
        x = as_type(real_array(x, "x"), np.float64, "x")
        _require_vector("x", x, A.shape[1], "columns")
    return A, b, x


def _require_matrix(A: Any) -> None:
    if A.ndim != 2 or 0 in A.shape:
        raise ValueError(f"A must be a matrix with rows and columns, not of the shape {A.shape}")
    if max(A.shape) > LARGEST:
        raise ValueError(f"A must have at most {LARGEST} rows and columns, not {A.shape}")
    if A.dtype.kind not in "fiub":
        raise ValueError(f"A must hold real numbers, not {A.dtype}")
    entries = A.data if scipy.sparse.issparse(A) else A
    if not np.isfinite(entries).all():
        raise ValueError("A must be finite; it holds NaN or inf")
    if not np.any(entries):
        raise ValueError("A must have entries other than 0: its rank is 0")


def _require_vector(name: str, values: NDArray[Any], size: int, of: str) -> None:
    if values.shape != (size,):
        raise ValueError(f"{name} must have the shape ({size},), as A has {size} {of}, not {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; it holds NaN or inf")
