"""Sorting uniform numbers: a strength of libraries, unsuited to a hand-written loop."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import largest_difference
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Claim, Work


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:
    """Return (out,): for the same numbers in ascending order."""
    return (np.empty(n, dtype),)


def reference(a: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the result of a stable merge sort; the ways use quicksort or radix sort."""
    return (np.sort(a, kind="stable"),)


def work(n: int, dtype: str) -> Work:
    """Count one read and one write per element, and n log2 n comparisons as operations."""
    size = np.dtype(dtype).itemsize
    return Work(moved=2 * n * size, flops=n * max(1.0, log2(n)), memory=5 * n * size)


@workload(
    title="Sort",
    chapter=7,
    on="device",
    sizes=(10, 10**8),
    counted="elements",
    tolerance={"float32": 0.0, "float64": 0.0},  # largest difference: identical numbers
    outputs=outputs,
    reference=reference,
    difference=largest_difference,
    work=work,
    claims=(
        Claim(
            "A GPU sorts many numbers faster than a CPU.",
            f"10⁸ numbers, shown in a profiler without a figure ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numpy"), MeasuredWay("gpu_cupy"), 10**7, "float64", 1.0),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (a,): n numbers from 0 to 1 in random order."""
    return (rng.random(n, np.dtype(dtype)),)
