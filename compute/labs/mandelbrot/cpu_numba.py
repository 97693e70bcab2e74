"""The Mandelbrot set in Numba, rows in parallel over all cores: the fair CPU opponent. No fastmath: NumPy's bits."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute import numba_threads
from compute.labs.mandelbrot.formula import ESCAPED, PERIODIC, inside, iterate, smooth_count
from compute.labs.mandelbrot.state import MARGIN, Part, State

numba_threads.choose_layer()

ROWS_AT_ONCE = 4  # handed to a thread: rows differ in work by orders of magnitude


def direct(state: State, part: Part) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    real = state.z.dtype.type
    constants = real(4), real(0.25), real(0.0625), real(1), real(MARGIN[state.z.dtype.name])
    numbers = part.first, part.last, part.stride, part.iterations, part.limit, part.max_iterations
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        arrays = state.re, state.im, state.z, state.count, state.smooth
        _direct(arrays, state.totals, numbers, constants, part.shortcuts)


def pick(values: NDArray[Any], out: NDArray[Any], stride: int) -> None:
    """out (py, px) = every stride-th value of values (ny, nx) in both directions, from (0, 0) on; both float32."""
    out[...] = values[::stride, ::stride]


@njit(cache=True, nogil=True)
def _pixel(arrays, i, j, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    """One pixel of a slice: (iterations done, 1 if it stays unfinished)."""
    re, im, z, count, smooth = arrays
    _, _, _, iterations, limit, top = numbers
    four, quarter, sixteenth, one, margin = constants
    done = np.int64(-1 - count[i, j])
    if done < 0 or done >= limit:
        return 0, 0
    cr, ci = re[j], im[i]
    x, y = z[0, i, j], z[1, i, j]
    if done == 0:
        x, y = four - four, four - four
        if shortcuts and inside(cr, ci, quarter, sixteenth, one, margin):
            count[i, j], smooth[i, j] = top, np.nan
            return 0, 0
    end = min(done + iterations, limit)
    x, y, n, found = iterate(x, y, cr, ci, done, end, four, shortcuts)
    if found == ESCAPED:
        count[i, j] = n
        smooth[i, j] = smooth_count(np.float64(x), np.float64(y), np.float64(cr), np.float64(ci), n)
    elif found == PERIODIC or n >= top:
        count[i, j], smooth[i, j] = top, np.nan
    else:
        count[i, j] = -1 - n
        z[0, i, j], z[1, i, j] = x, y
        return n - done, 1 if n < limit else 0
    return n - done, 0


@njit(cache=True, nogil=True, parallel=True)
def _direct(arrays, totals, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    first, last, stride = numbers[0], numbers[1], numbers[2]
    columns = arrays[0].size
    work = 0
    left = 0
    for row in prange(last - first):
        i = (np.int64(row) + first) * stride
        for j in range(0, columns, stride):
            did, stays = _pixel(arrays, i, j, numbers, constants, shortcuts)
            work += did
            left += stays
    totals[0] += work
    totals[1] += left
