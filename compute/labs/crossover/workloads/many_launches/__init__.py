"""The same small kernel n times: the host launches more slowly than the GPU computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import relative_l2
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Claim, Work

ELEMENTS = 4096  # numbers that each launch processes


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 every workload has the same signature
    """Return no arrays: a is changed in place."""
    return ()


def reference(a: NDArray[Any], n: int) -> tuple[NDArray[Any], ...]:
    """Return a + n in float64."""
    return (a.astype(np.float64) + n,)


def work(n: int, dtype: str) -> Work:
    """Count n passes over a; a stays in a cache, so the roof of the memory does not limit them."""
    size = np.dtype(dtype).itemsize
    return Work(moved=2 * n * ELEMENTS * size, flops=n * ELEMENTS, memory=2 * ELEMENTS * size)


@workload(
    title="Many small launches",
    chapter=11,
    on="device",
    sizes=(1, 10_000),
    counted="launches",
    tolerance={"float32": 2e-7, "float64": 5e-16},  # relative L2: one rounding per power of two that is passed
    outputs=outputs,
    reference=reference,
    difference=relative_l2,
    work=work,
    claims=(
        Claim(
            "A graph of many small launches takes half the time of the launches, or less.",
            f"tutorials warn of launches, without a figure ({TUTORIAL})",
            Ratio(MeasuredWay("gpu_cupy_kernel"), MeasuredWay("gpu_cupy_graph"), 10**4, "float64", 4.0),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (a, n): 4096 numbers from 0 to 1, and the number of additions of 1."""
    return rng.random(ELEMENTS, np.dtype(dtype)), n
