"""NumPy, a loop: a call for each matrix."""

from __future__ import annotations

import numpy as np

from compute.devices import Array


def determinants(A: Array, det: Array) -> None:
    """det (n,) of the matrices A, (n, side, side)."""
    for i, matrix in enumerate(A):
        det[i] = np.linalg.det(matrix)
