"""The multiplier of the attracting cycle in CUDA C, launched with CuPy: a thread a pixel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array

SOURCE = Path(__file__).with_suffix(".cu")
BLOCK = (8, 16)  # threads in x and y: a warp has 8 x 4 pixels, which need much the same work


def multiplier(re: Array, im: Array, count: Array, out: Array, max_iterations: int, settle: int, longest: int) -> None:
    """out = |product of 2 z over the attracting cycle|, 0 to 1, for the pixels whose count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other
    pixels and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    grid = -(-out.shape[1] // BLOCK[0]), -(-out.shape[0] // BLOCK[1])
    numbers = (*out.shape, max_iterations, settle, longest)
    with out.device:
        _kernel(out.device.id)(grid, BLOCK, (re, im, count, out, *map(np.int32, numbers)))


@cache
def _kernel(device: int) -> Any:
    """The kernel for the current GPU, which is number `device`."""
    return compile_cuda(SOURCE, defines={}).get_function("multiplier")
