"""Empties the caches of the host before a run, those of all cores."""

from __future__ import annotations

from numba import njit, prange

from compute.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def evict(scratch: Array) -> None:
    """As in cpu_numpy."""
    for i in prange(scratch.size):
        scratch[i] += 1
