"""Matrix product, then column sums on the GPU, in CuPy."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array
from compute.labs.crossover.workloads.column_sums import shortcut_work
from compute.ways.declaring import way


@way("gpu_cupy")
def column_sums_cupy(A: Array, B: Array, sums: Array) -> None:
    """CuPy: the product by cuBLAS, then the sums.

    Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    (A @ B).sum(axis=0, out=sums)


@way("gpu_cupy_einsum", work=shortcut_work)
def column_sums_cupy_einsum(A: Array, B: Array, sums: Array) -> None:
    """CuPy, einsum: as i occurs only in A, it sums over i first, and so computes the shortcut.

    Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    sums[:] = cp.einsum("ij,jk->k", A, B)


@way("gpu_cupy_shortcut", work=shortcut_work)
def column_sums_cupy_shortcut(A: Array, B: Array, sums: Array) -> None:
    """CuPy, the sum first: a vector product instead of a matrix product.

    Write the column sums of A @ B to sums, (k,); A: (n, m), B: (m, k).
    """
    sums[:] = A.sum(axis=0) @ B
