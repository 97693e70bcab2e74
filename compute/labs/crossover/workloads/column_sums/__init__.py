"""Column sums of a matrix product, and why a ratio of 327 need not be due to the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.claims import LikeForLike, MeasuredWay, Ratio
from compute.measure.agreement import relative_l2
from compute.ways.declaring import workload
from compute.ways.workload import TUTORIAL, Cited, Claim, Work


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:
    """Return (sums,): for the column sums of A @ B, (7n/10,)."""
    return (np.empty(_shape(n)[1], dtype),)


def reference(A: NDArray[Any], B: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return the sums over i of (sum over j of A_ij B_jk), computed with the sum over i first, in float64."""
    return (np.sum(A, axis=0, dtype=np.float64) @ B.astype(np.float64),)


def work(n: int, dtype: str) -> Work:
    """Count the full product: a multiplication and an addition per i, j, k."""
    (m, k), size = _shape(n), np.dtype(dtype).itemsize
    return Work(moved=(n * m + m * k + k) * size, flops=2 * n * m * k + n * k, memory=(n * m + m * k + n * k) * size)


def shortcut_work(n: int, dtype: str) -> Work:
    """Count the operations with the sum over i first."""
    (m, k), size = _shape(n), np.dtype(dtype).itemsize
    return Work(moved=(n * m + m * k + k) * size, flops=n * m + 2 * m * k, memory=(n * m + m * k + k) * size)


def _shape(n: int) -> tuple[int, int]:
    return max(1, n // 2), max(1, 7 * n // 10)


@workload(
    title="Matrix product, then column sums",
    chapter=6,
    on="device",
    sizes=(10, 10**4),
    counted="rows of A",
    tolerance={"float32": 1e-4, "float64": 1e-12},  # relative L2: plain sums of up to 1e4 positive numbers
    outputs=outputs,
    reference=reference,
    difference=relative_l2,
    work=work,
    cited=(
        Cited("einsum on the GPU", 10**4, "", 0.0168, "NVIDIA A40"),
        Cited("Numba-CUDA with tiles", 10**4, "", 7.26, "NVIDIA A40"),
    ),
    claims=(
        Claim(
            "In float32 a GPU multiplies matrices 17.7 times as fast as NumPy.",
            f"10000 × 5000 by 5000 × 7000, on an NVIDIA A40 ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numpy"), MeasuredWay("gpu_cupy"), 10**4, "float32", 17.7),
        ),
        Claim(
            "In float64 a GPU is slower than NumPy: 0.72 times as fast.",
            f"the same matrices, on an NVIDIA A40 ({TUTORIAL})",
            Ratio(MeasuredWay("cpu_numpy"), MeasuredWay("gpu_cupy"), 10**4, "float64", 0.72),
        ),
        Claim(
            "einsum makes the GPU 327 times as fast as the CPU.",
            f"0.0168 s on an NVIDIA A40, by another method than on the CPU ({TUTORIAL})",
            LikeForLike(
                MeasuredWay("cpu_numpy"),
                MeasuredWay("gpu_cupy_einsum"),
                MeasuredWay("cpu_numpy_shortcut"),
                10**4,
                "float32",
            ),
        ),
    ),
)
def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return (A, B): (n, n/2) and (n/2, 7n/10), numbers from 0 to 1."""
    m, k = _shape(n)
    return rng.random((n, m), np.dtype(dtype)), rng.random((m, k), np.dtype(dtype))
