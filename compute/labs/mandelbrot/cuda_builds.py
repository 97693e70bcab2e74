"""The compiler options of this lab's CUDA sources, for the listings of their machine code."""

from __future__ import annotations

from pathlib import Path

from compute.devices.cuda_source import Defines, SourceBuild
from compute.labs.mandelbrot import gpu_cupy, state


def build_of(path: Path, dtype: str, real: Defines) -> SourceBuild | None:  # noqa: ARG001 - as in the other labs
    """Return the options for large grids of `dtype`; None for a file that is not this lab's. real: defines REAL."""
    if path.parent != gpu_cupy.SOURCE.parent:
        return None
    return SourceBuild(real, state.BLOCK[0] * state.BLOCK[1])
