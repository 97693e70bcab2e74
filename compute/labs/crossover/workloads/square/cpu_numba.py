"""Numba: a loop over the elements, shared by all cores."""

from __future__ import annotations

from numba import njit, prange

from compute.devices.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def square(a: Array, out: Array) -> None:
    """Compute out = a * a, both (n,)."""
    for i in prange(a.size):
        out[i] = a[i] * a[i]
