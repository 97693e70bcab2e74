"""Diffusion in CUDA C, launched with CuPy: many steps a launch in registers, one step a launch, and the racing kernel.

The kernels are in gpu_steps.cu and gpu_cupy.cu; all use the stencil of stencil.cuh, so that their results have the same
bits. Launches only: nothing here allocates, waits or measures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.diffusion.edges import edge_code
from compute.labs.diffusion.gpu_steps import REAL, WARP, launcher, launches, tilings

SOURCE = Path(__file__).with_suffix(".cu")
TILE = 16  # cells a side of a block of the racing kernel, as in gpu_cupy.cu
RUN, WARPS = 2, 8  # rows a thread of a sweep takes, as in gpu_cupy.cu, and warps in a block, one below the other


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
        kernel(grid, (WARP, WARPS), (u, out, ny, nx, *arguments))

    return launch


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step, "racing": racing_step}
