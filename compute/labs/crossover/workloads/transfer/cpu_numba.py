"""Numba: no transfer, and all cores compute."""

from __future__ import annotations

from numba import njit, prange

from compute.devices.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def round_trip(a: Array, out: Array) -> None:
    """Compute out = a + 1, both (n,) in main memory."""
    for i in prange(a.size):
        out[i] = a[i] + 1
