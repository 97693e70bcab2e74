"""From a field of numbers to one that can be coloured, in Numba: the functions of cpu_numpy.py, rows in parallel."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute import numba_threads
from compute.colour.cpu_numpy import Field
from compute.colour.pixel import level, place, reach, slope

PARTS = 16  # of a field that is counted, each with bins of its own
NOTHING = np.float32(np.nan)

numba_threads.choose_layer()


def logarithm(values: Field, out: Field) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    _logarithm(values, out)


def histogram(values: Field, out: NDArray[np.int64], low: float, high: float) -> None:
    """out int64 (bins,) = how many finite values lie in each of the equal bins of [low, high], `high` in the last.

    values: float32 (py, px). What lies outside is not counted. With low == high: those of that value, in bin 0.
    """
    seen: NDArray[np.int64] = np.zeros((PARTS, out.size), np.int64)
    _histogram(values, seen, float(low), float(high))
    seen.sum(axis=0, out=out)


def equalise(values: Field, out: NDArray[np.uint8], low: float, high: float, table: Field) -> None:
    """out = 254 times the share of values below this one, rounded; 255 where not finite.

    values: float32 (py, px); out: uint8 (py, px); table: float32 (bins + 1,), the share, 0 to 1, at the edges of the
    bins of [low, high], interpolated linearly between them and constant outside. With low == high: 127 at that value.
    """
    _equalise(values, out, (float(low), float(high)), table)


def distance(values: Field, out: Field) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance itself lies between half and twice that (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided where only one neighbour is finite, 0 in a direction with none. Smaller slopes than float32 can
    tell, half its last digit a pixel, count as that. NaN where the value or all its neighbours are not finite.
    """
    _distance(values, out)


def blend(values: Field, sums: Field, hits: NDArray[np.int32]) -> None:
    """Add a sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

    values, sums: float32 (py, px); hits: int32 (py, px).
    """
    _blend(values, sums, hits)


def resolve(sums: Field, hits: NDArray[np.int32], samples: int, out: Field) -> None:
    """out = exp(sums / hits), the geometric mean, where at least half of `samples` samples are hits; else NaN.

    sums, out: float32 (py, px); hits: int32 (py, px).
    """
    _resolve(sums, hits, samples, out)


@njit(cache=True, nogil=True, parallel=True)
def _logarithm(values, out):  # type: ignore[no-untyped-def]
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            value = values[i, j]
            out[i, j] = math.log2(np.float64(value)) if value > 0 else np.nan


@njit(cache=True, nogil=True)
def _count(row, seen, low, high):  # type: ignore[no-untyped-def]
    scale = seen.size / (high - low) if low < high else 0.0
    for j in range(row.size):
        value = np.float64(row[j])
        if low <= value <= high and math.isfinite(value):
            seen[min(np.int64((value - low) * scale), seen.size - 1)] += 1


@njit(cache=True, nogil=True, parallel=True)
def _histogram(values, seen, low, high):  # type: ignore[no-untyped-def]
    parts = seen.shape[0]
    for part in prange(parts):
        k = np.int64(part)
        for i in range(k * values.shape[0] // parts, (k + 1) * values.shape[0] // parts):
            _count(values[i], seen[k], low, high)


@njit(cache=True, nogil=True)
def _level(value, low, high, table):  # type: ignore[no-untyped-def]
    if not math.isfinite(value):
        return 255
    if low == high and value == low:
        return 127
    bins = table.size - 1
    position = place(value, low, high, bins)
    left = min(int(position), bins - 1)
    return level(position - left, np.float64(table[left]), np.float64(table[left + 1]))


@njit(cache=True, nogil=True, parallel=True)
def _equalise(values, out, limits, table):  # type: ignore[no-untyped-def]
    low, high = limits
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            out[i, j] = _level(np.float64(values[i, j]), low, high, table)


@njit(cache=True, nogil=True)
def _estimate(values, i, j):  # type: ignore[no-untyped-def]
    here = values[i, j]
    up = values[i - 1, j] if i > 0 else NOTHING
    down = values[i + 1, j] if i + 1 < values.shape[0] else NOTHING
    left = values[i, j - 1] if j > 0 else NOTHING
    right = values[i, j + 1] if j + 1 < values.shape[1] else NOTHING
    dy, by_y = slope(up, here, down)
    dx, by_x = slope(left, here, right)
    return reach(dx, dy, here) if math.isfinite(here) and (by_x or by_y) else NOTHING


@njit(cache=True, nogil=True, parallel=True)
def _distance(values, out):  # type: ignore[no-untyped-def]
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            out[i, j] = _estimate(values, i, j)


@njit(cache=True, nogil=True, parallel=True)
def _blend(values, sums, hits):  # type: ignore[no-untyped-def]
    for row in prange(values.shape[0]):
        i = np.int64(row)
        for j in range(values.shape[1]):
            value = values[i, j]
            if value > 0 and math.isfinite(value):
                sums[i, j] += np.float32(math.log(np.float64(value)))
                hits[i, j] += 1


@njit(cache=True, nogil=True, parallel=True)
def _resolve(sums, hits, samples, out):  # type: ignore[no-untyped-def]
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            enough = hits[i, j] > 0 and 2 * np.int64(hits[i, j]) >= samples
            out[i, j] = math.exp(np.float64(sums[i, j]) / hits[i, j]) if enough else np.nan
