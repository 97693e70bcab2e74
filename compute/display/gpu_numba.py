"""From a field on a device to one byte a pixel, in Numba-CUDA: the functions of cpu_numpy.py.

The first half reduces any field to screen size (survey, reduce, levels, window, disc, gather); the second makes
numbers fit for colours (logarithm, histogram, equalise, distance, blend, resolve). Runs in the
simulator too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from compute.devices import Array
from compute.display.cpu_numpy import WORK_SHAPE
from compute.display.pixel import level, place, reach, slope
from compute.gpu_numba_kernel import kernel

THREADS = 128  # a block
SURVEYORS = 128  # threads of a block that surveys: a power of two
SEEN = (SURVEYORS, 4)  # Numba takes the shapes of shared arrays from names
cuda: Any = None  # numba.cuda, once a kernel is wanted

BLOCK = (32, 8)  # threads in x and y, one a pixel
COUNTERS = 128  # threads of a block that counts
PARTS = 256  # blocks that count, each every 256th row
BINS = 2048  # of a histogram that a block counts at once; Numba takes the shapes of shared arrays from names
ZERO, NOTHING = np.float32(0), np.float32(np.nan)  # literals would turn float32 arithmetic into float64


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


# -- numbers for colours


def logarithm(values: Array, out: Array) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    kernel(_logarithm)[_grid(out), BLOCK](values, out)


def histogram(values: Array, out: Array, low: float, high: float) -> None:
    """out int64 (bins,) = how many finite values lie in each of the equal bins of [low, high], `high` in the last.

    values: float32 (py, px). What lies outside is not counted. With low == high: those of that value, in bin 0.
    """
    scale = out.size / (high - low) if low < high else 0.0
    kernel(_clear)[-(-out.size // COUNTERS), COUNTERS](out)
    grid = min(values.shape[0], PARTS), -(-out.size // BINS)
    kernel(_histogram)[grid, COUNTERS](values, out, float(low), float(high), float(scale))


def equalise(values: Array, out: Array, low: float, high: float, table: Array) -> None:
    """out = 254 times the share of values below this one, rounded; 255 where not finite.

    values: float32 (py, px); out: uint8 (py, px); table: float32 (bins + 1,), the share, 0 to 1, at the edges of the
    bins of [low, high], interpolated linearly between them and constant outside. With low == high: 127 at that value.
    """
    kernel(_equalise)[_grid(out), BLOCK](values, out, float(low), float(high), table)


def distance(values: Array, out: Array) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance itself lies between half and twice that (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided where only one neighbour is finite, 0 in a direction with none. Smaller slopes than float32 can
    tell, half its last digit a pixel, count as that. NaN where the value or all its neighbours are not finite.
    """
    kernel(_distance)[_grid(out), BLOCK](values, out)


def blend(values: Array, sums: Array, hits: Array) -> None:
    """Add a sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

    values, sums: float32 (py, px); hits: int32 (py, px).
    """
    kernel(_blend)[_grid(values), BLOCK](values, sums, hits)


def resolve(sums: Array, hits: Array, samples: int, out: Array) -> None:
    """out = exp(sums / hits), the geometric mean, where at least half of `samples` samples are hits; else NaN.

    sums, out: float32 (py, px); hits: int32 (py, px).
    """
    kernel(_resolve)[_grid(out), BLOCK](sums, hits, samples, out)


def _grid(out: Array) -> tuple[int, int]:
    return -(-out.shape[1] // BLOCK[0]), -(-out.shape[0] // BLOCK[1])


def _logarithm(values, out):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        value = values[i, j]
        out[i, j] = math.log2(value) if value > ZERO else NOTHING


def _clear(out):  # type: ignore[no-untyped-def]
    k = cuda.grid(1)
    if k < out.shape[0]:
        out[k] = 0


def _histogram(values, out, low, high, scale):  # type: ignore[no-untyped-def]
    """Block (x, y) counts rows x, x + gridDim.x, .. into the BINS bins from BINS y on."""
    seen = cuda.shared.array(BINS, np.int32)
    me, first, bins = cuda.threadIdx.x, cuda.blockIdx.y * BINS, out.shape[0]
    here = min(bins - first, BINS)
    for k in range(me, here, COUNTERS):
        seen[k] = 0
    cuda.syncthreads()
    for i in range(cuda.blockIdx.x, values.shape[0], cuda.gridDim.x):
        for j in range(me, values.shape[1], COUNTERS):
            value = float(values[i, j])
            if low <= value <= high:
                k = min(int((value - low) * scale), bins - 1) - first
                if 0 <= k < here:
                    cuda.atomic.add(seen, k, 1)
    cuda.syncthreads()
    for k in range(me, here, COUNTERS):
        if seen[k] > 0:
            cuda.atomic.add(out, first + k, seen[k])


def _equalise(values, out, low, high, table):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i >= out.shape[0] or j >= out.shape[1]:
        return
    value, bins = float(values[i, j]), table.shape[0] - 1
    if not math.isfinite(value):
        out[i, j] = 255
    elif low == high and value == low:
        out[i, j] = 127
    else:
        position = place(value, low, high, bins)
        left = min(int(position), bins - 1)
        out[i, j] = level(position - left, float(table[left]), float(table[left + 1]))


def _distance(values, out):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i >= out.shape[0] or j >= out.shape[1]:
        return
    here = values[i, j]
    up = values[i - 1, j] if i > 0 else NOTHING
    down = values[i + 1, j] if i + 1 < values.shape[0] else NOTHING
    left = values[i, j - 1] if j > 0 else NOTHING
    right = values[i, j + 1] if j + 1 < values.shape[1] else NOTHING
    dy, by_y = slope(up, here, down)
    dx, by_x = slope(left, here, right)
    out[i, j] = reach(dx, dy, here) if math.isfinite(here) and (by_x or by_y) else NOTHING


def _blend(values, sums, hits):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i < values.shape[0] and j < values.shape[1]:
        value = values[i, j]
        if value > ZERO and math.isfinite(value):
            sums[i, j] += math.log(value)
            hits[i, j] += 1


def _resolve(sums, hits, samples, out):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        found = hits[i, j]
        out[i, j] = math.exp(sums[i, j] / np.float32(found)) if found > 0 and 2 * found >= samples else NOTHING
