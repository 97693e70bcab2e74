"""From a field of numbers to one that can be coloured, in NumPy: the reference for every other backend."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compute.frames import NOT_FINITE, TOP_LEVEL

Field = NDArray[np.float32]
LN2 = np.float32(np.log(2))
LAST_DIGIT = np.float32(2.0**-24)  # half of float32's last digit, relative to the number


def logarithm(values: Field, out: Field) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    out[...] = np.nan
    positive = values > 0
    out[positive] = np.log2(values[positive].astype(np.float64))


def histogram(values: Field, out: NDArray[np.int64], low: float, high: float) -> None:
    """out int64 (bins,) = how many finite values lie in each of the equal bins of [low, high], `high` in the last.

    values: float32 (py, px). What lies outside is not counted. With low == high: those of that value, in bin 0.
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
    bins of [low, high], interpolated linearly between them and constant outside. With low == high: 127 at that value.
    """
    finite = np.isfinite(values)
    given = values[finite].astype(np.float64)
    bins = table.size - 1
    scale = bins / (high - low) if low < high else np.inf
    with np.errstate(invalid="ignore"):  # infinity times 0, where low == high: seen to below
        places = np.clip(np.nan_to_num((given - low) * scale), 0, bins)
    left = np.minimum(places.astype(np.intp), bins - 1)
    shares = table.astype(np.float64)
    share = shares[left] + (places - left) * (shares[left + 1] - shares[left])
    levels = np.floor(TOP_LEVEL * share + 0.5)
    if low == high:
        levels[given == low] = TOP_LEVEL // 2
    out[...] = NOT_FINITE
    out[finite] = levels


def distance(values: Field, out: Field) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance itself lies between half and twice that (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided where only one neighbour is finite, 0 in a direction with none. Smaller slopes than float32 can
    tell, half its last digit a pixel, count as that. NaN where the value or all its neighbours are not finite.
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
    """Add a sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

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
    """Differences per pixel along an axis, 0 without a finite neighbour, and whether there is one."""
    low = (slice(None),) * axis + (slice(None, -1),)
    high = (slice(None),) * axis + (slice(1, None),)
    before, after = np.zeros_like(finite), np.zeros_like(finite)
    before[high], after[low] = finite[low], finite[high]
    left, right = values.copy(), values.copy()
    np.copyto(left[high], values[low], where=before[high])
    np.copyto(right[low], values[high], where=after[low])
    half = np.where(before & after, np.float32(0.5), np.float32(1))
    return half * (right - left), before | after
