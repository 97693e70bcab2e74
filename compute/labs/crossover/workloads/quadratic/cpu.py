"""Quadratic formula on the CPU, in NumPy and Numba."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def root_numpy(a: Array, b: Array, c: Array, x: Array) -> None:
    """NumPy: nine passes through memory, one per operation, on one core.

    Write the root of a x² + b x + c next to 0 to x; all (n,).
    """
    np.divide(-b + np.sqrt(b**2 - 4 * a * c), 2 * a, out=x)


@way("cpu_numba")
@njit(parallel=True, nogil=True, cache=True)
def root_numba(a: Array, b: Array, c: Array, x: Array) -> None:
    """Numba: one pass, all operations on one element after the other, shared by all cores.

    Write the root of a x² + b x + c next to 0 to x; all (n,).
    """
    for i in prange(a.size):
        x[i] = (-b[i] + sqrt(b[i] ** 2 - 4 * a[i] * c[i])) / (2 * a[i])
