"""A root of a x² + b x + c: nine array operations, or one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import largest_difference
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Cited, Claim, Work


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:
    """Return (x,): for the roots next to 0."""
    return (np.empty(n, dtype),)


def reference(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the same roots without cancellation, -2c / (b + sqrt(b² - 4ac)), in float64."""
    a, b, c = (array.astype(np.float64) for array in (a, b, c))
    return (-2 * c / (b + np.sqrt(b * b - 4 * a * c)),)


def work(n: int, dtype: str) -> Work:
    """Count three arrays read, one written; nine operations, where the root counts as one."""
    size = np.dtype(dtype).itemsize
    return Work(moved=4 * n * size, flops=9 * n, memory=8 * n * size)


@workload(
    title="Quadratic formula",
    chapter=3,
    on="device",
    sizes=(10, 3 * 10**7),
    counted="elements",
    # Largest difference. The formula subtracts nearly equal numbers, b and the square root, both up to 20, and divides
    # by at least 10: a few roundings of 2, though the roots themselves are below 0.01.
    tolerance={"float32": 1e-6, "float64": 2e-15},
    outputs=outputs,
    reference=reference,
    difference=largest_difference,
    work=work,
    cited=(
        Cited("CuPy unfused", 10**6, "float64", 1.34e-3, "a GPU"),
        Cited("ElementwiseKernel", 10**6, "float64", 0.163e-3, "a GPU"),
        Cited("CuPy unfused", 10**6, "float64", 0.089e-3, "NVIDIA H200"),
        Cited("ElementwiseKernel", 10**6, "float64", 0.014e-3, "NVIDIA H200"),
    ),
    claims=(
        Claim(
            "One fused kernel is 8 times as fast as the same formula in array operations.",
            f"1.34 ms unfused, 0.163 ms in an ElementwiseKernel, 10⁶ float64 ({TUTORIAL})",
            Ratio(MeasuredWay("gpu_cupy"), MeasuredWay("gpu_cupy_elementwise"), 10**6, "float64", 1.34 / 0.163),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (a, b, c): a from 5 to 10, b from 10 to 20, c from -0.1 to 0.1; b² - 4ac > 0."""
    return tuple(rng.uniform(low, high, n).astype(dtype) for low, high in ((5, 10), (10, 20), (-0.1, 0.1)))
