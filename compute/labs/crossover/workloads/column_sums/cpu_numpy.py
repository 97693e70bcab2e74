"""NumPy: the product by BLAS on all cores, then the sums."""

from __future__ import annotations

from compute.devices.devices import Array


def column_sums(A: Array, B: Array, sums: Array) -> None:
    """Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k)."""
    (A @ B).sum(axis=0, out=sums)
