"""The multiplier of the attracting cycle in Numba-CUDA: the scalar code of cycle.py, a thread a pixel."""

from __future__ import annotations

from typing import Any

import numpy as np

from compute.devices import Array
from compute.gpu_numba_kernel import kernel
from compute.labs.mandelbrot.interior.cycle import multiplier_at

BLOCK = (8, 16)  # threads in x and y: a warp has 8 x 4 pixels, which need much the same work
NOTHING = np.float32(np.nan)
cuda: Any = None  # numba.cuda, once a kernel is wanted


def multiplier(re: Array, im: Array, count: Array, out: Array, max_iterations: int, settle: int, longest: int) -> None:
    """out = |product of 2 z over the attracting cycle|, 0 to 1, for the pixels whose count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other
    pixels and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    grid = -(-out.shape[1] // BLOCK[0]), -(-out.shape[0] // BLOCK[1])
    kernel(_multiplier)[grid, BLOCK](re, im, count, out, max_iterations, settle, longest)


def _multiplier(re, im, count, out, max_iterations, settle, longest):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        value = NOTHING
        if count[i, j] == max_iterations:
            value = np.float32(multiplier_at(re[j], im[i], settle, longest))
        out[i, j] = value
