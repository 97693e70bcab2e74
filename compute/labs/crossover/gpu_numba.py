"""Empty the GPU's L2 cache before a run; silence Numba's warning about small grids, which this lab uses on purpose."""

from __future__ import annotations

from importlib import import_module

from numba import config, cuda

from compute.devices.devices import Array

if not config.ENABLE_CUDASIM:
    import_module("numba.cuda.dispatcher").config.CUDA_LOW_OCCUPANCY_WARNINGS = 0


@cuda.jit
def _evict(scratch: Array) -> None:
    i = cuda.grid(1)
    if i < scratch.size:
        scratch[i] += 1


def evict(scratch: Array) -> None:
    """Read and write `scratch`, an array much larger than the caches, to evict all other data."""
    _evict[-(-scratch.size // 256), 256](scratch)
