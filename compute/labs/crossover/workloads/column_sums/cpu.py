"""Matrix product, then column sums on the CPU, in NumPy."""

from __future__ import annotations

import numpy as np

from compute.devices.devices import Array
from compute.labs.crossover.workloads.column_sums import shortcut_work
from compute.ways.declaring import way


@way("cpu_numpy")
def column_sums_numpy(A: Array, B: Array, sums: Array) -> None:
    """NumPy: the product by BLAS on all cores, then the sums.

    Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    (A @ B).sum(axis=0, out=sums)


@way("cpu_numpy_einsum", exhibit="takes seconds where the others take milliseconds")
def column_sums_numpy_einsum(A: Array, B: Array, sums: Array) -> None:
    """NumPy, einsum: a single call, which runs a plain loop over i, j and k on one core.

    Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    np.einsum("ij,jk->k", A, B, out=sums)


@way("cpu_numpy_shortcut", work=shortcut_work)
def column_sums_numpy_shortcut(A: Array, B: Array, sums: Array) -> None:
    """NumPy, the sum first: (1 A) B is 1 (A B), a vector product instead of a matrix product.

    Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    sums[:] = A.sum(axis=0) @ B
