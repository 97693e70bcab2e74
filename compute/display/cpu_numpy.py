"""Converts a field on a device into one byte per pixel, in NumPy: the reference.

The first part reduces any field to screen size (survey, exclude, reduce, levels, block_levels, window, disc, gather,
fill). The second part prepares numbers for colours (logarithm, histogram, equalise, mark, distance, blend, resolve).
Every other backend exports the same functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.lab.frames import NOT_FINITE, TOP_LEVEL, WAITING, disc_square

WORK_SHAPE = (1024, 4)  # float64 scratch of `survey`: partial results of up to 1024 parts of the field

Field = NDArray[np.float32]
LN2 = np.float32(np.log(2))
LAST_DIGIT = np.float32(2.0**-24)  # half of float32's last digit, relative to the number


def survey(u: NDArray[Any], work: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out = [minimum, maximum, sum, number of non-finite cells] of u (ny, nx), any float type.

    work: float64 WORK_SHAPE scratch, unused here. out: float64 (4,). Minimum, maximum and sum cover finite cells only;
    without any they are +inf, -inf and 0. The sum is accumulated in float64.
    """
    finite = np.isfinite(u)
    all_finite = bool(finite.all())
    values = u if all_finite else u[finite]
    out[0] = values.min() if values.size else np.inf
    out[1] = values.max() if values.size else -np.inf
    out[2] = values.sum(dtype=np.float64)
    out[3] = 0 if all_finite else u.size - values.size


def exclude(u: NDArray[Any], mask: NDArray[Any], value: float, out: NDArray[Any]) -> None:
    """out = u, but `value` in the cells where mask is 1 or larger.

    u, mask, out: (ny, nx) of one type, float32 or float64, not overlapping.
    """
    np.copyto(out, u)
    out[mask >= 1] = value


def reduce(u: NDArray[Any], out: NDArray[np.float32], y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) any float type; out: (py, px) float32; every block contains at least one cell. The mean is computed in
    float64; a non-finite cell makes its block non-finite.
    """
    rows = _starts(y0, factor, out.shape[0])
    columns = _starts(x0, factor, out.shape[1])
    part = u[y0 : rows[-1] + factor, x0 : columns[-1] + factor]
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf, or beyond float32: drawn as not finite
        total = np.add.reduceat(part.astype(np.float64), rows - y0, axis=0)
        total = np.add.reduceat(total, columns - x0, axis=1)
        count = np.outer(_counts(rows, factor, u.shape[0]), _counts(columns, factor, u.shape[1]))
        out[...] = total / count


def levels(values: NDArray[np.float32], out: NDArray[np.uint8], low: float, high: float) -> None:
    """out = round((values - low) / (high - low) * 254), clamped to 0 and 254; 255 where not finite.

    values: (py, px) float32; out: (py, px) uint8. With low == high: 127 at that value, 0 below, 254 above.
    """
    if low == high:
        out[...] = 127 + (values > low) * 127
        out[values < low] = 0
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (values.astype(np.float64) - low) * (TOP_LEVEL / (high - low))
            out[...] = np.clip(np.rint(np.nan_to_num(scaled)), 0, TOP_LEVEL)
    out[~np.isfinite(values)] = NOT_FINITE


def block_levels(
    u: NDArray[Any], out: NDArray[np.uint8], y0: int, x0: int, factor: int, low: float, high: float
) -> None:
    """out (py, px) uint8: the `levels` of the means that `reduce` computes."""
    means = np.empty(out.shape, np.float32)
    reduce(u, means, y0, x0, factor)
    levels(means, out, low, high)


def window(u: NDArray[Any], out: NDArray[np.float64], y0: int, x0: int) -> None:
    """out (h, w) float64 = u[y0 : y0 + h, x0 : x0 + w]."""
    height, width = out.shape
    out[...] = u[y0 : y0 + height, x0 : x0 + width]


def disc(u: NDArray[Any], y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u (ny, nx) whose centre (i + 1/2, j + 1/2) lies within `radius` cells of (y, x) to `value`."""
    top, left, height, width = disc_square(u.shape, y, x, radius)
    part = u[top : top + max(height, 0), left : left + max(width, 0)]
    dy = np.arange(part.shape[0]) + (top + 0.5 - y)
    dx = np.arange(part.shape[1]) + (left + 0.5 - x)
    part[np.add.outer(dy**2, dx**2) <= radius**2] = value


def gather(source: NDArray[Any], out: NDArray[Any], num: int, den: int, y0: int, x0: int, fill: float) -> None:
    """out[i, j] = source[(i num + y0) / den, (j num + x0) / den] where both are whole and in source, else `fill`.

    Moves a picture: by whole pixels (num = den = 1), to every other pixel (den = 2), from every other one (num = 2).
    source, out: 2-D of one type, float32, float64 or int32, not overlapping; num, den: whole numbers from 1 on.
    """
    out[...] = fill
    rows, from_rows = _meeting(out.shape[0], source.shape[0], num, den, y0)
    columns, from_columns = _meeting(out.shape[1], source.shape[1], num, den, x0)
    out[rows, columns] = source[from_rows, from_columns]


def fill(out: NDArray[Any], value: float) -> None:
    """Set all elements of out (ny, nx), float32, float64 or int32, to `value`."""
    out[...] = value


def _meeting(size: int, source: int, num: int, den: int, start: int) -> tuple[slice, slice]:
    """Return the k below `size` for which (k num + start) / den is whole and in 0 .. source - 1, and the quotients."""
    places = np.arange(size) * num + start
    k = np.flatnonzero((places % den == 0) & (places >= 0) & (places < source * den))
    return _even(k), _even(places[k] // den)


def _even(numbers: NDArray[np.intp]) -> slice:
    """Return evenly spaced increasing numbers as a slice; _meeting's are, because k num + start = 0 modulo den."""
    if not numbers.size:
        return slice(0)
    return slice(int(numbers[0]), int(numbers[-1]) + 1, int(numbers[1] - numbers[0]) if numbers.size > 1 else 1)


def _starts(start: int, factor: int, count: int) -> NDArray[np.intp]:
    return start + factor * np.arange(count)


def _counts(starts: NDArray[np.intp], factor: int, size: int) -> NDArray[np.intp]:
    return np.minimum(starts + factor, size) - starts


# -- numbers for colours


def logarithm(values: Field, out: Field) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    out[...] = np.nan
    positive = values > 0
    out[positive] = np.log2(values[positive].astype(np.float64))


def histogram(values: Field, out: NDArray[np.int64], low: float, high: float) -> None:
    """out int64 (bins,) = number of finite values in each of the equal bins of [low, high]; `high` is in the last one.

    values: float32 (py, px). Values outside are not counted. With low == high: values equal to it are counted in bin 0.
    """
    inside = values[(values >= low) & (values <= high) & np.isfinite(values)]
    if low < high:
        places = (inside.astype(np.float64) - low) * (out.size / (high - low))
        out[...] = np.bincount(np.minimum(places.astype(np.intp), out.size - 1), minlength=out.size)
    else:
        out[...] = 0
        out[0] = inside.size


def equalise(values: Field, out: NDArray[np.uint8], low: float, high: float, table: Field) -> None:
    """out = 254 times the share of values below this one, rounded; 255 where not finite.

    values: float32 (py, px); out: uint8 (py, px); table: float32 (bins + 1,), the share, 0 to 1, at the edges of the
    bins of [low, high], interpolated linearly in between and constant outside. With low == high: 127 at that value.
    """
    finite = np.isfinite(values)
    given = values[finite].astype(np.float64)
    bins = table.size - 1
    scale = bins / (high - low) if low < high else np.inf
    with np.errstate(invalid="ignore"):  # infinity times 0, if low == high: handled below
        places = np.clip(np.nan_to_num((given - low) * scale), 0, bins)
    left = np.minimum(places.astype(np.intp), bins - 1)
    shares = table.astype(np.float64)
    share = shares[left] + (places - left) * (shares[left + 1] - shares[left])
    levels = np.floor(TOP_LEVEL * share + 0.5)
    if low == high:
        levels[given == low] = TOP_LEVEL // 2
    out[...] = NOT_FINITE
    out[finite] = levels


def mark(counts: NDArray[np.int32], out: NDArray[np.uint8], y0: int, x0: int, factor: int, stride: int) -> None:
    """Mark pending pixels of an unfinished picture: out[i, j] = 254 where it is 255 and its block has a pending sample.

    The samples are every stride-th pixel of counts (ny, nx) in both directions; a sample is pending while its count is
    negative. The block of out[i, j] contains the factor x factor samples from (y0 + i factor, x0 + j factor), clipped
    at the edges. out: uint8 (py, px); values of 254 become 253.
    """
    rows, columns = _starts(y0, factor, out.shape[0]), _starts(x0, factor, out.shape[1])
    waits = counts[::stride, ::stride][y0 : rows[-1] + factor, x0 : columns[-1] + factor] < 0
    waits = np.logical_or.reduceat(np.logical_or.reduceat(waits, rows - y0, axis=0), columns - x0, axis=1)
    out[out == WAITING] = WAITING - 1
    out[waits & (out == NOT_FINITE)] = WAITING


def distance(values: Field, out: Field) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance lies between half and twice the estimate (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided if only one neighbour is finite, 0 in a direction without any. Slopes below float32's resolution,
    half its last digit per pixel, are replaced by it. NaN where the value or all its neighbours are not finite.
    """
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore", over="ignore"):
        dy, by_y = _slope(values, finite, 0)
        dx, by_x = _slope(values, finite, 1)
        slope = np.sqrt(dx * dx + dy * dy)
        least = LAST_DIGIT * np.maximum(np.abs(values), np.float32(1))
        out[...] = np.float32(1) / (LN2 * np.maximum(slope, least))
    out[~(finite & (by_y | by_x))] = np.nan


def blend(values: Field, sums: Field, hits: NDArray[np.int32]) -> None:
    """Add one sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

    values, sums: float32 (py, px); hits: int32 (py, px).
    """
    counts = np.isfinite(values) & (values > 0)
    sums[counts] += np.log(values[counts].astype(np.float64)).astype(np.float32)
    hits += counts


def resolve(sums: Field, hits: NDArray[np.int32], samples: int, out: Field) -> None:
    """out = exp(sums / hits), the geometric mean, where at least half of `samples` samples are hits; else NaN.

    sums, out: float32 (py, px); hits: int32 (py, px).
    """
    enough = (hits > 0) & (2 * hits.astype(np.int64) >= samples)
    out[...] = np.nan
    out[enough] = np.exp(sums[enough].astype(np.float64) / hits[enough])


def _slope(values: Field, finite: NDArray[np.bool_], axis: int) -> tuple[Field, NDArray[np.bool_]]:
    """Return the differences per pixel along an axis, 0 without a finite neighbour, and whether one exists."""
    low = (slice(None),) * axis + (slice(None, -1),)
    high = (slice(None),) * axis + (slice(1, None),)
    before, after = np.zeros_like(finite), np.zeros_like(finite)
    before[high], after[low] = finite[low], finite[high]
    left, right = values.copy(), values.copy()
    np.copyto(left[high], values[low], where=before[high])
    np.copyto(right[low], values[high], where=after[low])
    half = np.where(before & after, np.float32(0.5), np.float32(1))
    return half * (right - left), before | after
