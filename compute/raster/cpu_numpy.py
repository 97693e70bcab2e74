"""From a field to what the screen needs, in NumPy: the reference. Every other backend exports the same functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.frames import NOT_FINITE, TOP_LEVEL

WORK_SHAPE = (1024, 4)  # float64 scratch of `survey`: partial results of up to 1024 parts of the field


def survey(u: NDArray[Any], work: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """out = [minimum, maximum, sum, number of cells that are not finite] of u (ny, nx), any float type.

    work: float64 WORK_SHAPE scratch, unused here. out: float64 (4,). Minimum, maximum and sum look at finite cells
    only; with none they are +inf, -inf and 0. The sum is accumulated in float64.
    """
    finite = np.isfinite(u)
    all_finite = bool(finite.all())
    values = u if all_finite else u[finite]
    out[0] = values.min() if values.size else np.inf
    out[1] = values.max() if values.size else -np.inf
    out[2] = values.sum(dtype=np.float64)
    out[3] = 0 if all_finite else u.size - values.size


def reduce(u: NDArray[Any], out: NDArray[np.float32], y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) any float type; out: (py, px) float32, every block holds at least one cell. The mean is taken in
    float64; a cell that is not finite makes its block not finite.
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
    """out = round((values - low) / (high - low) * 254), saturating at 0 and 254; 255 where not finite.

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


def window(u: NDArray[Any], out: NDArray[np.float64], y0: int, x0: int) -> None:
    """out (h, w) float64 = u[y0 : y0 + h, x0 : x0 + w]."""
    height, width = out.shape
    out[...] = u[y0 : y0 + height, x0 : x0 + width]


def disc(u: NDArray[Any], y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u (ny, nx) whose centre (i + 1/2, j + 1/2) lies within `radius` cells of (y, x) to `value`."""
    top, left = max(int(y - radius), 0), max(int(x - radius), 0)
    part = u[top : int(max(y + radius, -1)) + 1, left : int(max(x + radius, -1)) + 1]
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


def _meeting(size: int, source: int, num: int, den: int, start: int) -> tuple[slice, slice]:
    """The indices k below `size` with (k num + start) / den whole and in 0 .. source - 1, and these numbers."""
    places = np.arange(size) * num + start
    k = np.flatnonzero((places % den == 0) & (places >= 0) & (places < source * den))
    return _even(k), _even(places[k] // den)


def _even(numbers: NDArray[np.intp]) -> slice:
    """Evenly spaced increasing numbers as a slice: those above are, because k num + start = 0 modulo den."""
    if not numbers.size:
        return slice(0)
    return slice(int(numbers[0]), int(numbers[-1]) + 1, int(numbers[1] - numbers[0]) if numbers.size > 1 else 1)


def _starts(start: int, factor: int, count: int) -> NDArray[np.intp]:
    return start + factor * np.arange(count)


def _counts(starts: NDArray[np.intp], factor: int, size: int) -> NDArray[np.intp]:
    return np.minimum(starts + factor, size) - starts
