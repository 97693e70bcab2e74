"""From a field of numbers to one that can be coloured, in CUDA C launched with CuPy: the functions of cpu_numpy.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array

SOURCE = Path(__file__).with_suffix(".cu")
THREADS = 256  # a block, as in gpu_cupy.cu
BINS = 2048  # of a histogram that a block counts at once, as there
COUNTERS = 256  # blocks that count, each for every 256th row


def logarithm(values: Array, out: Array) -> None:
    """out = log2(values) where values > 0, else NaN; both float32 (py, px)."""
    _launch("logarithm", (_blocks(out.size),), values, out, np.int32(out.size))


def histogram(values: Array, out: Array, low: float, high: float) -> None:
    """out int64 (bins,) = how many finite values lie in each of the equal bins of [low, high], `high` in the last.

    values: float32 (py, px). What lies outside is not counted. With low == high: those of that value, in bin 0.
    """
    ny, nx = values.shape
    scale = out.size / (high - low) if low < high else 0.0
    limits = np.float64(low), np.float64(high), np.float64(scale)
    _launch("clear", (_blocks(out.size),), out, np.int32(out.size))
    grid = min(ny, COUNTERS), -(-out.size // BINS)
    _launch("histogram", grid, values, out, *map(np.int32, (ny, nx, out.size)), *limits)


def equalise(values: Array, out: Array, low: float, high: float, table: Array) -> None:
    """out = 254 times the share of values below this one, rounded; 255 where not finite.

    values: float32 (py, px); out: uint8 (py, px); table: float32 (bins + 1,), the share, 0 to 1, at the edges of the
    bins of [low, high], interpolated linearly between them and constant outside. With low == high: 127 at that value.
    """
    limits = np.float64(low), np.float64(high)
    _launch("equalise", (_blocks(out.size),), values, out, np.int32(out.size), *limits, table, np.int32(table.size - 1))


def distance(values: Array, out: Array) -> None:
    """out = 1 / (ln 2 |gradient of values|): for smooth counts an estimate of the distance to the set, in pixels.

    The count nu belongs to the potential G = ln 2 2^(1 - nu), and the estimate is G / |grad G|; close to the set the
    distance itself lies between half and twice that (Koebe's theorem). values, out: float32 (py, px). Differences are
    central, one-sided where only one neighbour is finite, 0 in a direction with none. Smaller slopes than float32 can
    tell, half its last digit a pixel, count as that. NaN where the value or all its neighbours are not finite.
    """
    ny, nx = values.shape
    _launch("distance", (_blocks(nx), ny), values, out, np.int32(ny), np.int32(nx))


def blend(values: Array, sums: Array, hits: Array) -> None:
    """Add a sample of each pixel: where values is finite and > 0, sums += ln(values) and hits += 1.

    values, sums: float32 (py, px); hits: int32 (py, px).
    """
    _launch("blend", (_blocks(values.size),), values, sums, hits, np.int32(values.size))


def resolve(sums: Array, hits: Array, samples: int, out: Array) -> None:
    """out = exp(sums / hits), the geometric mean, where at least half of `samples` samples are hits; else NaN.

    sums, out: float32 (py, px); hits: int32 (py, px).
    """
    _launch("resolve", (_blocks(out.size),), sums, hits, np.int32(samples), out, np.int32(out.size))


def _blocks(threads: int) -> int:
    return -(-threads // THREADS)


def _launch(name: str, grid: tuple[int, ...], first: Array, *others: Any) -> None:
    """Run a kernel on the GPU on which its first argument lies."""
    with first.device:
        _kernel(name, first.device.id)(grid, (THREADS,), (first, *others))


@cache
def _kernel(name: str, device: int) -> Any:
    """The kernel for the current GPU, which is number `device`."""
    return compile_cuda(SOURCE, defines={}).get_function(name)
