"""Diffusion in WGSL for any GPU: many steps per launch in a tile, one step per launch, a racing kernel. float32 only.

All kernels are in gpu_wgpu.wgsl and round like cpu_numpy.py, so that the results are bit-identical to NumPy's in
float32. The functions only launch: they neither allocate, wait nor measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from compute.devices.devices import Array
from compute.devices.wgsl import Program, folded, launch
from compute.labs.diffusion.scheme import edge_code, launches

SOURCE = Path(__file__).with_suffix(".wgsl")
SWEEP, RUN = (32, 8), 4  # threads of a workgroup of a sweep in x and y, and cells per thread, one below the other
SIDE = 16  # cells per side of a workgroup of the racing kernel, as in gpu_wgpu.wgsl


@dataclass(frozen=True)
class Tile:
    """The tile that a workgroup loads for a launch of `steps` steps: width by (bands * rows) cells, with the halo."""

    steps: int
    width: int = 32
    bands: int = 8
    rows: int = 8

    @property
    def height(self) -> int:
        """Rows of the tile."""
        return self.bands * self.rows

    def grid(self, ny: int, nx: int) -> tuple[int, int]:
        """Return the workgroups in x and y that cover ny x nx cells."""
        return -(-nx // (self.width - 2 * self.steps)), -(-ny // (self.height - 2 * self.steps))


TILES = (Tile(4), Tile(2))  # most steps first; each size with its half, so that a launch can be split in two
MOST_STEPS = TILES[0].steps


@cache
def _program(tile: Tile = TILES[0]) -> Program:
    sizes = {"STEPS": tile.steps, "WIDTH": tile.width, "HEIGHT": tile.height, "BANDS": tile.bands, "ROWS": tile.rows}
    return Program(SOURCE, (("RUN", RUN), *sizes.items()), exact=1)


def step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32, any shape from 1 x 1. The result is written to `out`; u is unchanged after one step, and
    scratch for more. The result equals that of `one_step` bit for bit.
    """
    tiles = {tile.steps: tile for tile in TILES}
    for size in launches(steps, (*tiles, 1)):
        if size == 1:
            _sweep("one_step", u, out, r, edges)
        else:
            _launch("many_steps", tiles[size].grid(*u.shape), u, out, r, edges, tiles[size])
        u, out = out, u


def one_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but with one launch per step."""
    source, target = u, out
    for _ in range(steps):
        _sweep("one_step", source, target, r, edges)
        source, target = target, source
    if source is not out:
        _copy(source, out)


def racing_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but in place in `out` while neighbouring groups still read it: a race, wrong on purpose."""
    ny, nx = u.shape
    _copy(u, out)
    for _ in range(steps):
        _launch("racing_step", (-(-nx // SIDE), -(-ny // SIDE)), u, out, r, edges)


def laplacian(u: Array, out: Array, edges: str) -> None:
    """Write +lap(u) with unit spacing to out. u, out: (ny, nx) float32; ghost cells by `edges`."""
    _sweep("laplacian", u, out, 0.0, edges)


def _sweep(name: str, u: Array, out: Array, r: float, edges: str) -> None:
    ny, nx = u.shape
    _launch(name, (-(-nx // SWEEP[0]), -(-ny // (SWEEP[1] * RUN))), u, out, r, edges)


def _copy(source: Array, out: Array) -> None:
    _launch("copy", folded(-(-source.size // 256)), source, out, 0.0, "periodic")


def _launch(
    name: str, grid: tuple[int, int], u: Array, out: Array, r: float, edges: str, tile: Tile = TILES[0]
) -> None:
    ny, nx = map(np.int32, u.shape)
    launch(_program(tile), name, grid, (u, out), ny, nx, np.int32(edge_code(edges)), np.float32(r))


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step, "racing": racing_step}
