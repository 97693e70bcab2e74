"""π from random points in a square: only arithmetic and random numbers, no memory traffic."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import standard_errors
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Claim, Work


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 one number for any n
    """Return (estimate,): (1,), for 4 x the fraction of the points within the quarter circle."""
    return (np.empty(1, dtype),)


def reference(n: int, seed: int) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 π is π for every seed
    """Return (π,) and (the standard error of the estimate,): 4 sqrt(p (1 - p) / n) with p = π / 4."""
    return np.array([pi]), np.array([4 * sqrt(pi / 4 * (1 - pi / 4) / n)])


def work(n: int, dtype: str) -> Work:
    """Count two random numbers per point, some ten operations each, two products and a sum; only the result is written.

    memory: that of ways that draw all points first.
    """
    size = np.dtype(dtype).itemsize
    return Work(moved=size * (1 + n / 2**20), flops=24 * n, memory=5 * n * size + 2**22)


@workload(
    title="Monte Carlo π",
    chapter=8,
    on="device",
    sizes=(100, 10**9),
    counted="points",
    tolerance={"float32": 5.0, "float64": 5.0},  # standard errors: exceeded by chance once in 1.7 million
    outputs=outputs,
    reference=reference,
    difference=standard_errors,
    difference_in="standard errors",
    work=work,
    claims=(
        Claim(
            "Throwing points is what a GPU is best at: it wins against all cores of a CPU.",
            f"shown without a figure ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numba"), MeasuredWay("gpu_numba"), 10**8, "float64", 1.0),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:  # noqa: ARG001 the result has the dtype
    """Return (n, seed): the number of points, and the seed of the generators."""
    return n, int(rng.integers(2**31))
