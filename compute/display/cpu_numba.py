"""Converts a field on a device into one byte per pixel, in Numba with parallel rows: the functions of cpu_numpy.py.

The first part reduces any field to screen size (survey, exclude, reduce, levels, block_levels, window, disc, gather,
fill). The second part prepares numbers for colours (logarithm, histogram, equalise, mark, distance, blend, resolve).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute.devices import numba_threads
from compute.display.cpu_numpy import LAST_DIGIT, LN2, WORK_SHAPE, Field, disc, exclude, fill, gather, window
from compute.lab.frames import NOT_FINITE, WAITING

__all__ = ["blend", "block_levels", "disc", "distance", "equalise", "exclude", "fill", "gather", "histogram"]
__all__ += [
    "levels",
    "logarithm",
    "mark",
    "reduce",
    "resolve",
    "survey",
    "window",
]  # disc, exclude, fill, gather, window: NumPy's memory copies

numba_threads.choose_layer()

PARTS = 16  # of a surveyed or counted field, each with its own extremes or bins
NOTHING = np.float32(np.nan)
HALF, ONE = np.float32(0.5), np.float32(1)  # literals would turn float32 arithmetic into float64


def survey(u: NDArray[Any], work: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out = [minimum, maximum, sum, number of non-finite cells] of u (ny, nx), any float type.

    work: float64 WORK_SHAPE scratch. out: float64 (4,). Minimum, maximum and sum cover finite cells only; without any
    they are +inf, -inf and 0. The sum is accumulated in float64, in an order that does not depend on the number of
    threads.
    """
    parts = min(WORK_SHAPE[0], u.shape[0])
    _survey(u, work, parts)
    out[0], out[1] = work[:parts, 0].min(), work[:parts, 1].max()
    out[2], out[3] = work[:parts, 2].sum(), work[:parts, 3].sum()


def reduce(u: NDArray[Any], out: NDArray[np.float32], y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) any float type; out: (py, px) float32; every block contains at least one cell. The mean is computed in
    float64; a non-finite cell makes its block non-finite.
    """
    _reduce(u, out, y0, x0, factor)


def levels(values: NDArray[np.float32], out: NDArray[np.uint8], low: float, high: float) -> None:
    """out = round((values - low) / (high - low) * 254), clamped to 0 and 254; 255 where not finite.

    values: (py, px) float32; out: (py, px) uint8. With low == high: 127 at that value, 0 below, 254 above.
    """
    _levels(values, out, float(low), float(high))


def block_levels(
    u: NDArray[Any], out: NDArray[np.uint8], y0: int, x0: int, factor: int, low: float, high: float
) -> None:
    """out (py, px) uint8: the `levels` of the means that `reduce` computes."""
    means = np.empty(out.shape, np.float32)
    reduce(u, means, y0, x0, factor)
    levels(means, out, low, high)


@njit(cache=True, nogil=True, fastmath={"reassoc"})  # the order of a row's sum is fixed at compile time
def _sum(row):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(row.size):
        total += row[j]
    return total


@njit(cache=True, nogil=True)
def _note_extremes(row, lows, highs):  # type: ignore[no-untyped-def]
    """Update the extremes of each column by a finite row; unlike the extremes of a row, this vectorises."""
    for j in range(row.size):
        here = row[j]
        lows[j] = min(here, lows[j])
        highs[j] = max(here, highs[j])


@njit(cache=True, nogil=True)
def _survey_row(row):  # type: ignore[no-untyped-def]
    """Return minimum, maximum, sum and number of non-finite cells, cell by cell."""
    low, high, total, bad = np.inf, -np.inf, 0.0, 0
    for j in range(row.size):
        if math.isfinite(row[j]):
            low, high, total = min(low, row[j]), max(high, row[j]), total + row[j]
        else:
            bad += 1
    return low, high, total, bad


@njit(cache=True, nogil=True)
def _survey_rows(u, first, last, lows, highs, out):  # type: ignore[no-untyped-def]
    """out = _survey_row of these rows, but the extremes of finite rows are stored in lows and highs."""
    low, high, total, bad = np.inf, -np.inf, 0.0, 0
    for i in range(first, last):
        row_total = _sum(u[i])
        if math.isfinite(row_total):  # then every cell of the row is finite
            _note_extremes(u[i], lows, highs)
            total += row_total
        else:
            row_low, row_high, row_total, row_bad = _survey_row(u[i])
            low, high, total, bad = min(low, row_low), max(high, row_high), total + row_total, bad + row_bad
    out[0], out[1], out[2], out[3] = low, high, total, bad


@njit(cache=True, nogil=True)
def _survey_parts(u, work, parts, first, last):  # type: ignore[no-untyped-def]
    """Survey parts `first` to `last` (exclusive) of `parts`; the first of them receives the extremes of all."""
    lows, highs = np.full_like(u[0], np.inf), np.full_like(u[0], -np.inf)
    for k in range(first, last):
        _survey_rows(u, k * u.shape[0] // parts, (k + 1) * u.shape[0] // parts, lows, highs, work[k])
    for j in range(lows.size if first < last else 0):
        work[first, 0], work[first, 1] = min(work[first, 0], lows[j]), max(work[first, 1], highs[j])


@njit(cache=True, nogil=True, parallel=True)
def _survey(u, work, parts):  # type: ignore[no-untyped-def]
    for share in prange(PARTS):
        k = np.int64(share)
        _survey_parts(u, work, parts, k * parts // PARTS, (k + 1) * parts // PARTS)


@njit(cache=True, nogil=True)
def _add_row(row, total, factor):  # type: ignore[no-untyped-def]
    """total[j] += sum of block j of the row, cell by cell; the last block may be cut off.

    Block-wise sums vectorise only for the small factors known at compile time; the order of the sum is always the same.
    """
    whole = row.size // factor
    if factor == 1:
        for j in range(whole):
            total[j] += row[j]
    elif factor == 2:
        for j in range(whole):
            total[j] = (total[j] + row[2 * j]) + row[2 * j + 1]
    elif factor == 4:
        for j in range(whole):
            total[j] = (((total[j] + row[4 * j]) + row[4 * j + 1]) + row[4 * j + 2]) + row[4 * j + 3]
    else:
        for k in range(factor):
            for j in range(whole):
                total[j] += row[j * factor + k]
    for j in range(whole * factor, row.size):
        total[whole] += row[j]


@njit(cache=True, nogil=True)
def _reduce_row(u, out, y, x0, factor):  # type: ignore[no-untyped-def]
    bottom, right = min(y + factor, u.shape[0]), min(x0 + factor * out.size, u.shape[1])
    total = np.zeros(out.size)
    for i in range(y, bottom):
        _add_row(u[i, x0:right], total, factor)
    last = out.size - 1
    for j in range(last):
        out[j] = total[j] / ((bottom - y) * factor)
    out[last] = total[last] / ((bottom - y) * (right - x0 - last * factor))


@njit(cache=True, nogil=True, parallel=True)
def _reduce(u, out, y0, x0, factor):  # type: ignore[no-untyped-def]
    for row in prange(out.shape[0]):
        i = np.int64(row)
        _reduce_row(u, out[i], y0 + i * factor, x0, factor)


@njit(cache=True, nogil=True)
def _level(value, low, high):  # type: ignore[no-untyped-def]
    if not math.isfinite(value):
        return 255
    if low == high:
        return 127 if value == low else (0 if value < low else 254)
    scaled = (np.float64(value) - low) * (254 / (high - low))
    return int(round(min(max(scaled, 0.0), 254.0)))


@njit(cache=True, nogil=True, parallel=True)
def _levels(values, out, low, high):  # type: ignore[no-untyped-def]
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            out[i, j] = _level(values[i, j], low, high)


# -- numbers for colours


def logarithm(values: Field, out: Field) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    _logarithm(values, out)


def histogram(values: Field, out: NDArray[np.int64], low: float, high: float) -> None:
    """out int64 (bins,) = number of finite values in each of the equal bins of [low, high]; `high` is in the last one.

    values: float32 (py, px). Values outside are not counted. With low == high: values equal to it are counted in bin 0.
    """
    seen: NDArray[np.int64] = np.zeros((PARTS, out.size), np.int64)
    _histogram(values, seen, float(low), float(high))
    seen.sum(axis=0, out=out)


def equalise(values: Field, out: NDArray[np.uint8], low: float, high: float, table: Field) -> None:
    """out = 254 times the share of values below this one, rounded; 255 where not finite.

    values: float32 (py, px); out: uint8 (py, px); table: float32 (bins + 1,), the share, 0 to 1, at the edges of the
    bins of [low, high], interpolated linearly in between and constant outside. With low == high: 127 at that value.
    """
    _equalise(values, out, (float(low), float(high)), table)


def mark(counts: NDArray[np.int32], out: NDArray[np.uint8], y0: int, x0: int, factor: int, stride: int) -> None:
    """Mark pending pixels of an unfinished picture: out[i, j] = 254 where it is 255 and its block has a pending sample.

    The samples are every stride-th pixel of counts (ny, nx) in both directions; a sample is pending while its count is
    negative. The block of out[i, j] contains the factor x factor samples from (y0 + i factor, x0 + j factor), clipped
    at the edges. out: uint8 (py, px); values of 254 become 253.
    """
    _mark(counts, out, y0, x0, factor, stride)


def distance(values: Field, out: Field) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance lies between half and twice the estimate (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided if only one neighbour is finite, 0 in a direction without any. Slopes below float32's resolution,
    half its last digit per pixel, are replaced by it. NaN where the value or all its neighbours are not finite.
    """
    _distance(values, out)


def blend(values: Field, sums: Field, hits: NDArray[np.int32]) -> None:
    """Add one sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

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
def _share_level(value, low, high, table):  # type: ignore[no-untyped-def]
    if not math.isfinite(value):
        return 255
    if low == high and value == low:
        return 127
    bins = table.size - 1
    position = _place(value, low, high, bins)
    left = min(int(position), bins - 1)
    return _between(position - left, np.float64(table[left]), np.float64(table[left + 1]))


@njit(cache=True, nogil=True, parallel=True)
def _equalise(values, out, limits, table):  # type: ignore[no-untyped-def]
    low, high = limits
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            out[i, j] = _share_level(np.float64(values[i, j]), low, high, table)


@njit(cache=True, nogil=True)
def _waits(counts, top, left, factor, stride):  # type: ignore[no-untyped-def]
    """Return whether a sample in the block of `factor` x `factor` samples from (top, left) is pending."""
    for i in range(top * stride, min((top + factor) * stride, counts.shape[0]), stride):
        for j in range(left * stride, min((left + factor) * stride, counts.shape[1]), stride):
            if counts[i, j] < 0:
                return True
    return False


@njit(cache=True, nogil=True, parallel=True)
def _mark(counts, out, y0, x0, factor, stride):  # type: ignore[no-untyped-def]
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            if out[i, j] == WAITING:
                out[i, j] = WAITING - 1
            elif out[i, j] == NOT_FINITE and _waits(counts, y0 + i * factor, x0 + j * factor, factor, stride):
                out[i, j] = WAITING


@njit(cache=True, nogil=True)
def _estimate(values, i, j):  # type: ignore[no-untyped-def]
    here = values[i, j]
    up = values[i - 1, j] if i > 0 else NOTHING
    down = values[i + 1, j] if i + 1 < values.shape[0] else NOTHING
    left = values[i, j - 1] if j > 0 else NOTHING
    right = values[i, j + 1] if j + 1 < values.shape[1] else NOTHING
    dy, by_y = _slope(up, here, down)
    dx, by_x = _slope(left, here, right)
    return _reach(dx, dy, here) if math.isfinite(here) and (by_x or by_y) else NOTHING


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


# -- the arithmetic of one pixel


@njit(cache=True, nogil=True, error_model="numpy")
def _place(value, low, high, bins):  # type: ignore[no-untyped-def]
    """Return the float64 position of `value` in the equal bins of [low, high]: 0 at low, `bins` at high, clamped."""
    if low < high:
        return min(max((value - low) * (bins / (high - low)), 0.0), float(bins))
    return 0.0 if value < low else float(bins)


@njit(cache=True, nogil=True)
def _between(position, before, after):  # type: ignore[no-untyped-def]
    """Return 254 times the share at `position` (0 to 1) between two entries of the table, rounded."""
    return math.floor(254.0 * (before + position * (after - before)) + 0.5)


@njit(cache=True, nogil=True)
def _slope(before, here, after):  # type: ignore[no-untyped-def]
    """Return the difference per pixel between neighbours, 0 if neither is finite, and whether one of them is."""
    if math.isfinite(before):
        if math.isfinite(after):
            return HALF * (after - before), True
        return here - before, True
    if math.isfinite(after):
        return after - here, True
    return HALF - HALF, False


@njit(cache=True, nogil=True, error_model="numpy")
def _reach(dx, dy, here):  # type: ignore[no-untyped-def]
    """Return 1 / (ln 2 |gradient|), where the gradient is at least float32's resolution at the value `here`."""
    return ONE / (LN2 * max(math.sqrt(dx * dx + dy * dy), LAST_DIGIT * max(abs(here), ONE)))
