"""The Numba-CUDA kernel of direct iteration, for any way to iterate one pixel: the fast one and the slow ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from compute.gpu_numba_kernel import kernel
from compute.labs.mandelbrot.formula import ESCAPED, smooth_count
from compute.labs.mandelbrot.gpu_launch import BLOCK, grid
from compute.labs.mandelbrot.state import MARGIN, Part, State

cuda: Any = None  # numba.cuda, once a kernel is wanted
WIDTH, THREADS = BLOCK[0], BLOCK[0] * BLOCK[1]  # a power of two


def iterate_pixels(advance: Any, state: State, part: Part) -> None:
    """One slice of the pixels of a part: see gpu_numba.direct, whose arrays it takes.

    `advance(x, y, c_re, c_im, n, end, constants, shortcuts)` continues z_n of one pixel: (x, y, n, found), as
    formula.iterate does. constants, numbers of z's type, since a literal 4 would turn float32 arithmetic into float64:
    0, 4, and what formula.inside takes.
    """
    dtype = np.dtype(state.z.dtype)
    constants = tuple(map(dtype.type, (0, 4, 0.25, 0.0625, 1, MARGIN[dtype.name])))
    arrays = state.re, state.im, state.z, state.count, state.smooth, state.totals
    _kernel(advance)[grid(state, part), BLOCK](*arrays, part_numbers(part), constants)


def part_numbers(part: Part) -> tuple[int, ...]:
    """What a kernel needs to know of a part."""
    numbers = part.first, part.last, part.stride, part.iterations, part.limit, part.max_iterations, part.shortcuts
    return tuple(map(int, numbers))


@cache
def _kernel(advance: Any) -> Any:
    """The kernel with this way to iterate. Totals are summed over a block first.

    An atomic addition a pixel took milliseconds.
    """

    def pixels(re, im, z, count, smooth, totals, numbers, constants):  # type: ignore[no-untyped-def]
        first, last, stride, iterations, limit, top, shortcuts = numbers
        column, row = cuda.grid(2)
        i, j = (row + first) * stride, column * stride
        done = n = np.int64(-1)
        if row + first < last and j < re.shape[0]:
            done = n = np.int64(-1 - count[i, j])
        left = 0
        if 0 <= done < limit:
            x, y = constants[0], constants[0]
            if done > 0:
                x, y = z[0, i, j], z[1, i, j]
            end = min(done + iterations, limit)
            a, b, n, found = advance(x, y, re[j], im[i], done, end, constants, shortcuts > 0)
            if found == ESCAPED:
                count[i, j] = n
                smooth[i, j] = smooth_count(np.float64(a), np.float64(b), np.float64(re[j]), np.float64(im[i]), n)
            elif found > 0 or n >= top:
                count[i, j], smooth[i, j] = top, np.nan
            else:
                count[i, j], z[0, i, j], z[1, i, j] = -1 - n, a, b
                left = 1 if n < limit else 0
        sums = cuda.shared.array(THREADS, np.int64)
        thread = cuda.threadIdx.y * WIDTH + cuda.threadIdx.x
        sums[thread] = n - done
        some = cuda.syncthreads_count(left)
        half = THREADS // 2
        while half > 0:
            if thread < half:
                sums[thread] += sums[thread + half]
            cuda.syncthreads()
            half //= 2
        if thread == 0:
            cuda.atomic.add(totals, 0, sums[0])
            cuda.atomic.add(totals, 1, some)

    return kernel(pixels)
