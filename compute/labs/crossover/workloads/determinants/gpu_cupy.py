"""Determinants on the GPU, in CuPy."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_cupy")
def determinants_cupy(A: Array, det: Array) -> None:
    """CuPy, batched: cuBLAS factorises all matrices in one call.

    Write the determinants of the matrices A, (n, side, side), to det, (n,).
    """
    det[:] = cp.linalg.det(A)


@way("gpu_cupy_loop")
def determinants_cupy_loop(A: Array, det: Array) -> None:
    """CuPy, a loop: many launches per matrix, each of which keeps only a few threads busy.

    Write the determinants of the matrices A, (n, side, side), to det, (n,).
    """
    for i, matrix in enumerate(A):
        det[i] = cp.linalg.det(matrix)
