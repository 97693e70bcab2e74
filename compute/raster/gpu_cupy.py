"""From a field to what the screen needs, in CUDA C launched with CuPy: the same functions as cpu_numpy.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.raster.cpu_numpy import WORK_SHAPE

SOURCE = Path(__file__).with_suffix(".cu")
REAL = {"float32": "float", "float64": "double", "int32": "int"}
THREADS = 256  # a block, as in gpu_cupy.cu


def survey(u: Array, work: Array, out: Array) -> None:
    """out = [minimum, maximum, sum, number of cells that are not finite] of u (ny, nx), float32 or float64.

    work: float64 WORK_SHAPE scratch. out: float64 (4,). Minimum, maximum and sum look at finite cells only; with none
    they are +inf, -inf and 0. The sum is accumulated in float64, in an order that depends on the shape alone.
    """
    parts = min(WORK_SHAPE[0], _blocks(u.size))
    _launch("survey_parts", (parts,), u, work, np.int64(u.size))
    _launch("survey_total", (1,), u, out, np.int32(parts), source=work)


def reduce(u: Array, out: Array, y0: int, x0: int, factor: int) -> None:
    """out[i, j] = mean of the factor x factor block of u at (y0 + i factor, x0 + j factor), clipped at u's edges.

    u: (ny, nx) float32 or float64; out: (py, px) float32, every block holds at least one cell. The mean is taken in
    float64; a cell that is not finite makes its block not finite.
    """
    lanes = min(32, 1 << (factor - 1).bit_length())
    numbers = (*u.shape, y0, x0, factor, *out.shape, lanes)
    _launch("block_means", (_blocks(out.size * lanes),), u, out, *map(np.int32, numbers))


def levels(values: Array, out: Array, low: float, high: float) -> None:
    """out = round((values - low) / (high - low) * 254), saturating at 0 and 254; 255 where not finite.

    values: (py, px) float32; out: (py, px) uint8. With low == high: 127 at that value, 0 below, 254 above.
    """
    bounds = np.float64(low), np.float64(high)
    _launch("to_levels", (_blocks(values.size),), values, out, np.int32(values.size), *bounds)


def window(u: Array, out: Array, y0: int, x0: int) -> None:
    """out (h, w) float64 = u[y0 : y0 + h, x0 : x0 + w]."""
    height, width = out.shape
    numbers = (u.shape[1], y0, x0, height, width)
    _launch("copy_window", (_blocks(width), height), u, out, *map(np.int32, numbers))


def disc(u: Array, y: float, x: float, radius: float, value: float) -> None:
    """Set the cells of u (ny, nx) whose centre (i + 1/2, j + 1/2) lies within `radius` cells of (y, x) to `value`."""
    top, left = max(int(y - radius), 0), max(int(x - radius), 0)
    height = min(int(max(y + radius, -1)) + 1, u.shape[0]) - top
    width = min(int(max(x + radius, -1)) + 1, u.shape[1]) - left
    if height < 1 or width < 1:
        return
    numbers = (u.shape[1], top, left, width)
    centre = np.float64(top + 0.5 - y), np.float64(left + 0.5 - x), np.float64(radius**2)
    _launch("fill_disc", (_blocks(width), height), u, *map(np.int32, numbers), *centre, u.dtype.type(value))


def gather(source: Array, out: Array, num: int, den: int, y0: int, x0: int, fill: float) -> None:
    """out[i, j] = source[(i num + y0) / den, (j num + x0) / den] where both are whole and in source, else `fill`.

    Moves a picture: by whole pixels (num = den = 1), to every other pixel (den = 2), from every other one (num = 2).
    source, out: 2-D of one type, float32, float64 or int32, not overlapping; num, den: whole numbers from 1 on.
    """
    numbers = (*source.shape, out.shape[1], num, den, y0, x0)
    _launch(
        "copy_meeting",
        (_blocks(out.shape[1]), out.shape[0]),
        source,
        out,
        *map(np.int32, numbers),
        source.dtype.type(fill),
    )


def _blocks(threads: int) -> int:
    return -(-threads // THREADS)


def _launch(name: str, grid: tuple[int, ...], u: Array, *arguments: Any, source: Array | None = None) -> None:
    """Run the kernel for u's type and GPU on (source or u, *arguments)."""
    with u.device:
        kernel = _kernel(name, u.dtype.name, u.device.id)
        kernel(grid, (THREADS,), (u if source is None else source, *arguments))


@cache
def _kernel(name: str, dtype: str, device: int) -> Any:
    """The kernel for the current GPU, which is number `device`."""
    return compile_cuda(SOURCE, defines={"REAL": REAL[dtype]}).get_function(name)
