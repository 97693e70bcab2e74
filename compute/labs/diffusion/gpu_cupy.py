"""Diffusion in CUDA C, launched with CuPy: many steps a launch in registers, one step a launch, and the racing kernel.

The kernels are in gpu_steps.cu and gpu_cupy.cu; all use the stencil of stencil.cuh, so that their results have the same
bits. Launches only: the functions that every backend has neither allocate, wait nor measure. A Tiling says how many
steps a launch of gpu_steps.cu takes and how it cuts the grid: by size, as measured on an H200, or as `tune` finds on
this GPU, which measures a few and keeps the fastest for this process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array, Device
from compute.labs.diffusion.scheme import edge_code

STEPS_SOURCE = Path(__file__).with_name("gpu_steps.cu")
REAL = {"float32": "float", "float64": "double"}
WARP = 32
LARGE = {"float32": 2**23, "float64": 2**27}  # cells from which a loop of its own for inner strips pays off
TALL = 400  # rows a warp writes at most on large grids: more, shorter warps even out
ALONE = 1.05  # what a single wave of warps takes more than its rows say: nothing follows where one ends

SOURCE = Path(__file__).with_suffix(".cu")
TILE = 16  # cells a side of a block of the racing kernel, as in gpu_cupy.cu
RUN, WARPS = 2, 8  # rows a thread of a sweep takes, as in gpu_cupy.cu, and warps in a block, one below the other


@dataclass(frozen=True)
class Tiling:
    """How a launch of `steps` steps cuts the grid into strips of `columns` cells a lane, one warp each.

    An SM can hold `blocks` warps (a bound on their registers); the grid is cut so that it gets `warps` of them. `inner`
    gives strips away from the edges a loop of their own: faster once it runs, but more code.
    """

    steps: int
    columns: int
    blocks: int
    warps: int
    inner: bool = False

    @property
    def width(self) -> int:
        """Columns a warp writes: what it reads, less the columns lost on either side in `steps` steps."""
        lost = -(-self.steps // self.columns) * self.columns
        return WARP * self.columns - 2 * lost

    def cut(self, ny: int, nx: int, multiprocessors: int, beside: int = 0) -> tuple[int, int]:
        """(warps in all, rows each writes) for a grid of ny x nx cells.

        All run at once, in one wave; with `inner` in as many as TALL asks for or one more, whichever reads fewer rows.
        beside: warps of each strip that another launch brings along.
        """
        strips = -(-nx // self.width)
        wave = multiprocessors * self.warps

        def rows_of(waves: int) -> int:
            """Rows that each warp writes."""
            return -(-ny // max(1, waves * wave // strips - beside))

        def cost(waves: int) -> float:
            """Rows that are read one after the other."""
            return waves * (rows_of(waves) + 2 * self.steps) * (ALONE if waves == 1 else 1)

        waves = 1
        if self.inner:
            least = -(-strips * -(-ny // TALL) // wave)
            waves = min((least, least + 1), key=cost)
        rows = rows_of(waves)
        return strips * -(-ny // rows), rows

    def defines(self, dtype: str) -> dict[str, int | str]:
        """What gpu_steps.cu is compiled with."""
        sizes = {"STEPS": self.steps, "COLUMNS": self.columns, "BLOCKS": self.blocks}
        return {"REAL": REAL[dtype], "INNER": int(self.inner), **sizes}


# The most steps first; each size with its half, so that a launch can be split in two.
TILINGS = {
    "float32": (Tiling(8, 4, 12, 8), Tiling(4, 4, 16, 12), Tiling(2, 4, 16, 12)),
    "float64": (Tiling(8, 2, 12, 12), Tiling(4, 2, 16, 12), Tiling(2, 2, 16, 12)),
}
MOST_STEPS = max(tiling.steps for found in TILINGS.values() for tiling in found)
MEASURED = 96  # steps timed at once: a multiple of every candidate's
_TUNED: dict[tuple[int, tuple[int, int], str], Tiling] = {}  # by GPU, shape and dtype: the tiling for most steps


def tilings(shape: tuple[int, int], dtype: str, device: int) -> tuple[Tiling, ...]:
    """The tilings for a grid, most steps first: what `tune` found, otherwise by its size."""
    first, *others = TILINGS[dtype]
    if shape[0] * shape[1] >= LARGE[dtype]:
        first = replace(first, inner=True, warps=first.blocks)
    return _TUNED.get((device, shape, dtype), first), *others


def candidates(dtype: str) -> tuple[Tiling, ...]:
    """What `tune` tries."""
    first = TILINGS[dtype][0]
    small = [replace(first, warps=warps) for warps in (4, 8, first.blocks)]
    return *small, replace(first, warps=first.blocks, inner=True)


def tune(device: Device, ny: int, nx: int, dtype: str, repeat: int = 7) -> Tiling:
    """Measure the candidates for ny x nx cells of `dtype` on a Cuda device and use the fastest in this process.

    Allocates two grids and takes some thousand steps after compiling. Call it before anything is timed; results do not
    depend on it, bit for bit. Returns the tiling chosen.
    """
    field = np.random.default_rng(0).random((ny, nx)).astype(dtype)  # zeros would run faster than any real field
    u, out = device.upload(field), device.allocate((ny, nx), dtype)
    seconds = {tiling: _measure(device, u, out, tiling, repeat) for tiling in candidates(dtype)}
    best = min(seconds, key=lambda tiling: seconds[tiling])
    _TUNED[u.device.id, u.shape, dtype] = best
    return best


def _measure(device: Device, u: Array, out: Array, tiling: Tiling, repeat: int) -> float:
    """Median device seconds of MEASURED steps, after a first round to compile and warm up."""
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


def launches(steps: int, sizes: tuple[int, ...]) -> list[int]:
    """Cut `steps` >= 1 into launches of `sizes` (descending to 1, each a sum of two smaller): few, and an odd number.

    Odd, because launches alternate between two arrays and the last one must write the second.
    """
    plan = []
    for size in sizes:
        plan += [size] * (steps // size)
        steps %= size
    if len(plan) % 2 == 0:
        split = min(size for size in plan if size > 1)
        larger = next(size for size in sizes if size < split and split - size in sizes)
        plan.remove(split)
        plan += [larger, split - larger]
    return sorted(plan, reverse=True)


@cache
def launcher(shape: tuple[int, int], dtype: str, device: int, tiling: Tiling) -> Callable[..., None]:
    """A function (u, out, r, edge code) that launches tiling.steps steps for arrays of that shape on that GPU."""
    warps, rows = tiling.cut(shape[0], shape[1], multiprocessors(device))
    kernel = compile_cuda(STEPS_SOURCE, defines=tiling.defines(dtype)).get_function("many_steps")
    ny, nx, height = (np.int32(number) for number in (*shape, rows))

    def launch(u: Array, out: Array, r: np.floating[Any], edges: np.int32) -> None:
        """Take the steps from `u` into `out`."""
        kernel((warps,), (WARP,), (u, out, ny, nx, r, edges, height))

    return launch


@cache
def multiprocessors(device: int) -> int:
    """How many SMs a GPU has."""
    import cupy

    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


# -- the functions of every backend


def step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. `out` holds the result; u is left alone
    for one step and is scratch for more. Bit for bit what `one_step` gives.
    """
    like = u.shape, u.dtype.name, u.device.id
    arguments = u.dtype.type(r), np.int32(edge_code(edges))
    with u.device:
        choice = {tiling.steps: launcher(*like, tiling) for tiling in tilings(*like)} | {1: _sweep("one_step", *like)}
        for size in launches(steps, tuple(choice)):
            choice[size](u, out, *arguments)
            u, out = out, u


def one_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """As `step`, but one launch for each step."""
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
    """As `step`, but in place in `out` while neighbouring blocks still read it: a race, wrong on purpose."""
    ny, nx = out.shape
    grid = -(-nx // TILE), -(-ny // TILE)
    arguments = (out, np.int32(ny), np.int32(nx), out.dtype.type(r), np.int32(edge_code(edges)))
    with u.device:
        kernel = compile_cuda(SOURCE, defines={"REAL": REAL[out.dtype.name]}).get_function("racing_step")
        out[...] = u
        for _ in range(steps):
            kernel(grid, (TILE, TILE), arguments)


def laplacian(u: Array, out: Array, edges: str) -> None:
    """out = +lap(u), unit spacing. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    with u.device:
        _sweep("laplacian", u.shape, u.dtype.name, u.device.id)(u, out, np.int32(edge_code(edges)))


@cache
def _sweep(name: str, shape: tuple[int, int], dtype: str, device: int) -> Callable[..., None]:
    """A function (u, out, ...) that launches one pass over such arrays; compiled for the current GPU, `device`.

    A thread takes 16 bytes of RUN rows.
    """
    grid = -(-shape[1] * np.dtype(dtype).itemsize // (WARP * 16)), -(-shape[0] // (WARPS * RUN))
    ny, nx = (np.int32(number) for number in shape)
    kernel = compile_cuda(SOURCE, defines={"REAL": REAL[dtype]}).get_function(name)

    def launch(u: Array, out: Array, *arguments: Any) -> None:
        """Launch it from `u` into `out`."""
        kernel(grid, (WARP, WARPS), (u, out, ny, nx, *arguments))

    return launch


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step, "racing": racing_step}
