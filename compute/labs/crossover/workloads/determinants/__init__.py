"""Determinants of many small matrices: one at a time a GPU starves, all at once it shines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.crossover.agreement import relative_l2 as difference
from compute.labs.crossover.cited import Cited
from compute.labs.crossover.work import Work

__all__ = ["difference"]

TITLE, CHAPTER, CALL, ON = "Determinants", 10, "determinants", "device"
SIZES = 1, 30_000  # matrices
SETTINGS: dict[str, tuple[Any, ...]] = {"side": (16, 64)}
TOLERANCE = {"float32": 2e-5, "float64": 2e-13}  # relative L2, for well-conditioned matrices
CITED: tuple[Cited, ...] = ()


def inputs(n: int, dtype: str, rng: np.random.Generator, side: int) -> tuple[Any, ...]:
    """(A,): (n, side, side), the identity with its rows shuffled, and noise: no elimination without pivots."""
    rows = rng.permuted(np.tile(np.arange(side), (n, 1)), axis=1)
    return ((np.eye(side)[rows] + 0.5 * rng.normal(size=(n, side, side)) / np.sqrt(side)).astype(dtype),)


def outputs(n: int, dtype: str, side: int) -> tuple[NDArray[Any], ...]:  # noqa: ARG001 a number for each matrix
    """(det,): (n,)."""
    return (np.empty(n, dtype),)


def reference(A: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """From the eigenvalues, in float64: their product."""
    return (np.linalg.eigvals(A.astype(np.float64)).prod(axis=1).real,)


def work(n: int, dtype: str, side: int) -> Work:
    """LU: 2/3 side³ operations a matrix, each of which is read once."""
    size = np.dtype(dtype).itemsize
    return Work(moved=n * (side**2 + 1) * size, flops=n * 2 * side**3 / 3, held=4 * n * side**2 * size)
