"""Determinants of many small matrices: a GPU idles with one matrix at a time, and is fast with all in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import MeasuredWay, Ratio
from compute.measure.agreement import relative_l2
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Claim, Work


def outputs(n: int, dtype: str, side: int) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 a number for each matrix
    """Return (det,): (n,)."""
    return (np.empty(n, dtype),)


def reference(A: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the product of the eigenvalues, in float64."""
    return (np.linalg.eigvals(A.astype(np.float64)).prod(axis=1).real,)


def work(n: int, dtype: str, side: int) -> Work:
    """Count LU: 2/3 side³ operations per matrix, each matrix read once."""
    size = np.dtype(dtype).itemsize
    return Work(moved=n * (side**2 + 1) * size, flops=n * 2 * side**3 / 3, memory=4 * n * side**2 * size)


@workload(
    title="Determinants",
    chapter=10,
    on="device",
    sizes=(1, 30_000),
    counted="matrices",
    settings={"side": (16, 64)},
    tolerance={"float32": 2e-5, "float64": 2e-13},  # relative L2, for well-conditioned matrices
    outputs=outputs,
    reference=reference,
    difference=relative_l2,
    work=work,
    claims=(
        Claim(
            "On a GPU all matrices in one batch take seconds where a loop over them takes a minute.",
            f"2000 × 4 matrices ({TUTORIAL}); taken as a factor of 10, for 1000",
            Ratio(MeasuredWay("gpu_cupy_loop"), MeasuredWay("gpu_cupy"), 10**3, "float64", 10.0),
        ),
        Claim(
            "A batch of one is slower than a call for one.",
            f"said of small problems, without a figure ({TUTORIAL})",
            Ratio(MeasuredWay("gpu_cupy_loop"), MeasuredWay("gpu_cupy"), 1, "float64", 0.99),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator, side: int) -> tuple[Any, ...]:
    """Return (A,): (n, side, side), the identity with shuffled rows plus noise, so that elimination needs pivots."""
    rows = rng.permuted(np.tile(np.arange(side), (n, 1)), axis=1)
    return ((np.eye(side)[rows] + 0.5 * rng.normal(size=(n, side, side)) / np.sqrt(side)).astype(dtype),)
