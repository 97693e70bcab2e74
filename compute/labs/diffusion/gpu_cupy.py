"""Diffusion in CUDA C, launched with CuPy: T steps a launch in registers, one step a launch, and the racing kernel.

The kernels and what they gave are in gpu_cupy.cu. Here is decided how many steps each launch takes (`launches`) and
how the grid is cut into strips (`Tiling`); `tune` measures a few tilings for one grid, and nothing else times anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.diffusion.edges import edge_code

SOURCE = Path(__file__).with_suffix(".cu")
REAL = {"float32": "float", "float64": "double"}
TILE = 16  # cells a side of a block of the racing kernel, as in gpu_cupy.cu
WARP = 32
RUN, SWEEP_ROWS = 4, 8  # rows a thread of the one-step kernel walks down, as in gpu_cupy.cu, and threads in y


@dataclass(frozen=True)
class Tiling:
    """How a many-step launch cuts the grid: `steps` in one launch, `columns` a lane, `blocks` (warps) an SM holds.

    `share` of those blocks is used for the grid: fewer, taller strips repeat fewer rows at their ends.
    """

    steps: int
    columns: int
    blocks: int
    share: float = 1.0

    @property
    def width(self) -> int:
        """Columns a warp writes: what it reads less the apron on both sides, which is a multiple of `columns`."""
        apron = -(-self.steps // self.columns) * self.columns
        return WARP * self.columns - 2 * apron

    def rows(self, ny: int, nx: int, multiprocessors: int) -> int:
        """Rows a warp writes, so that all warps run at once."""
        strips = -(-nx // self.width)
        parts = max(1, int(multiprocessors * self.blocks * self.share) // strips)
        return -(-ny // parts)


# Steps a launch, most first, for each number type; the first is what a long run takes. See the table in gpu_cupy.cu.
TILINGS = {
    "float32": (Tiling(12, 4, 8), Tiling(8, 4, 12), Tiling(4, 4, 16), Tiling(2, 4, 16)),
    "float64": (Tiling(8, 2, 12), Tiling(4, 2, 16), Tiling(2, 2, 16)),
}
_TUNED: dict[tuple[int, tuple[int, ...], str], tuple[Tiling, ...]] = {}  # by GPU, shape and number type


def launches(steps: int, sizes: tuple[int, ...]) -> list[int]:
    """Cut `steps` >= 1 into launches of `sizes` (descending, with half of each, and 1): few, and an odd number of them.

    Odd, because launches alternate between the two arrays and the last one must write the second.
    """
    plan = []
    for size in sizes:
        plan += [size] * (steps // size)
        steps %= size
    if len(plan) % 2 == 0:
        split = next(size for size in reversed(plan) if size > 1)
        larger = max(size for size in sizes if size <= split - split // 2)
        plan.remove(split)
        plan += [larger, split - larger]
    return sorted(plan, reverse=True)


def step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. `out` holds the result; u is left alone
    for one step and is scratch for more. Bit for bit what `one_step` gives.
    """
    tilings = {tiling.steps: tiling for tiling in tilings_for(u)}
    with u.device:
        for size in launches(steps, (*tilings, 1)):
            if size == 1:
                _sweep("one_step", u, out, u.dtype.type(r), np.int32(edge_code(edges)))
            else:
                _many_steps(u, out, r, edges, tilings[size])
            u, out = out, u


def one_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """As `step`, but one launch for each step."""
    source, target = u, out
    with u.device:
        for _ in range(steps):
            _sweep("one_step", source, target, u.dtype.type(r), np.int32(edge_code(edges)))
            source, target = target, source
        if source is not out:
            out[...] = source


def racing_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """As `step`, but in place in `out` while neighbouring blocks still read it: a race, wrong on purpose."""
    ny, nx = out.shape
    grid = (-(-nx // TILE), -(-ny // TILE))
    with u.device:
        kernel = _kernel("racing_step", out.dtype.name, out.device.id)
        out[...] = u
        for _ in range(steps):
            kernel(grid, (TILE, TILE), (out, np.int32(ny), np.int32(nx), out.dtype.type(r), np.int32(edge_code(edges))))


def laplacian(u: Array, out: Array, edges: str) -> None:
    """out = +lap(u), unit spacing. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    with u.device:
        _sweep("laplacian", u, out, np.int32(edge_code(edges)))


def tilings_for(u: Array) -> tuple[Tiling, ...]:
    """The tilings `step` uses for arrays like u: those `tune` found, else the table's."""
    return _TUNED.get((u.device.id, u.shape, u.dtype.name), TILINGS[u.dtype.name])


def _many_steps(u: Array, out: Array, r: float, edges: str, tiling: Tiling) -> None:
    ny, nx = (np.int32(n) for n in u.shape)
    rows = tiling.rows(u.shape[0], u.shape[1], _multiprocessors(u.device.id))
    warps = -(-u.shape[1] // tiling.width) * -(-u.shape[0] // rows)
    defines = {"STEPS": tiling.steps, "COLUMNS": tiling.columns, "BLOCKS": tiling.blocks}
    kernel = _kernel("many_steps", u.dtype.name, u.device.id, **defines)
    kernel((warps,), (WARP,), (u, out, ny, nx, u.dtype.type(r), np.int32(edge_code(edges)), np.int32(rows)))


def _sweep(name: str, u: Array, out: Array, *arguments: Any) -> None:
    """One pass over the grid: a thread takes 16 bytes of a row, RUN rows down."""
    ny, nx = (np.int32(n) for n in u.shape)
    grid = (-(-u.shape[1] * u.itemsize // (WARP * 16)), -(-u.shape[0] // (SWEEP_ROWS * RUN)))
    _kernel(name, u.dtype.name, u.device.id)(grid, (WARP, SWEEP_ROWS), (u, out, ny, nx, *arguments))


@cache
def _multiprocessors(index: int) -> int:
    import cupy

    return int(cupy.cuda.Device(index).attributes["MultiProcessorCount"])


@cache
def _kernel(name: str, dtype: str, device: int, **defines: int) -> Any:
    return compile_cuda(SOURCE, defines={"REAL": REAL[dtype], **defines}).get_function(name)


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step, "racing": racing_step}
