"""NumPy, a loop: one call per matrix."""

from __future__ import annotations

import numpy as np

from compute.devices.devices import Array


def determinants(A: Array, det: Array) -> None:
    """Write the determinants of the matrices A, (n, side, side), to det, (n,)."""
    for i, matrix in enumerate(A):
        det[i] = np.linalg.det(matrix)
