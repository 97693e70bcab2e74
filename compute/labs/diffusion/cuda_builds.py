"""The compiler options of this lab's CUDA sources, for the listings of their machine code."""

from __future__ import annotations

from pathlib import Path

from compute.devices.cuda_source import Defines, SourceBuild
from compute.labs.diffusion import gpu_cupy, gpu_slabs


def build_of(path: Path, dtype: str, real: Defines) -> SourceBuild | None:
    """Return the options for large grids of `dtype`; None for a file that is not this lab's. real: defines REAL."""
    if path in (gpu_cupy.STEPS_SOURCE, gpu_slabs.SOURCE):
        return SourceBuild(gpu_cupy.TILINGS[dtype][0].defines(dtype), gpu_cupy.WARP)
    return SourceBuild(real, gpu_cupy.WARP * gpu_cupy.WARPS) if path == gpu_cupy.SOURCE else None
