"""Empties the GPU's L2 cache before a run; and Numba does not warn of small grids, which are the point here."""

from __future__ import annotations

from importlib import import_module

from numba import config, cuda

from compute.devices import Array

if not config.ENABLE_CUDASIM:
    import_module("numba.cuda.dispatcher").config.CUDA_LOW_OCCUPANCY_WARNINGS = 0


@cuda.jit
def _evict(scratch: Array) -> None:
    i = cuda.grid(1)
    if i < scratch.size:
        scratch[i] += 1


def evict(scratch: Array) -> None:
    """Read and write `scratch`, an array much larger than the caches, so that they hold nothing else."""
    _evict[-(-scratch.size // 256), 256](scratch)
