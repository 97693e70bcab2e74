"""a += 1: the least work on the most data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.agreement import relative_l2 as difference
from compute.labs.crossover.cited import TUTORIAL, Cited
from compute.labs.crossover.claims import Claim, LikeForLike, Ratio, Way
from compute.labs.crossover.work import Work

__all__ = ["difference"]

TITLE, CHAPTER, CALL, ON = "Add one", 1, "add_one", "device"
SIZES, COUNTED = (10, 10**8), "elements"
SETTINGS: dict[str, tuple[Any, ...]] = {}
TOLERANCE = {"float32": 6e-8, "float64": 0.0}  # relative L2; the reference is not rounded to float32
CITED: tuple[Cited, ...] = (
    Cited("NumPy", 10**8, "float64", 60.9e-3, "a CPU"),
    Cited("on a GPU", 10**8, "float64", 2.15e-3, "a GPU"),
    Cited("on a GPU", 10**8, "float64", 0.489e-3, "NVIDIA H200"),
)
CLAIMS = (
    Claim(
        "A GPU adds one to 10⁸ numbers 28 times as fast as NumPy.",
        f"60.9 ms on a CPU, 2.15 ms on a GPU, float64 ({TUTORIAL})",
        Ratio(Way("cpu_numpy"), Way("gpu_cupy"), 10**8, "float64", 60.9 / 2.15),
    ),
    Claim(
        "That gain is the GPU's, not that of many cores against one.",
        f"NumPy, on one core, was the opponent ({TUTORIAL})",
        LikeForLike(Way("cpu_numpy"), Way("gpu_cupy"), Way("cpu_numba"), 10**8, "float64"),
    ),
)


def inputs(n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """(a,): n numbers from 0 to 1."""
    return (rng.random(n, np.dtype(dtype)),)


def outputs(n: int, dtype: str) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 every workload has the same signature
    """None: a itself changes."""
    return ()


def reference(a: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """a + 1 in float64."""
    return (1.0 + a.astype(np.float64),)


def work(n: int, dtype: str) -> Work:
    """Each element is read, added to and written."""
    size = np.dtype(dtype).itemsize
    return Work(moved=2 * n * size, flops=n, held=2 * n * size)
