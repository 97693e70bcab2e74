"""From a field to what the screen needs, in Numba-CUDA: the functions of cpu_numpy.py. Runs in the simulator too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from compute.devices import Array
from compute.gpu_numba_kernel import kernel
from compute.raster.cpu_numpy import WORK_SHAPE

THREADS = 128  # a block
SURVEYORS = 128  # threads of a block that surveys: a power of two
SEEN = (SURVEYORS, 4)  # Numba takes the shapes of shared arrays from names
cuda: Any = None  # numba.cuda, once a kernel is wanted


def survey(u: Array, work: Array, out: Array) -> None:
    """out = [minimum, maximum, sum, number of cells that are not finite] of u (ny, nx), float32 or float64.

    work: float64 WORK_SHAPE scratch. out: float64 (4,). Minimum, maximum and sum look at finite cells only; with none
    they are +inf, -inf and 0. The sum is accumulated in float64, in an order that depends on the shape alone.
    """
    parts = min(WORK_SHAPE[0], -(-u.size // SURVEYORS))
    kernel(_survey_parts)[parts, SURVEYORS](u, work)
    kernel(_survey_total)[1, 1](work, out, parts)


def reduce(u: Array, out: Array, y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) float32 or float64; out: (py, px) float32, every block holds at least one cell. The mean is taken in
    float64; a cell that is not finite makes its block not finite.
    """
    kernel(_block_means)[_blocks(out), THREADS](u, out, y0, x0, factor)


def levels(values: Array, out: Array, low: float, high: float) -> None:
    """out = round((values - low) / (high - low) * 254), saturating at 0 and 254; 255 where not finite.

    values: (py, px) float32; out: (py, px) uint8. With low == high: 127 at that value, 0 below, 254 above.
    """
    kernel(_to_levels)[_blocks(out), THREADS](values, out, float(low), float(high))


def window(u: Array, out: Array, y0: int, x0: int) -> None:
    """out (h, w) float64 = u[y0 : y0 + h, x0 : x0 + w]."""
    kernel(_copy_window)[_blocks(out), THREADS](u, out, y0, x0)


def disc(u: Array, y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u (ny, nx) whose centre (i + 1/2, j + 1/2) lies within `radius` cells of (y, x) to `value`."""
    top, left = max(int(y - radius), 0), max(int(x - radius), 0)
    height = min(int(max(y + radius, -1)) + 1, u.shape[0]) - top
    width = min(int(max(x + radius, -1)) + 1, u.shape[1]) - left
    if height > 0 and width > 0:
        blocks = -(-height * width // THREADS)
        kernel(_fill_disc)[blocks, THREADS](u, y, x, float(radius), (top, left, height, width), u.dtype.type(value))


def gather(source: Array, out: Array, num: int, den: int, y0: int, x0: int, fill: float) -> None:
    """out[i, j] = source[(i num + y0) / den, (j num + x0) / den] where both are whole and in source, else `fill`.

    Moves a picture: by whole pixels (num = den = 1), to every other pixel (den = 2), from every other one (num = 2).
    source, out: 2-D of one type, float32, float64 or int32, not overlapping; num, den: whole numbers from 1 on.
    """
    kernel(_gather)[_blocks(out), THREADS](source, out, (num, den, y0, x0), out.dtype.type(fill))


def _blocks(out: Array) -> int:
    return -(-out.shape[0] * out.shape[1] // THREADS)


def _survey_parts(u, work):  # type: ignore[no-untyped-def]
    """work[block] = minimum, maximum, sum and number of cells not finite of the cells this block looks at."""
    seen = cuda.shared.array(SEEN, np.float64)
    me = cuda.threadIdx.x
    low, high, total, bad = np.inf, -np.inf, 0.0, 0.0
    for cell in range(cuda.blockIdx.x * SURVEYORS + me, u.shape[0] * u.shape[1], cuda.gridDim.x * SURVEYORS):
        value = float(u[cell // u.shape[1], cell % u.shape[1]])
        if math.isfinite(value):
            low, high, total = min(low, value), max(high, value), total + value
        else:
            bad += 1.0
    seen[me, 0], seen[me, 1], seen[me, 2], seen[me, 3] = low, high, total, bad
    cuda.syncthreads()
    step = SURVEYORS // 2
    while step:
        if me < step:
            seen[me, 0] = min(seen[me, 0], seen[me + step, 0])
            seen[me, 1] = max(seen[me, 1], seen[me + step, 1])
            seen[me, 2] += seen[me + step, 2]
            seen[me, 3] += seen[me + step, 3]
        cuda.syncthreads()
        step //= 2
    if me < 4:
        work[cuda.blockIdx.x, me] = seen[0, me]


def _survey_total(work, out, parts):  # type: ignore[no-untyped-def]
    """One thread joins what up to 1024 blocks saw."""
    low, high, total, bad = np.inf, -np.inf, 0.0, 0.0
    for part in range(parts):
        low, high = min(low, work[part, 0]), max(high, work[part, 1])
        total, bad = total + work[part, 2], bad + work[part, 3]
    out[0], out[1], out[2], out[3] = low, high, total, bad


def _block_means(u, out, y0, x0, factor):  # type: ignore[no-untyped-def]
    """One thread a pixel."""
    pixel = cuda.grid(1)
    if pixel < out.shape[0] * out.shape[1]:
        i, j = pixel // out.shape[1], pixel % out.shape[1]
        top, left = y0 + i * factor, x0 + j * factor
        bottom, right = min(top + factor, u.shape[0]), min(left + factor, u.shape[1])
        total = 0.0
        for y in range(top, bottom):
            for x in range(left, right):
                total += u[y, x]
        out[i, j] = total / ((bottom - top) * (right - left))


def _to_levels(values, out, low, high):  # type: ignore[no-untyped-def]
    """One thread a pixel."""
    pixel = cuda.grid(1)
    if pixel < out.shape[0] * out.shape[1]:
        i, j = pixel // out.shape[1], pixel % out.shape[1]
        value = float(values[i, j])
        if not math.isfinite(value):
            level = 255
        elif low == high:
            level = 127 if value == low else (0 if value < low else 254)
        else:
            level = int(math.floor(min(max((value - low) * (254 / (high - low)), 0.0), 254.0) + 0.5))
        out[i, j] = level


def _copy_window(u, out, y0, x0):  # type: ignore[no-untyped-def]
    """One thread a cell."""
    cell = cuda.grid(1)
    if cell < out.shape[0] * out.shape[1]:
        i, j = cell // out.shape[1], cell % out.shape[1]
        out[i, j] = u[y0 + i, x0 + j]


def _fill_disc(u, y, x, radius, box, value):  # type: ignore[no-untyped-def]
    """One thread a cell of the square around the disc."""
    cell = cuda.grid(1)
    top, left, height, width = box
    if cell < height * width:
        i, j = top + cell // width, left + cell % width
        if (i + 0.5 - y) ** 2 + (j + 0.5 - x) ** 2 <= radius * radius:
            u[i, j] = value


def _gather(source, out, numbers, fill):  # type: ignore[no-untyped-def]
    """One thread a cell."""
    cell = cuda.grid(1)
    num, den, y0, x0 = numbers
    if cell < out.shape[0] * out.shape[1]:
        i, j = cell // out.shape[1], cell % out.shape[1]
        p, q = i * num + y0, j * num + x0
        value = fill
        if p >= 0 and q >= 0 and p % den == 0 and q % den == 0:
            y, x = p // den, q // den
            if y < source.shape[0] and x < source.shape[1]:
                value = source[y, x]
        out[i, j] = value
