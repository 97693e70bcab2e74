"""Converts a field on a GPU into one byte per pixel, in CUDA C: cpu_numpy.py's functions, for arrays of CuPy or Numba.

The first part reduces any field to screen size (survey, exclude, reduce, levels, block_levels, window, disc, gather,
fill). The second part prepares numbers for colours (logarithm, histogram, equalise, mark, distance, blend, resolve).
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda, compile_for_numba, numba_gpu
from compute.devices.devices import Array
from compute.display.cpu_numpy import WORK_SHAPE
from compute.lab.frames import disc_square

RASTER_SOURCE = Path(__file__).with_name("gpu_raster.cu")
REAL = {"float32": "float", "float64": "double", "int32": "int"}
THREADS = 256  # per block, as in both sources
COLOUR_SOURCE = Path(__file__).with_name("gpu_colour.cu")
BINS = 2048  # bins of a histogram that a block counts in one pass, as in gpu_colour.cu
COUNTERS = 256  # blocks that count, each for every 256th row


def survey(u: Array, work: Array, out: Array) -> None:
    """out = [minimum, maximum, sum, number of non-finite cells] of u (ny, nx), float32 or float64.

    work: float64 WORK_SHAPE scratch. out: float64 (4,). Minimum, maximum and sum cover finite cells only; without any
    they are +inf, -inf and 0. The sum is accumulated in float64, in an order that depends only on the shape.
    """
    parts = min(WORK_SHAPE[0], _blocks(u.size))
    _launch_raster("survey", (parts,), u, work, out, np.int64(u.size))


def exclude(u: Array, mask: Array, value: float, out: Array) -> None:
    """out = u, but `value` in the cells where mask is 1 or larger.

    u, mask, out: (ny, nx) of one type, float32 or float64, not overlapping.
    """
    _launch_raster("exclude", (_blocks(u.size),), u, mask, u.dtype.type(value), out, np.int64(u.size))


def reduce(u: Array, out: Array, y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) float32 or float64; out: (py, px) float32; every block contains at least one cell. The mean is computed
    in float64; a non-finite cell makes its block non-finite.
    """
    grid, numbers = _of_blocks(u, out, y0, x0, factor)
    _launch_raster("block_means", grid, u, out, *numbers)


def block_levels(u: Array, out: Array, y0: int, x0: int, factor: int, low: float, high: float) -> None:
    """out (py, px) uint8: the `levels` of the means that `reduce` computes, bit for bit."""
    grid, numbers = _of_blocks(u, out, y0, x0, factor)
    _launch_raster("block_levels", grid, u, out, *numbers, np.float64(low), np.float64(high))


def _of_blocks(u: Array, out: Array, y0: int, x0: int, factor: int) -> tuple[tuple[int], list[np.int32]]:
    """Return the grid and the integer arguments of a kernel that maps each block of u to a pixel of `out`."""
    lanes = min(32, 1 << (factor - 1).bit_length())
    numbers = [np.int32(number) for number in (*u.shape, y0, x0, factor, *out.shape, lanes)]
    return (_blocks(out.size * lanes),), numbers


def levels(values: Array, out: Array, low: float, high: float) -> None:
    """out = round((values - low) / (high - low) * 254), clamped to 0 and 254; 255 where not finite.

    values: (py, px) float32; out: (py, px) uint8. With low == high: 127 at that value, 0 below, 254 above.
    """
    bounds = np.float64(low), np.float64(high)
    _launch_raster("to_levels", (_blocks(values.size),), values, out, np.int32(values.size), *bounds)


def window(u: Array, out: Array, y0: int, x0: int) -> None:
    """out (h, w) float64 = u[y0 : y0 + h, x0 : x0 + w]."""
    height, width = out.shape
    numbers = (u.shape[1], y0, x0, height, width)
    _launch_raster("copy_window", (_blocks(width), height), u, out, *map(np.int32, numbers))


def disc(u: Array, y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u (ny, nx) whose centre (i + 1/2, j + 1/2) lies within `radius` cells of (y, x) to `value`."""
    top, left, height, width = disc_square(u.shape, y, x, radius)
    if height < 1 or width < 1:
        return
    numbers = (u.shape[1], top, left, width)
    centre = np.float64(top + 0.5 - y), np.float64(left + 0.5 - x), np.float64(radius**2)
    _launch_raster("fill_disc", (_blocks(width), height), u, *map(np.int32, numbers), *centre, u.dtype.type(value))


def gather(source: Array, out: Array, num: int, den: int, y0: int, x0: int, fill: float) -> None:
    """out[i, j] = source[(i num + y0) / den, (j num + x0) / den] where both are whole and in source, else `fill`.

    Moves a picture: by whole pixels (num = den = 1), to every other pixel (den = 2), from every other one (num = 2).
    source, out: 2-D of one type, float32, float64 or int32, not overlapping; num, den: whole numbers from 1 on.
    """
    numbers = (*source.shape, out.shape[1], num, den, y0, x0)
    _launch_raster(
        "copy_meeting",
        (_blocks(out.shape[1]), out.shape[0]),
        source,
        out,
        *map(np.int32, numbers),
        source.dtype.type(fill),
    )


def fill(out: Array, value: float) -> None:
    """Set all elements of out (ny, nx), float32, float64 or int32, to `value`."""
    gather(out, out, 1, 1, -out.shape[0], 0, value)  # reads outside the array only


def _blocks(threads: int) -> int:
    return -(-threads // THREADS)


def _launch_raster(name: str, grid: tuple[int, ...], u: Array, *arguments: Any) -> None:
    """Run the kernel for u's type on (u, *arguments)."""
    _launch(name, u.dtype, grid, u, *arguments)


def _launch(name: str, dtype: np.dtype[Any] | None, grid: tuple[int, ...], first: Array, *others: Any) -> None:
    """Run a kernel on the GPU of its first argument; for a Numba array this is the current GPU."""
    numba = type(first).__module__.startswith("numba.")
    gpu = numba_gpu() if numba else first.device
    with nullcontext() if numba else gpu:
        _kernel(name, dtype, gpu.id, numba)(grid, (THREADS,), (first, *others))


@cache
def _kernel(name: str, dtype: np.dtype[Any] | None, _gpu: int, numba: bool) -> Any:
    """Return a kernel for the current GPU: of gpu_raster.cu for a dtype, of gpu_colour.cu without one."""
    source, defines = (COLOUR_SOURCE, {}) if dtype is None else (RASTER_SOURCE, {"REAL": REAL[dtype.name]})
    compiled = (compile_for_numba if numba else compile_cuda)(source, defines=defines)
    return compiled.get_function(name)


# -- numbers for colours


def logarithm(values: Array, out: Array) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    _launch("logarithm", None, (_blocks(out.size),), values, out, np.int32(out.size))


def histogram(values: Array, out: Array, low: float, high: float) -> None:
    """out int64 (bins,) = number of finite values in each of the equal bins of [low, high]; `high` is in the last one.

    values: float32 (py, px). Values outside are not counted. With low == high: values equal to it are counted in bin 0.
    """
    ny, nx = values.shape
    scale = out.size / (high - low) if low < high else 0.0
    limits = np.float64(low), np.float64(high), np.float64(scale)
    _launch("clear", None, (_blocks(out.size),), out, np.int32(out.size))
    grid = min(ny, COUNTERS), -(-out.size // BINS)
    _launch("histogram", None, grid, values, out, *map(np.int32, (ny, nx, out.size)), *limits)


def equalise(values: Array, out: Array, low: float, high: float, table: Array) -> None:
    """out = 254 times the share of values below this one, rounded; 255 where not finite.

    values: float32 (py, px); out: uint8 (py, px); table: float32 (bins + 1,), the share, 0 to 1, at the edges of the
    bins of [low, high], interpolated linearly in between and constant outside. With low == high: 127 at that value.
    """
    limits = np.float64(low), np.float64(high)
    sizes = np.int32(out.size), np.int32(table.size - 1)
    _launch("equalise", None, (_blocks(out.size),), values, out, sizes[0], *limits, table, sizes[1])


def mark(counts: Array, out: Array, y0: int, x0: int, factor: int, stride: int) -> None:
    """Mark pending pixels of an unfinished picture: out[i, j] = 254 where it is 255 and its block has a pending sample.

    The samples are every stride-th pixel of counts (ny, nx) in both directions; a sample is pending while its count is
    negative. The block of out[i, j] contains the factor x factor samples from (y0 + i factor, x0 + j factor), clipped
    at the edges. out: uint8 (py, px); values of 254 become 253.
    """
    numbers = (*counts.shape, *out.shape, y0, x0, factor, stride)
    _launch("mark", None, (_blocks(out.size),), counts, out, *map(np.int32, numbers))


def distance(values: Array, out: Array) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance lies between half and twice the estimate (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided if only one neighbour is finite, 0 in a direction without any. Slopes below float32's resolution,
    half its last digit per pixel, are replaced by it. NaN where the value or all its neighbours are not finite.
    """
    ny, nx = values.shape
    _launch("distance", None, (_blocks(nx), ny), values, out, np.int32(ny), np.int32(nx))


def blend(values: Array, sums: Array, hits: Array) -> None:
    """Add one sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

    values, sums: float32 (py, px); hits: int32 (py, px).
    """
    _launch("blend", None, (_blocks(values.size),), values, sums, hits, np.int32(values.size))


def resolve(sums: Array, hits: Array, samples: int, out: Array) -> None:
    """out = exp(sums / hits), the geometric mean, where at least half of `samples` samples are hits; else NaN.

    sums, out: float32 (py, px); hits: int32 (py, px).
    """
    _launch("resolve", None, (_blocks(out.size),), sums, hits, np.int32(samples), out, np.int32(out.size))
