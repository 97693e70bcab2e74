"""Diffusion in CUDA C, launched with CuPy: many steps per launch in registers, one step per launch, a racing kernel.

The kernels are in gpu_steps.cu and gpu_cupy.cu; all use the stencil of stencil.cuh, so their results are bit-identical.
The functions that every backend exports only launch: they neither allocate, wait nor measure. A Tiling specifies the
steps per launch of gpu_steps.cu and how the launch cuts the grid. It is chosen by grid size, as measured on an H200, or
by `tune`, which measures several on this GPU and keeps the fastest for this process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda
from compute.devices.devices import Array, Device
from compute.labs.diffusion.scheme import edge_code, launches

STEPS_SOURCE = Path(__file__).with_name("gpu_steps.cu")
REAL = {"float32": "float", "float64": "double"}
WARP = 32
LARGE = {"float32": 2**23, "float64": 2**27}  # cells from which a separate loop for inner strips pays off
TALL = 400  # largest number of rows per warp on large grids: more, shorter warps balance the load
ALONE = 1.05  # extra time of a single wave of warps relative to its rows: no work follows where a warp ends

SOURCE = Path(__file__).with_suffix(".cu")
TILE = 16  # cells per side of a block of the racing kernel, as in gpu_cupy.cu
RUN, WARPS = 2, 8  # rows per thread of a sweep, as in gpu_cupy.cu, and warps of a block, stacked in y


@dataclass(frozen=True)
class Tiling:
    """How a launch of `steps` steps cuts the grid into strips of `columns` cells per lane, one warp each.

    `blocks` is the number of warps that an SM can run (it limits their registers); the grid is cut so that each SM gets
    `warps` of them. `inner` compiles a separate loop for strips away from the edges: faster, but more code.
    """

    steps: int
    columns: int
    blocks: int
    warps: int
    inner: bool = False

    @property
    def width(self) -> int:
        """Columns that a warp writes: those it reads, less the columns lost on either side in `steps` steps."""
        lost = -(-self.steps // self.columns) * self.columns
        return WARP * self.columns - 2 * lost

    def cut(self, ny: int, nx: int, multiprocessors: int, concurrent: int = 0) -> tuple[int, int]:
        """Return (number of warps, rows written per warp) for a grid of ny x nx cells.

        All warps run concurrently, in one wave; with `inner`, in as many waves as TALL requires or one more, whichever
        reads fewer rows. concurrent: warps of each strip that belong to a concurrent launch.
        """
        strips = -(-nx // self.width)
        wave = multiprocessors * self.warps

        def rows_of(waves: int) -> int:
            """Return the rows that each warp writes."""
            return -(-ny // max(1, waves * wave // strips - concurrent))

        def cost(waves: int) -> float:
            """Return the rows that are read one after the other."""
            return waves * (rows_of(waves) + 2 * self.steps) * (ALONE if waves == 1 else 1)

        waves = 1
        if self.inner:
            least = -(-strips * -(-ny // TALL) // wave)
            waves = min((least, least + 1), key=cost)
        rows = rows_of(waves)
        return strips * -(-ny // rows), rows

    def defines(self, dtype: str) -> dict[str, int | str]:
        """Return the macros for the compilation of gpu_steps.cu."""
        sizes = {"STEPS": self.steps, "COLUMNS": self.columns, "BLOCKS": self.blocks}
        return {"REAL": REAL[dtype], "INNER": int(self.inner), **sizes}


# Most steps first; each size with its half, so that a launch can be split in two.
TILINGS = {
    "float32": (Tiling(8, 4, 12, 8), Tiling(4, 4, 16, 12), Tiling(2, 4, 16, 12)),
    "float64": (Tiling(8, 2, 12, 12), Tiling(4, 2, 16, 12), Tiling(2, 2, 16, 12)),
}
MOST_STEPS = max(tiling.steps for found in TILINGS.values() for tiling in found)
MEASURED = 96  # steps per timing: a multiple of every candidate's
TUNED: dict[tuple[int, tuple[int, int], str], Tiling] = {}  # by GPU, shape and dtype: the tiling with most steps


def tilings(shape: tuple[int, int], dtype: str, device: int) -> tuple[Tiling, ...]:
    """Return the tilings for a grid, most steps first: the result of `tune`, otherwise by grid size."""
    first, *others = TILINGS[dtype]
    if shape[0] * shape[1] >= LARGE[dtype]:
        first = replace(first, inner=True, warps=first.blocks)
    return TUNED.get((device, shape, dtype), first), *others


def candidates(dtype: str) -> tuple[Tiling, ...]:
    """Return the tilings that `tune` measures."""
    first = TILINGS[dtype][0]
    small = [replace(first, warps=warps) for warps in (4, 8, first.blocks)]
    return *small, replace(first, warps=first.blocks, inner=True)


def tune(device: Device, ny: int, nx: int, dtype: str, repeat: int = 7) -> Tiling:
    """Measure the candidates for ny x nx cells of `dtype` on a Cuda device, and use the fastest in this process.

    Allocate two grids and run some thousand steps after compiling. Call it before anything is timed; it does not change
    the results, which are bit-identical. Return the chosen tiling.
    """
    field = np.random.default_rng(0).random((ny, nx)).astype(dtype)  # zeros would run faster than any real field
    u, out = device.upload(field), device.allocate((ny, nx), dtype)
    seconds = {tiling: _measure(device, u, out, tiling, repeat) for tiling in candidates(dtype)}
    best = min(seconds, key=lambda tiling: seconds[tiling])
    TUNED[u.device.id, u.shape, dtype] = best
    return best


def _measure(device: Device, u: Array, out: Array, tiling: Tiling, repeat: int) -> float:
    """Return the median device seconds of MEASURED steps, after a first round that compiles and warms up."""
    launch = launcher(u.shape, u.dtype.name, u.device.id, tiling)
    arguments = (u.dtype.type(0.2), np.int32(edge_code("zero-flux")))
    seconds = []
    with device.lock:
        for _ in range(repeat + 1):
            with device.stopwatch() as watch:
                for _ in range(MEASURED // tiling.steps):
                    launch(u, out, *arguments)
                    u, out = out, u
            seconds.append(watch.seconds())
    return float(np.median(seconds[1:]))


@cache
def launcher(shape: tuple[int, int], dtype: str, device: int, tiling: Tiling) -> Callable[..., None]:
    """Return a function (u, out, r, edge code) that launches tiling.steps steps for such arrays on that GPU."""
    warps, rows = tiling.cut(shape[0], shape[1], multiprocessors(device))
    kernel = compile_cuda(STEPS_SOURCE, defines=tiling.defines(dtype)).get_function("many_steps")
    ny, nx, height = (np.int32(number) for number in (*shape, rows))

    def launch(u: Array, out: Array, r: np.floating[Any], edges: np.int32) -> None:
        """Launch the steps from `u` into `out`."""
        kernel((warps,), (WARP,), (u, out, ny, nx, r, edges, height))

    return launch


@cache
def multiprocessors(device: int) -> int:
    """Return the number of SMs of a GPU."""
    import cupy

    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


# -- the functions of every backend


def step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. The result is written to `out`; u is
    unchanged after one step, and scratch for more. The result equals that of `one_step` bit for bit.
    """
    like = u.shape, u.dtype.name, u.device.id
    arguments = u.dtype.type(r), np.int32(edge_code(edges))
    with u.device:
        choice = {tiling.steps: launcher(*like, tiling) for tiling in tilings(*like)} | {1: _sweep("one_step", *like)}
        for size in launches(steps, tuple(choice)):
            choice[size](u, out, *arguments)
            u, out = out, u


def one_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but with one launch per step."""
    arguments = u.dtype.type(r), np.int32(edge_code(edges))
    source, target = u, out
    with u.device:
        sweep = _sweep("one_step", u.shape, u.dtype.name, u.device.id)
        for _ in range(steps):
            sweep(source, target, *arguments)
            source, target = target, source
        if source is not out:
            out[...] = source


def racing_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but in place in `out` while neighbouring blocks still read it: a race, wrong on purpose."""
    ny, nx = out.shape
    grid = -(-nx // TILE), -(-ny // TILE)
    arguments = (out, np.int32(ny), np.int32(nx), out.dtype.type(r), np.int32(edge_code(edges)))
    with u.device:
        kernel = compile_cuda(SOURCE, defines={"REAL": REAL[out.dtype.name]}).get_function("racing_step")
        out[...] = u
        for _ in range(steps):
            kernel(grid, (TILE, TILE), arguments)


def laplacian(u: Array, out: Array, edges: str) -> None:
    """Write +lap(u) with unit spacing to out. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    with u.device:
        _sweep("laplacian", u.shape, u.dtype.name, u.device.id)(u, out, np.int32(edge_code(edges)))


@cache
def _sweep(name: str, shape: tuple[int, int], dtype: str, device: int) -> Callable[..., None]:
    """Return a function (u, out, ...) that launches a pass over such arrays; compiled for the current GPU, `device`.

    A thread computes 16 bytes of RUN rows.
    """
    grid = -(-shape[1] * np.dtype(dtype).itemsize // (WARP * 16)), -(-shape[0] // (WARPS * RUN))
    ny, nx = (np.int32(number) for number in shape)
    kernel = compile_cuda(SOURCE, defines={"REAL": REAL[dtype]}).get_function(name)

    def launch(u: Array, out: Array, *arguments: Any) -> None:
        """Launch the pass from `u` into `out`."""
        kernel(grid, (WARP, WARPS), (u, out, ny, nx, *arguments))

    return launch


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step, "racing": racing_step}
