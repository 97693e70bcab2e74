"""CuPy, einsum: as i occurs only in A, it sums over i first, and so computes the shortcut."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array
from compute.labs.crossover.workloads.column_sums import shortcut_work as work

__all__ = ["work"]


def column_sums(A: Array, B: Array, sums: Array) -> None:
    """Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k)."""
    sums[:] = cp.einsum("ij,jk->k", A, B)
