"""Determinants on the CPU, in NumPy and Numba."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def determinants_numpy(A: Array, det: Array) -> None:
    """NumPy, batched: one call; LAPACK factorises one matrix after the other.

    Write the determinants of the matrices A, (n, side, side), to det, (n,).
    """
    det[:] = np.linalg.det(A)


@way("cpu_numpy_loop")
def determinants_numpy_loop(A: Array, det: Array) -> None:
    """NumPy, a loop: one call per matrix.

    Write the determinants of the matrices A, (n, side, side), to det, (n,).
    """
    for i, matrix in enumerate(A):
        det[i] = np.linalg.det(matrix)


@njit(nogil=True, cache=True)
def _determinant(M: Array) -> float:
    det = M.dtype.type(1)
    for j in range(M.shape[0]):
        pivot = j
        for i in range(j + 1, M.shape[0]):
            if abs(M[i, j]) > abs(M[pivot, j]):
                pivot = i
        if pivot != j:
            det = -det
            for k in range(j, M.shape[0]):
                M[j, k], M[pivot, k] = M[pivot, k], M[j, k]
        det *= M[j, j]
        if det == 0:
            break
        lead = M[j, j + 1 :]
        for i in range(j + 1, M.shape[0]):
            factor = M[i, j] / M[j, j]
            row = M[i, j + 1 :]  # indexed from 0, so that the compiler vectorises the loop over k
            for k in range(row.size):
                row[k] -= factor * lead[k]
    return det


@way("cpu_numba", revision=2)
@njit(parallel=True, nogil=True, cache=True)
def determinants_numba(A: Array, det: Array) -> None:
    """Numba: elimination with pivots, written by hand; the matrices are shared by all cores.

    Write the determinants of the matrices A, (n, side, side), to det, (n,).
    """
    for i in prange(A.shape[0]):
        det[i] = _determinant(A[i].copy())
