"""From a field to what the screen needs, in Numba: the same functions as cpu_numpy.py, rows in parallel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute import numba_threads
from compute.raster.cpu_numpy import WORK_SHAPE, disc, gather, window

__all__ = ["disc", "gather", "levels", "reduce", "survey", "window"]  # disc, gather, window: NumPy's memory copies

numba_threads.choose_layer()


def survey(u: NDArray[Any], work: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out = [minimum, maximum, sum, number of cells that are not finite] of u (ny, nx), any float type.

    work: float64 WORK_SHAPE scratch. out: float64 (4,). Minimum, maximum and sum look at finite cells only; with
    none they are +inf, -inf and 0. The sum is accumulated in float64, in an order that does not depend on the
    number of threads.
    """
    parts = min(WORK_SHAPE[0], u.shape[0])
    _survey(u, work, parts)
    out[0], out[1] = work[:parts, 0].min(), work[:parts, 1].max()
    out[2], out[3] = work[:parts, 2].sum(), work[:parts, 3].sum()


def reduce(u: NDArray[Any], out: NDArray[np.float32], y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) any float type; out: (py, px) float32, every block holds at least one cell. The mean is taken in
    float64; a cell that is not finite makes its block not finite.
    """
    _reduce(u, out, y0, x0, factor)


def levels(values: NDArray[np.float32], out: NDArray[np.uint8], low: float, high: float) -> None:
    """out = round((values - low) / (high - low) * 254), saturating at 0 and 254; 255 where not finite.

    values: (py, px) float32; out: (py, px) uint8. With low == high: 127 at that value, 0 below, 254 above.
    """
    _levels(values, out, float(low), float(high))


@njit(cache=True, nogil=True, fastmath={"reassoc"})  # the order of a row's sum is fixed when it is compiled
def _sum(row):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(row.size):
        total += row[j]
    return total


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})  # vectorises; called for finite rows only
def _extremes(row):  # type: ignore[no-untyped-def]
    low = high = row[0]
    for j in range(row.size):
        low = min(low, row[j])
        high = max(high, row[j])
    return low, high


@njit(cache=True, nogil=True)
def _survey_row(row):  # type: ignore[no-untyped-def]
    """Minimum, maximum, sum and number of cells not finite, cell by cell."""
    low, high, total, bad = np.inf, -np.inf, 0.0, 0
    for j in range(row.size):
        if math.isfinite(row[j]):
            low, high, total = min(low, row[j]), max(high, row[j]), total + row[j]
        else:
            bad += 1
    return low, high, total, bad


@njit(cache=True, nogil=True)
def _survey_rows(u, first, last, out):  # type: ignore[no-untyped-def]
    low, high, total, bad = np.inf, -np.inf, 0.0, 0
    for i in range(first, last):
        row_total = _sum(u[i])
        if math.isfinite(row_total):  # then so is every cell of the row
            row_low, row_high = _extremes(u[i])
            low, high, total = min(low, row_low), max(high, row_high), total + row_total
        else:
            row_low, row_high, row_total, row_bad = _survey_row(u[i])
            low, high, total, bad = min(low, row_low), max(high, row_high), total + row_total, bad + row_bad
    out[0], out[1], out[2], out[3] = low, high, total, bad


@njit(cache=True, nogil=True, parallel=True)
def _survey(u, work, parts):  # type: ignore[no-untyped-def]
    for part in prange(parts):
        k = np.int64(part)
        _survey_rows(u, k * u.shape[0] // parts, (k + 1) * u.shape[0] // parts, work[k])


@njit(cache=True, nogil=True)
def _add_row(row, total, factor):  # type: ignore[no-untyped-def]
    """total[j] += sum of block j of the row; the last block may be cut off. Block-wise sums vectorise badly."""
    whole = row.size // factor
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
