"""Numba: the same pass, shared by all cores."""

from __future__ import annotations

from numba import njit, prange

from compute.devices.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def add_one(a: Array) -> None:
    """Add 1 to every element of a, (n,), in place."""
    for i in prange(a.size):
        a[i] += 1
