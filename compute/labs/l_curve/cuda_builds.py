"""The compiler options of this lab's CUDA sources, for the listings of their machine code."""

from __future__ import annotations

from pathlib import Path

from compute.devices.cuda_source import Defines, SourceBuild
from compute.labs.l_curve import gpu_launch, gpu_onepass


def build_of(path: Path, dtype: str, real: Defines) -> SourceBuild | None:
    """Return the options for large grids of `dtype`; None for a file that is not this lab's. real: defines REAL."""
    if path == gpu_launch.PRODUCTS_SOURCE:
        threads = gpu_launch.THREADS[dtype]
        return SourceBuild(
            {**real, "THREADS": threads, "COLUMN": "u16", "LANES": gpu_launch.WARP, "SHARED": 1}, threads
        )
    if path == gpu_launch.VECTORS_SOURCE:
        return SourceBuild({**real, "LINES": gpu_launch.LINES})
    if path == gpu_onepass.SOURCE:
        groups, warps, _, _ = form = gpu_onepass.SHAPES[dtype][0]
        return SourceBuild(gpu_onepass.defines(dtype, form), gpu_launch.WARP * warps * groups)
    return None
