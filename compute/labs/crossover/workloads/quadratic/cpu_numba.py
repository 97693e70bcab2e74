"""Numba: one pass, all operations on one element after the other, shared by all cores."""

from __future__ import annotations

from math import sqrt

from numba import njit, prange

from compute.devices.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def root(a: Array, b: Array, c: Array, x: Array) -> None:
    """Write the root of a x² + b x + c next to 0 to x; all (n,)."""
    for i in prange(a.size):
        x[i] = (-b[i] + sqrt(b[i] ** 2 - 4 * a[i] * c[i])) / (2 * a[i])
