"""Converts a field on a GPU of WebGPU into one byte per pixel, in WGSL: cpu_numpy.py's functions, in float32.

WGSL has no float64: sums consist of two floats, limits are rounded to two floats, and float64 results are written bit
by bit. A level may differ by one from the reference's, where that rounds a number close to a half.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compute.devices.devices import Array
from compute.devices.webgpu_passes import Storage
from compute.devices.wgsl import WgslProgram, folded, kernel, launch
from compute.lab.frames import disc_square

PARTS = 512  # workgroups of a survey; each writes five words to the scratch
HERE = Path(__file__).parent
RASTER = WgslProgram(HERE / "gpu_wgpu_raster.wgsl", (("PARTS", f"{PARTS}u"),), exact=2)
GATHER = WgslProgram(HERE / "gpu_wgpu_gather.wgsl", exact=0)
COLOUR = WgslProgram(HERE / "gpu_wgpu_colour.wgsl", exact=0)
WORD_BYTES = 4
LARGEST = 1e38  # of a limit: a third of float32's largest number, so that no difference overflows


def survey(u: Array, work: Array, out: Array) -> None:
    """out = [minimum, maximum, sum, number of non-finite cells] of u (ny, nx) float32.

    work: float64 WORK_SHAPE scratch. out: float64 (4,). Minimum, maximum and sum cover finite cells only; without any
    they are +inf, -inf and 0. The sum is accumulated in two floats: it is not finite beyond the range of float32.
    """
    _raster("survey", PARTS, (u, work), u.size)
    _raster("survey_parts", 1, (work, out), u.size)


def exclude(u: Array, mask: Array, value: float, out: Array) -> None:
    """out = u, but `value` in the cells where mask is 1 or larger.

    u, mask, out: (ny, nx) float32, not overlapping; whole arrays without NaN in mask.
    """
    _gather("exclude", u, out, (1, 1, 0, 0), value, mask)


def reduce(u: Array, out: Array, y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) float32; out: (py, px) float32; every block contains at least one cell. The mean is accumulated in
    differences from the block's first cell; a non-finite cell makes its block non-finite.
    """
    _raster("block_means", _blocks(out.size), (u, out), *u.shape, y0, x0, factor, *out.shape)


def block_levels(u: Array, out: Array, y0: int, x0: int, factor: int, low: float, high: float) -> None:
    """out (py, px) uint8: the `levels` of the means that `reduce` computes."""
    numbers = *u.shape, y0, x0, factor, *out.shape
    _raster("block_levels", _blocks(out.size, 4), (u, out), *numbers, limits=(low, high))


def levels(values: Array, out: Array, low: float, high: float) -> None:
    """out = round((values - low) / (high - low) * 254), clamped to 0 and 254; 255 where not finite.

    values: (py, px) float32; out: (py, px) uint8. With low == high: 127 at that value, 0 below, 254 above.
    """
    _raster("to_levels", _blocks(out.size, 4), (values, out), out.size, limits=(low, high))


def window(u: Array, out: Array, y0: int, x0: int) -> None:
    """out (h, w) float64 = u[y0 : y0 + h, x0 : x0 + w]."""
    _raster("window", _blocks(out.size), (u, out), *u.shape, y0, x0, 0, *out.shape)


def disc(u: Array, y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u (ny, nx) whose centre (i + 1/2, j + 1/2) lies within `radius` cells of (y, x) to `value`."""
    top, left, height, width = disc_square(u.shape, y, x, radius)
    if height < 1 or width < 1:
        return
    whole = np.float32(value).view(np.int32), u.shape[1], top, left, 0, height, width
    floats = top + 0.5 - y, left + 0.5 - x, radius
    numbers = *map(np.int32, whole), *map(np.float32, floats), np.int32(0)
    written = [u.gpu.padding(0), u.storage]  # the kernel only writes
    kernel(u.gpu, RASTER, "disc")(folded(_blocks(height * width)), written, *numbers)


def gather(source: Array, out: Array, num: int, den: int, y0: int, x0: int, fill: float) -> None:
    """out[i, j] = source[(i num + y0) / den, (j num + x0) / den] where both are whole and in source, else `fill`.

    Moves a picture: by whole pixels (num = den = 1), to every other pixel (den = 2), from every other one (num = 2).
    source, out: 2-D of one type, float32 or int32, not overlapping; num, den: whole numbers from 1 on.
    """
    _gather("gather", source, out, (num, den, y0, x0), fill)


def fill(out: Array, value: float) -> None:
    """Set all elements of out (ny, nx), float32 or int32, to `value`."""
    _gather("fill", out, out, (1, 1, 0, 0), value)


def _gather(
    name: str, source: Array, out: Array, where: tuple[int, int, int, int], value: float, *others: Array
) -> None:
    if out.dtype.itemsize != WORD_BYTES or source.dtype != out.dtype:
        raise TypeError(f"{name} moves float32 or int32 of one type on WebGPU, not {source.dtype} to {out.dtype}")
    read = out.gpu.padding(0) if source is out else source.storage
    starts = [np.uint32(each.offset * each.dtype.itemsize // WORD_BYTES) for each in (source, out)]
    shapes = [tuple(map(np.int32, each.shape)) for each in (source, out)]
    numbers = starts[0], *shapes[0], starts[1], *shapes[1], *map(np.int32, where), out.dtype.type(value)
    kernel(out.gpu, GATHER, name)(
        folded(_blocks(out.size)), [read, out.storage, *(each.storage for each in others)], *numbers
    )


def _blocks(threads: int, each: int = 1) -> int:
    return -(-threads // (256 * each))


def _raster(
    name: str, groups: int, arrays: tuple[Array, Array], *numbers: int, limits: tuple[float, float] = (0.0, 1.0)
) -> None:
    """Launch a kernel of gpu_wgpu_raster.wgsl with up to seven whole numbers and the limits of the levels."""
    if name != "survey_parts" and arrays[0].dtype != np.float32:
        raise TypeError(f"{name} reads float32 on WebGPU, not {arrays[0].dtype}")
    low, high = (min(max(limit, -LARGEST), LARGEST) for limit in limits)
    whole = (*numbers, *(0,) * (7 - len(numbers)))
    start = np.float32(low)
    scale = np.float32(254 / (high - low) if low < high else 0.0)
    floats = start, np.float32(low - float(start)), scale, np.int32(low == high)
    launch(RASTER, name, folded(groups), arrays, *map(np.int32, whole), *floats)


# -- numbers for colours


def logarithm(values: Array, out: Array) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    _colour("logarithm", _blocks(out.size), (values, out), out.size)


def histogram(values: Array, out: Array, low: float, high: float) -> None:
    """out int64 (bins,) = number of finite values in each of the equal bins of [low, high]; `high` is in the last one.

    values: float32 (py, px). Values outside are not counted. With low == high: values equal to it are counted in bin 0.
    Bins are computed in float32: a value close to the edge of two bins may be counted in the other one.
    """
    scale = out.size / (high - low) if low < high else 0.0
    bound = {"low": low, "high": high, "scale": scale}
    arrays = [values.storage, values.gpu.padding(1), out.storage]
    _colour_of(values, "clear", _blocks(2 * out.size), arrays, values.size, out.size)
    _colour_of(values, "histogram", _blocks(values.size), arrays, values.size, out.size, **bound)


def equalise(values: Array, out: Array, low: float, high: float, table: Array) -> None:
    """out = 254 times the share of values below this one, rounded; 255 where not finite.

    values: float32 (py, px); out: uint8 (py, px); table: float32 (bins + 1,), the share, 0 to 1, at the edges of the
    bins of [low, high], interpolated linearly in between and constant outside. With low == high: 127 at that value.
    """
    bins = table.size - 1
    bound = {"low": low, "high": high, "scale": bins / (high - low) if low < high else 0.0}
    arrays = [values.storage, out.storage, values.gpu.padding(2), table.storage]
    _colour_of(values, "equalise", _blocks(out.size, 4), arrays, out.size, bins, **bound)


def mark(counts: Array, out: Array, y0: int, x0: int, factor: int, stride: int) -> None:
    """Mark pending pixels of an unfinished picture: out[i, j] = 254 where it is 255 and its block has a pending sample.

    The samples are every stride-th pixel of counts (ny, nx) in both directions; a sample is pending while its count is
    negative. The block of out[i, j] contains the factor x factor samples from (y0 + i factor, x0 + j factor), clipped
    at the edges. out: uint8 (py, px); values of 254 become 253.
    """
    numbers = *counts.shape, *out.shape, y0, x0, factor, stride
    _colour("mark", _blocks(out.size, 4), (counts, out), *numbers)


def distance(values: Array, out: Array) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance lies between half and twice the estimate (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided if only one neighbour is finite, 0 in a direction without any. Slopes below float32's resolution,
    half its last digit per pixel, are replaced by it. NaN where the value or all its neighbours are not finite.
    """
    _colour("distance_to_set", _blocks(out.size), (values, out), *values.shape)


def blend(values: Array, sums: Array, hits: Array) -> None:
    """Add one sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

    values, sums: float32 (py, px); hits: int32 (py, px).
    """
    _colour("blend", _blocks(values.size), (values, sums, hits), values.size)


def resolve(sums: Array, hits: Array, samples: int, out: Array) -> None:
    """out = exp(sums / hits), the geometric mean, where at least half of `samples` samples are hits; else NaN.

    sums, out: float32 (py, px); hits: int32 (py, px).
    """
    _colour("resolve", _blocks(out.size), (sums, out, hits), out.size, 0, samples)


def _colour(name: str, groups: int, arrays: tuple[Array, ...], *numbers: int) -> None:
    _colour_of(arrays[0], name, groups, [each.storage for each in arrays], *numbers)


def _colour_of(
    like: Array, name: str, groups: int, arrays: list[Storage], *numbers: int, low: float = 0.0, high: float = 0.0,
    scale: float = 0.0,
) -> None:  # fmt: skip
    """Launch a kernel of gpu_wgpu_colour.wgsl with up to eight whole numbers and the bounds of its bins."""
    whole = (*numbers, *(0,) * (8 - len(numbers)))
    kernel(like.gpu, COLOUR, name)(folded(groups), arrays, *map(np.int32, whole), *map(np.float32, (low, high, scale)))
