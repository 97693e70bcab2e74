"""Empties the caches of the host before a run, those of all cores."""

from __future__ import annotations

from numba import njit, prange

from compute.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def evict(scratch: Array) -> None:
    """Read and write `scratch`, an array much larger than the caches, so that they hold nothing else."""
    for i in prange(scratch.size):
        scratch[i] += 1
