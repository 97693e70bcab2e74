"""Compare results with those of the reference, report where they differ, and choose the inputs to compare at.

A result must have the shape and the dtype of the reference's result: a complex, masked or wider array is wrong, even if
a cast would make it equal. Scalars need the same kind only, since Python's own numbers have one width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.measure.agreement import Arrays

SIZES = (1, 2, 3, 31, 33, 97, 128, 257, 1031)  # tiny, odd and prime n, a multiple of 32 and its neighbours
NAN_PLACES = 3


class ResultComparison:
    """The largest difference relative to the largest expected result; inf for integers that are not equal.

    said: the place of the largest difference in the last comparison, as text; "" for equal results.
    """

    def __init__(self) -> None:
        self.said = ""

    def __call__(self, results: Arrays, truth: Arrays) -> float:
        """Return the difference; inf if the number or the shape of the results differs."""
        self.said = ""
        if len(results) != len(truth):
            self.said = f"it gives {len(results)} results where the reference gives {len(truth)}"
            return inf
        worst = 0.0
        for number, (result, right) in enumerate(zip(results, truth, strict=True), start=1):
            which = f"result {number} " if len(truth) > 1 else ""
            found, said = _difference(np.asanyarray(result), np.asarray(right))
            if said and not found <= worst:
                worst, self.said = found, which + said
        return worst


def _unlike(result: NDArray[Any], right: NDArray[Any]) -> str:
    """Return how shape, mask or dtype differ from the reference's, as text; "" if they agree."""
    if result.shape != right.shape:
        return f"has the shape {result.shape} where the reference has {right.shape}"
    if isinstance(result, np.ma.MaskedArray):
        masked = int(np.ma.getmaskarray(result).sum())
        return f"is a masked array where the reference has a plain one; {masked} of {result.size} are masked"
    if result.dtype.kind != right.dtype.kind or (right.shape and result.dtype != right.dtype):
        return f"has the dtype {result.dtype} where the reference has {right.dtype}"
    return ""


def _difference(result: NDArray[Any], right: NDArray[Any]) -> tuple[float, str]:
    if unlike := _unlike(result, right):
        return inf, unlike
    if not right.size:
        return 0.0, ""
    if right.dtype.kind in "iub" or result.dtype.kind in "iub":
        off = result != right
        return (inf, _where(result, right, off, off)) if off.any() else (0.0, "")
    wide = np.complex128 if right.dtype.kind == "c" else np.float64
    one, other = result.astype(wide), right.astype(wide)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return 0.0, ""
    finite = np.abs(other[np.isfinite(other)])
    smallest = np.finfo(right.dtype).tiny  # denormal numbers lose digits as they get smaller
    scale = max(float(finite.max()) if finite.size else 0.0, float(smallest))
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.where(same, 0.0, np.abs(one - other) / scale)
    off = np.where(np.isnan(off), inf, off)
    return float(off.max()), _where(result, right, off > 0, off)


def _where(result: NDArray[Any], right: NDArray[Any], off: NDArray[Any], size: NDArray[Any]) -> str:
    """Return the place of the largest difference and the number of differing elements, as text."""
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(size)), right.shape))
    place = f"[{', '.join(map(str, at))}] " if at else ""
    return (
        f"{place}is {result[at]:.6g} where the reference has {right[at]:.6g}; {int(off.sum())} of {right.size} differ"
    )


@dataclass(frozen=True)
class Question:
    """Inputs at which a way is compared. text: for messages; kind: "random", "denormal" or "nan"."""

    text: str
    n: int
    kind: str


def questions(sizes: tuple[int, int], most: int, denormals: bool, nan: bool) -> Iterator[Question]:
    """Yield random inputs by increasing n up to `most`, then the denormal and NaN inputs that the file allows."""
    asked = [n for n in SIZES if n <= min(most, sizes[1])] or [sizes[0]]
    for n in asked:
        yield Question(f"n = {n}", n, "random")
    middle = max(n for n in asked if n <= 97) if asked[0] <= 97 else asked[0]
    if denormals:
        yield Question(f"denormal numbers, n = {middle}", middle, "denormal")
    if nan:
        yield Question(f"NaN, n = {middle}", middle, "nan")


def awkward(inputs: tuple[Any, ...], kind: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return the inputs with denormal numbers, zeros or a few NaN in their floating-point arrays."""
    return tuple(
        _AWKWARD[kind](value, rng) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
        for value in inputs
    )


def _denormal(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG001 - as _with_nan
    info = np.finfo(array.dtype)
    largest = float(np.abs(array).max()) if array.size else 0.0
    return (array / max(largest, float(info.tiny)) * info.tiny / 8).astype(array.dtype)


def _zero(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG001 - as _with_nan
    return np.zeros_like(array)


def _with_nan(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    found = np.array(array)
    found.reshape(-1)[rng.integers(found.size, size=NAN_PLACES)] = np.nan
    return found


def _as_they_are(array: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG001 - as _with_nan
    return array


_AWKWARD = {"random": _as_they_are, "denormal": _denormal, "zero": _zero, "nan": _with_nan}
