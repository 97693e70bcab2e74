"""a += 1: the least work per byte."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import LikeForLike, MeasuredWay, Ratio
from compute.measure.agreement import relative_l2
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Cited, Claim, Work


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 every workload has the same signature
    """Return no arrays: a is changed in place."""
    return ()


def reference(a: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return a + 1 in float64."""
    return (1.0 + a.astype(np.float64),)


def work(n: int, dtype: str) -> Work:
    """Count one addition per element, which is read and written."""
    size = np.dtype(dtype).itemsize
    return Work(moved=2 * n * size, flops=n, memory=2 * n * size)


@workload(
    title="Add one",
    chapter=1,
    on="device",
    sizes=(10, 10**8),
    counted="elements",
    tolerance={"float32": 6e-8, "float64": 0.0},  # relative L2; the reference is not rounded to float32
    outputs=outputs,
    reference=reference,
    difference=relative_l2,
    work=work,
    cited=(
        Cited("NumPy", 10**8, "float64", 60.9e-3, "a CPU"),
        Cited("on a GPU", 10**8, "float64", 2.15e-3, "a GPU"),
        Cited("on a GPU", 10**8, "float64", 0.489e-3, "NVIDIA H200"),
    ),
    claims=(
        Claim(
            "A GPU adds one to 10⁸ numbers 28 times as fast as NumPy.",
            f"60.9 ms on a CPU, 2.15 ms on a GPU, float64 ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numpy"), MeasuredWay("gpu_cupy"), 10**8, "float64", 60.9 / 2.15),
        ),
        Claim(
            "That gain is the GPU's, not that of many cores against one.",
            f"NumPy, on one core, was the opponent ({TUTORIAL})",
            LikeForLike(MeasuredWay("cpu_numpy"), MeasuredWay("gpu_cupy"), MeasuredWay("cpu_numba"), 10**8, "float64"),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (a,): n numbers from 0 to 1."""
    return (rng.random(n, np.dtype(dtype)),)
