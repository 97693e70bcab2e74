"""CuPy, the sum first: a vector product instead of a matrix product."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.labs.crossover.workloads.column_sums import shortcut_work as work

__all__ = ["work"]


def column_sums(A: Array, B: Array, sums: Array) -> None:
    """Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k)."""
    sums[:] = A.sum(axis=0) @ B
