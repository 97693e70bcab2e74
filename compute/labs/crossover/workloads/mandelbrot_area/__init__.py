"""The area of the Mandelbrot set from random points: like π, but some points take many more steps."""

from __future__ import annotations

from math import hypot, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import standard_errors
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Claim, Work

ITERATIONS = 256  # a point that stays for this many steps counts as inside
LEFT, WIDTH, HEIGHT = -2.0, 2.5, 1.25  # points are drawn from -2 … 0.5 by 0 … 1.25; the set is symmetric
BOX = 2 * WIDTH * HEIGHT
TRUTH, UNSURE = 1.5218, 3e-4  # area of the staying points on lattices of up to 31 million points, and its scatter


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 one number for any n
    """Return (out,): (1,), for the area."""
    return (np.empty(1, dtype),)


def reference(n: int, seed: int) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 the area is the same for every seed
    """Return (area,) of the points that stay for ITERATIONS steps, from lattices, and (standard error,)."""
    share = TRUTH / BOX
    return np.array([TRUTH]), np.array([hypot(BOX * sqrt(share * (1 - share) / n), UNSURE)])


def work(n: int, dtype: str) -> Work:
    """Count 70 steps per point on average, of 9 operations each; only the result is written.

    memory: that of ways that draw all points first.
    """
    size = np.dtype(dtype).itemsize
    return Work(moved=size * (1 + n / 2**20), flops=9 * 70 * n, memory=12 * n * size + 2**22)


@workload(
    title="Area of the Mandelbrot set",
    chapter=9,
    on="device",
    sizes=(100, 10**7),
    counted="points",
    tolerance={"float32": 5.0, "float64": 5.0},  # standard errors: exceeded by chance once in 1.7 million
    outputs=outputs,
    reference=reference,
    difference=standard_errors,
    difference_in="standard errors",
    work=work,
    claims=(
        Claim(
            "Points that take unequally long do not spoil it: the GPU wins against all cores of a CPU.",
            f"shown without a figure ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numba"), MeasuredWay("gpu_numba"), 10**7, "float64", 1.0),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:  # noqa: ARG001 the result has the dtype
    """Return (n, seed): the number of points, and the seed of the generators."""
    return n, int(rng.integers(2**31))
