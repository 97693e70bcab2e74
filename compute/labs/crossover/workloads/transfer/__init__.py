"""Main memory to the GPU, add one, and back: the speed-up that remains with the transfers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import relative_l2
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Cited, Claim, Work


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:
    """Return (out,): for a + 1, in main memory."""
    return (np.empty(n, dtype),)


def reference(a: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return a + 1 in float64."""
    return (1.0 + a.astype(np.float64),)


def work(n: int, dtype: str) -> Work:
    """Count one read and one write per element, over the bus between the memories if there are two."""
    size = np.dtype(dtype).itemsize
    return Work(moved=2 * n * size, flops=n, memory=4 * n * size)


@workload(
    title="Transfer",
    chapter=4,
    on="host",
    sizes=(10, 10**8),
    counted="elements",
    tolerance={"float32": 6e-8, "float64": 0.0},  # relative L2, as in add_one
    outputs=outputs,
    reference=reference,
    difference=relative_l2,
    work=work,
    cited=(Cited("134 ms there and 145 ms back", 10**8, "float64", 279e-3, "a GPU"),),
    claims=(
        Claim(
            "With the data in main memory, there and back makes the GPU slower than NumPy alone.",
            f"134 ms there and 145 ms back, where NumPy needs 60.9 ms, 10⁸ float64 ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numpy"), MeasuredWay("gpu_cupy"), 10**8, "float64", 60.9 / 279),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (a,): n numbers from 0 to 1, in main memory."""
    return (rng.random(n, np.dtype(dtype)),)
