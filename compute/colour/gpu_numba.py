"""From a field of numbers to one that can be coloured, in Numba-CUDA: as cpu_numpy.py. Runs in the simulator too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from compute.colour.pixel import level, place, reach, slope
from compute.devices import Array
from compute.gpu_numba_kernel import kernel

BLOCK = (32, 8)  # threads in x and y, one a pixel
COUNTERS = 128  # threads of a block that counts
PARTS = 256  # blocks that count, each every 256th row
BINS = 2048  # of a histogram that a block counts at once; Numba takes the shapes of shared arrays from names
ZERO, NOTHING = np.float32(0), np.float32(np.nan)  # literals would turn float32 arithmetic into float64
cuda: Any = None  # numba.cuda, once a kernel is wanted


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
