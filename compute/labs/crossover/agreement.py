"""How far a result is from the truth."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Sequence[NDArray[Any]]


def relative_l2(result: Arrays, truth: Arrays) -> float:
    """|result - truth| / |truth| over all arrays together, in float64; inf for other shapes, nan for other nan."""
    if [r.shape for r in result] != [t.shape for t in truth]:
        return inf
    off = sum(float(np.sum((r.astype(np.float64) - t) ** 2)) for r, t in zip(result, truth, strict=True))
    size = sum(float(np.sum(np.square(t, dtype=np.float64))) for t in truth)
    return float(np.sqrt(off / size)) if size else float(np.sqrt(off))


def moved(result: Arrays, truth: Arrays) -> float:
    """The share of counted things that lie in another place of a histogram; inf for other shapes."""
    if [r.shape for r in result] != [t.shape for t in truth]:
        return inf
    off = sum(int(np.abs(r.astype(np.int64) - t).sum()) for r, t in zip(result, truth, strict=True))
    return off / 2 / max(1, sum(int(t.sum()) for t in truth))


def largest(result: Arrays, truth: Arrays) -> float:
    """The largest |result - truth|, in float64; inf for other shapes, nan for nan."""
    if [r.shape for r in result] != [t.shape for t in truth]:
        return inf
    return max((float(np.abs(r.astype(np.float64) - t).max()) for r, t in zip(result, truth, strict=True)), default=0.0)
