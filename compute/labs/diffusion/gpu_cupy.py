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
RUN, WARPS = 4, 8  # rows a thread of a sweep walks down, as in gpu_cupy.cu, and warps in a block, one below the other


def step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. `out` holds the result; u is left alone
    for one step and is scratch for more. Bit for bit what `one_step` gives.
    """
    choice = {tiling.steps: tiling for tiling in tilings(u.shape, u.dtype.name, u.device.id)}
    arguments = u.dtype.type(r), np.int32(edge_code(edges))
    with u.device:
        for size in launches(steps, (*choice, 1)):
            if size == 1:
                _sweep("one_step", u, out, *arguments)
            else:
                launcher(u.shape, u.dtype.name, u.device.id, choice[size])(u, out, *arguments)
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
    arguments = (out, np.int32(ny), np.int32(nx), out.dtype.type(r), np.int32(edge_code(edges)))
    with u.device:
        kernel = _kernel("racing_step", out.dtype.name, out.device.id)
        out[...] = u
        for _ in range(steps):
            kernel((-(-nx // TILE), -(-ny // TILE)), (TILE, TILE), arguments)


def laplacian(u: Array, out: Array, edges: str) -> None:
    """out = +lap(u), unit spacing. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    with u.device:
        _sweep("laplacian", u, out, np.int32(edge_code(edges)))


def _sweep(name: str, u: Array, out: Array, *arguments: Any) -> None:
    """One pass over the grid: a thread takes 16 bytes of a row, and RUN rows."""
    ny, nx = u.shape
    grid = (-(-nx * u.itemsize // (WARP * 16)), -(-ny // (WARPS * RUN)))
    kernel = _kernel(name, u.dtype.name, u.device.id)
    kernel(grid, (WARP, WARPS), (u, out, np.int32(ny), np.int32(nx), *arguments))


@cache
def _kernel(name: str, dtype: str, device: int) -> Any:
    """The kernel for the current GPU, which is number `device`."""
    return compile_cuda(SOURCE, defines={"REAL": REAL[dtype]}).get_function(name)


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step, "racing": racing_step}
