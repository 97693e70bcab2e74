"""Sorting uniform numbers: a library's best piece, nothing for a loop of one's own."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.agreement import largest as difference
from compute.labs.crossover.cited import TUTORIAL, Cited
from compute.labs.crossover.claims import Claim, Ratio, Way
from compute.labs.crossover.work import Work

__all__ = ["difference"]

TITLE, CHAPTER, CALL, ON = "Sort", 7, "sort", "device"
SIZES, COUNTED = (10, 10**8), "elements"
SETTINGS: dict[str, tuple[Any, ...]] = {}
TOLERANCE = {"float32": 0.0, "float64": 0.0}  # largest difference: the very same numbers
CITED: tuple[Cited, ...] = ()
CLAIMS = (
    Claim(
        "A GPU sorts many numbers faster than a CPU.",
        f"10⁸ numbers, shown in a profiler without a figure ({TUTORIAL})",
        Ratio(Way("cpu_numpy"), Way("gpu_cupy"), 10**7, "float64", 1.0),
    ),
)


def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """(a,): n numbers from 0 to 1 in no order."""
    return (rng.random(n, np.dtype(dtype)),)


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:
    """(out,): the same, smallest first."""
    return (np.empty(n, dtype),)


def reference(a: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """By a stable merge sort, where the ways use quick or radix sort."""
    return (np.sort(a, kind="stable"),)


def work(n: int, dtype: str) -> Work:
    """Each element is read and written at least once; n log2 n comparisons are counted as operations."""
    size = np.dtype(dtype).itemsize
    return Work(moved=2 * n * size, flops=n * max(1.0, log2(n)), held=5 * n * size)
