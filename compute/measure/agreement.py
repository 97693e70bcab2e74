"""Differences between a result and its reference, the Agreement that states them, and why a result gets no time."""

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
    """The difference between a result and its reference, by the measure of its lab.

    difference, tolerance: numbers of that measure; said: both as text; about: how they were computed.
    """

    difference: float
    tolerance: float
    said: str
    about: str

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance; False for nan."""
        return self.difference <= self.tolerance


def disagreement(difference: float, tolerance: float, measure: str = "") -> str:
    """Return how a result differs by more than `tolerance`, also by nan; "" if it agrees. measure: of the numbers."""
    if difference <= tolerance:
        return ""
    return f"differs by {difference:.1e}{f' ({measure})' if measure else ''}; the tolerance is {tolerance:.0e}"


def memory_shortage(needed: float, free: float, place: str = "") -> str:
    """Return why `needed` bytes do not fit into `free` ones; "" if they do. place: of the memory, as " on cuda:0"."""
    return f"needs {needed / 2**30:.2f} GiB{place}; {free / 2**30:.2f} GiB are free" if needed > free else ""


def error_line(error: Exception) -> str:
    """Return type and message of an exception on one line of at most 300 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def relative_l2(result: Arrays, truth: Arrays) -> float:
    """Return |result - truth| / |truth| over all arrays together, in float64; inf for other shapes, nan for nan."""
    if [r.shape for r in result] != [t.shape for t in truth]:
        return inf
    off = sum(float(np.sum((r.astype(np.float64) - t) ** 2)) for r, t in zip(result, truth, strict=True))
    size = sum(float(np.sum(np.square(t, dtype=np.float64))) for t in truth)
    return float(np.sqrt(off / size)) if size else float(np.sqrt(off))


def standard_errors(result: Arrays, truth: Arrays) -> float:
    """Return the error of an estimate in standard errors. truth: (value,) and (standard error,), float64."""
    return float(abs(result[0].astype(np.float64) - truth[0]).max() / truth[1][0])


def share_in_other_bins(result: Arrays, truth: Arrays) -> float:
    """Return the share of counted items in another bin of a histogram; inf for other shapes."""
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
    """Return the factor by which steps that multiply errors by `growth` amplify rounding; 1 if `growth` is 1.

    Each step rounds by about the field's size times the dtype's precision, and every later step multiplies that error
    by up to `growth`: the sum over n steps is 1 + growth + … + growth^(n - 1) roundings instead of n. The field itself
    does not shrink during these steps, since its mean is constant.
    """
    return sum(growth**k for k in range(steps)) / steps
