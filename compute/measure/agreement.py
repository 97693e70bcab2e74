"""How far a result is from the truth, and what of that may be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Agreement:
    """How far a result lies from the right one, by the measure of its lab.

    difference, tolerance: numbers of that measure; said: both in words; about: how they were found.
    """

    difference: float
    tolerance: float
    said: str
    about: str

    @property
    def agrees(self) -> bool:
        """Whether the result counts as right; a difference that is not a number does not."""
        return self.difference <= self.tolerance


def relative_l2(result: Arrays, truth: Arrays) -> float:
    """Return |result - truth| / |truth| over all arrays together, in float64; inf for other shapes, nan for nan."""
    if [r.shape for r in result] != [t.shape for t in truth]:
        return inf
    off = sum(float(np.sum((r.astype(np.float64) - t) ** 2)) for r, t in zip(result, truth, strict=True))
    size = sum(float(np.sum(np.square(t, dtype=np.float64))) for t in truth)
    return float(np.sqrt(off / size)) if size else float(np.sqrt(off))


def share_in_other_bins(result: Arrays, truth: Arrays) -> float:
    """Return the share of counted things that lie in another bin of a histogram; inf for other shapes."""
    if [r.shape for r in result] != [t.shape for t in truth]:
        return inf
    off = sum(int(np.abs(r.astype(np.int64) - t).sum()) for r, t in zip(result, truth, strict=True))
    return off / 2 / max(1, sum(int(t.sum()) for t in truth))


def largest_difference(result: Arrays, truth: Arrays) -> float:
    """Return the largest |result - truth|, in float64; inf for other shapes, nan for nan."""
    if [r.shape for r in result] != [t.shape for t in truth]:
        return inf
    pairs = zip(result, truth, strict=True)
    return max((float(np.abs(r.astype(np.float64) - t).max()) for r, t in pairs), default=0.0)


def amplification(growth: float, steps: int) -> float:
    """Return by how much steps that multiply errors by `growth` amplify rounding; 1 if they do not.

    A step's rounding is about as large as the field's own times the dtype's precision, and every later step multiplies
    it by up to `growth`: over n steps 1 + growth + … + growth^(n - 1) of them in place of n. The field itself does not
    become smaller meanwhile, since its mean stays.
    """
    return sum(growth**k for k in range(steps)) / steps
