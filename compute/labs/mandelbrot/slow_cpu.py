"""Slow on purpose, in Numba on all cores: what the lecture writes first. Same counts as cpu_numba's `direct`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import njit, prange

from compute.labs.mandelbrot.formula import ESCAPED, smooth_count
from compute.labs.mandelbrot.slow_steps import complex_power, each_step
from compute.labs.mandelbrot.state import Part, State

ROWS_AT_ONCE = 4  # handed to a thread, as in cpu_numba.py


def with_a_test_each_step(state: State, part: Part) -> None:
    """As cpu_numba.direct, with an escape test after each step and no shortcuts."""
    _launch(_each_step, state, part)


def with_complex_numbers(state: State, part: Part) -> None:
    """As cpu_numba.direct, with z**2 + c and abs(z) on complex numbers and no shortcuts."""
    _launch(_complex, state, part)


def _launch(kernel: Callable[..., None], state: State, part: Part) -> None:
    numbers = part.first, part.last, part.stride, part.iterations, part.limit, part.max_iterations
    arrays = state.re, state.im, state.z, state.count, state.smooth
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        kernel(arrays, state.totals, numbers, state.z.dtype.type(4))


def _slow(iterate: Any) -> Any:
    """A kernel that goes over the pixels of a part with `iterate`."""

    @njit(nogil=True)
    def pixel(arrays, i, j, numbers, four):  # type: ignore[no-untyped-def]
        re, im, z, count, smooth = arrays
        _, _, _, iterations, limit, top = numbers
        done = np.int64(-1 - count[i, j])
        if done < 0 or done >= limit:
            return 0, 0
        x, y = z[0, i, j], z[1, i, j]
        if done == 0:
            x, y = four - four, four - four
        x, y, n, found = iterate(x, y, re[j], im[i], done, min(done + iterations, limit), four)
        if found == ESCAPED:
            count[i, j] = n
            smooth[i, j] = smooth_count(np.float64(x), np.float64(y), np.float64(re[j]), np.float64(im[i]), n)
        elif n >= top:
            count[i, j], smooth[i, j] = top, np.nan
        else:
            count[i, j], z[0, i, j], z[1, i, j] = -1 - n, x, y
            return n - done, 1 if n < limit else 0
        return n - done, 0

    @njit(nogil=True, parallel=True)
    def kernel(arrays, totals, numbers, four):  # type: ignore[no-untyped-def]
        first, last, stride = numbers[0], numbers[1], numbers[2]
        work = 0
        left = 0
        for row in prange(last - first):
            for j in range(0, arrays[0].size, stride):
                did, stays = pixel(arrays, (np.int64(row) + first) * stride, j, numbers, four)
                work += did
                left += stays
        totals[0] += work
        totals[1] += left

    return kernel


@njit
def _without_constants(x, y, cr, ci, n, end, four):  # type: ignore[no-untyped-def] # noqa: ARG001
    return complex_power(x, y, cr, ci, n, end)


_each_step, _complex = _slow(each_step), _slow(_without_constants)
SLOW: dict[str, Callable[[State, Part], None]] = {
    "test each step": with_a_test_each_step,
    "complex z**2": with_complex_numbers,
}
