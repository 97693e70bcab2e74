"""The multiplier of the attracting cycle in Numba, rows in parallel: the scalar code of cycle.py."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute import numba_threads
from compute.labs.mandelbrot.interior.cycle import multiplier_at

ROWS_AT_ONCE = 4  # handed to a thread: rows differ in work by orders of magnitude
Axis = NDArray[np.float64]

numba_threads.choose_layer()


def multiplier(
    re: Axis, im: Axis, count: NDArray[Any], out: NDArray[Any], max_iterations: int, settle: int, longest: int
) -> None:
    """out = |product of 2 z over the attracting cycle|, 0 to 1, for the pixels whose count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other
    pixels and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        _multiplier(re, im, count, out, (max_iterations, settle, longest))


@njit(cache=True, nogil=True, parallel=True)
def _multiplier(re, im, count, out, numbers):  # type: ignore[no-untyped-def]
    max_iterations, settle, longest = numbers
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            inside = count[i, j] == max_iterations
            out[i, j] = multiplier_at(re[j], im[i], settle, longest) if inside else np.nan
