"""Empty the caches of all cores of the host before a run."""

from __future__ import annotations

from numba import njit, prange

from compute.devices.devices import Array


@njit(parallel=True, nogil=True, cache=True)
def evict(scratch: Array) -> None:
    """Read and write `scratch`, an array much larger than the caches, to evict all other data."""
    for i in prange(scratch.size):
        scratch[i] += 1
