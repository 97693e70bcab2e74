"""Conversion of a user's arrays and numbers to a lab's type without a silent loss.

Only rounding to the type's precision is permitted. Imaginary parts, masks, structures, dates, texts, numbers beyond the
type's range and whole numbers that it cannot represent are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.files.documents import short

REAL = "fiub"  # kinds of NumPy types: floating point, integers with and without sign, booleans


def is_finite(value: object) -> bool:
    """Return whether `value` is a finite real number within the range of a float, and not a boolean."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond 1.8e308
        return False


def real_array(values: Any, name: str) -> NDArray[Any]:
    """Return `values` as an array of real numbers, not yet converted; ValueError names any other type."""
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.ma.count_masked(values))
        if masked:
            raise ValueError(f"{name} must have no masked entries, and has {masked}: fill them, as by filled(0)")
        values = values.data
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers: {error}") from error
    if array.dtype.kind not in REAL:
        raise ValueError(f"{name} must hold real numbers, not {array.dtype}")
    return array


def as_type(array: NDArray[Any], dtype: DTypeLike, name: str) -> NDArray[Any]:
    """Return a real `array` in the floating-point type `dtype`, rounded; ValueError for NaN, inf and other losses."""
    form = np.finfo(np.dtype(dtype))
    if array.dtype.kind in "iu" and array.size:
        require_whole(array, dtype, name)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; it holds NaN or inf")
    with np.errstate(over="ignore", under="ignore"):
        cast = array.astype(dtype)
    if not np.isfinite(cast).all():
        bound = f"within ±{form.max:.4g}, the range of {form.dtype}"
        raise ValueError(f"{name} must be {bound}, not {_largest(array)}")
    if not cast.any() and array.any():
        bound = f"reach {form.tiny:.4g}, the least of {form.dtype}"
        raise ValueError(f"{name} must {bound}: its largest entry is {_largest(array)}")
    return cast


def require_whole(array: NDArray[Any], dtype: DTypeLike, name: str) -> None:
    """Raise ValueError for whole numbers beyond those that the floating-point type `dtype` represents exactly."""
    exact = 2 ** (np.finfo(np.dtype(dtype)).nmant + 1)
    low, high = int(array.min()), int(array.max())
    if max(-low, high) > exact:
        worst = high if high > -low else low
        bound = f"within ±{exact:,}, which {np.dtype(dtype)} represents exactly"
        raise ValueError(f"{name} must have whole numbers {bound}, not {worst:,}")


def as_field(values: Any, shape: Sequence[int], dtype: DTypeLike, name: str = "array") -> NDArray[Any]:
    """Return `values` as an array of that shape and floating-point type; ValueError names the fault.

    Floating-point numbers are rounded; those far below the largest one may become 0.
    """
    array = real_array(values, name)
    if array.shape != tuple(shape):
        raise ValueError(f"{name} must have the shape {tuple(shape)}, not {array.shape}")
    return as_type(array, dtype, name)


def as_number(value: Any, dtype: DTypeLike, name: str) -> float:
    """Return a number within the range of the floating-point type `dtype`; ValueError names it and the bound."""
    most = float(np.finfo(np.dtype(dtype)).max)
    if not is_finite(value) or abs(value) > most:
        raise ValueError(f"{name} must be a finite number within ±{most:.4g}, the range of {dtype}, not {short(value)}")
    return float(value)


def _largest(array: NDArray[Any]) -> str:
    """Return the number of the largest magnitude, in few digits; also if float64 cannot represent it."""
    flat = array.ravel()
    return np.format_float_scientific(flat[int(np.argmax(np.abs(flat)))], precision=4, trim="-")
