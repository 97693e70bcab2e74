"""a * a, a ** 2 and square(a): does the spelling matter?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import Alike, MeasuredWay, Plausible
from compute.measure.agreement import relative_l2
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Cited, Claim, Work


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:
    """Return (out,): for the n squares."""
    return (np.empty(n, dtype),)


def reference(a: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the squares in float64: exact for float32."""
    return (np.square(a, dtype=np.float64),)


def work(n: int, dtype: str) -> Work:
    """Count one product per element, which is read; its square is written."""
    size = np.dtype(dtype).itemsize
    return Work(moved=2 * n * size, flops=n, memory=3 * n * size)


@workload(
    title="Square",
    chapter=2,
    on="device",
    sizes=(10, 10**8),
    counted="elements",
    # Relative L2: a product rounds once; CUDA's powf and pow may be off by 4 and 2 units in the last place.
    tolerance={"float32": 5e-7, "float64": 5e-16},
    outputs=outputs,
    reference=reference,
    difference=relative_l2,
    work=work,
    cited=(
        Cited("a * a", 10**10, "float32", 3.2727e-3, "a GPU"),
        Cited("a ** 2", 10**10, "float32", 3.2756e-3, "a GPU"),
        Cited("square(a)", 10**10, "float32", 3.2753e-3, "a GPU"),
    ),
    claims=(
        Claim(
            "It does not matter whether a square is written a * a, a ** 2 or square(a).",
            f"3.2727, 3.2756 and 3.2753 ms on a GPU, float32 ({TUTORIAL})",
            Alike(
                (MeasuredWay("gpu_cupy"), MeasuredWay("gpu_cupy_power"), MeasuredWay("gpu_cupy_square")),
                "float32",
                within=1.05,
            ),
        ),
        Claim(
            "The squares of 10¹⁰ numbers take 3.27 ms.",
            f"3.2727 ms on a GPU, float32 ({TUTORIAL})",
            Plausible(10**10, "float32", 3.2727e-3),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (a,): n numbers from -1 to 1."""
    return (2 * rng.random(n, np.dtype(dtype)) - 1,)
