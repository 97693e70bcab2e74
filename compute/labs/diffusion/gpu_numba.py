"""Diffusion in Numba-CUDA: a tile of the grid in shared memory, one step per launch, and a racing kernel.

Also runs in Numba's CUDA simulator. Constants are passed as arguments of the field's type: a literal 4 would promote
float32 arithmetic to float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from compute.devices.devices import Array
from compute.devices.gpu_numba_kernel import kernel
from compute.labs.diffusion.scheme import PERIODIC, ZERO_DIRICHLET, edge_code

WIDTH, ROWS, DEPTH = 32, 8, 4  # threads of a block in x and y, and cells of the tile per thread, stacked in y
HEIGHT = ROWS * DEPTH
TILE = (HEIGHT + 2, WIDTH + 2)  # Numba requires names as shapes of shared arrays
SIDE = 16  # cells per side of a block of the racing kernel
RACING_TILE = (SIDE + 2, SIDE + 2)
cuda: Any = None  # numba.cuda, set when the first kernel is compiled


def step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. The result is written to `out`; u is
    unchanged after one step, and scratch for more.
    """
    if steps % 2 == 0:  # an even number of launches ends in the first array: start in out
        out.copy_to_device(u)
        u, out = out, u
    for _ in range(steps):
        _tile(u, out, r, edges, False)
        u, out = out, u


def racing_step(u: Array, out: Array, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but in place in `out` while neighbouring blocks still read it: a race, wrong on purpose."""
    real = u.dtype.type
    grid = -(-u.shape[1] // SIDE), -(-u.shape[0] // SIDE)
    out.copy_to_device(u)
    for _ in range(steps):
        kernel(_racing_tile)[grid, (SIDE, SIDE)](out, real(r), real(4), real(0), edge_code(edges))


def laplacian(u: Array, out: Array, edges: str) -> None:
    """Write +lap(u) with unit spacing to out. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    _tile(u, out, 1.0, edges, True)


def _tile(u: Array, out: Array, r: float, edges: str, only_laplacian: bool) -> None:
    real = u.dtype.type
    grid = -(-u.shape[1] // WIDTH), -(-u.shape[0] // HEIGHT)
    kernel(_tile_step)[grid, (WIDTH, ROWS)](u, out, real(r), real(4), real(0), edge_code(edges), only_laplacian)


@njit
def _source(i, n, edges):  # type: ignore[no-untyped-def]
    """Return the cell whose value i in -1 ... n has, or any cell of the grid for i further out. Avoids division."""
    if edges == PERIODIC:
        if i < 0:
            i += n
        elif i >= n:
            i -= n
    if i < 0:
        return 0
    return n - 1 if i >= n else i


@njit
def _held(y, x, ny, nx, edges):  # type: ignore[no-untyped-def]
    """Return whether (y, x) is a ghost cell that is held at zero."""
    return edges == ZERO_DIRICHLET and (y < 0 or x < 0 or y >= ny or x >= nx)


# The loops are `while` loops with one condition: for nested ranges Numba generates several times the instructions.


def _tile_step(u, out, r, four, zero, edges, only_laplacian):  # type: ignore[no-untyped-def]
    """Write u + r * lap(u), or lap(u), to out: a block loads its tile and halo, then each thread computes DEPTH."""
    tile = cuda.shared.array(TILE, u.dtype)
    ny, nx = u.shape
    top, left = cuda.blockIdx.y * HEIGHT - 1, cuda.blockIdx.x * WIDTH - 1
    k = cuda.threadIdx.x + 1
    side = cuda.threadIdx.x * (WIDTH + 1)  # two threads of a row also load the cells next to the tile
    x, side_x = _source(left + k, nx, edges), _source(left + side, nx, edges)
    i = cuda.threadIdx.y
    while i < HEIGHT + 2:
        y = _source(top + i, ny, edges)
        tile[i, k] = zero if _held(top + i, left + k, ny, nx, edges) else u[y, x]
        if k <= 2:
            tile[i, side] = zero if _held(top + i, left + side, ny, nx, edges) else u[y, side_x]
        i += ROWS
    cuda.syncthreads()
    i = cuda.threadIdx.y + 1
    while i < HEIGHT + 1:
        if top + i < ny and left + k < nx:
            c = tile[i, k]
            lap = ((tile[i, k - 1] + tile[i, k + 1]) - four * c) + (tile[i - 1, k] + tile[i + 1, k])
            out[top + i, left + k] = lap if only_laplacian else c + r * lap
        i += ROWS


def _racing_tile(u, r, four, zero, edges):  # type: ignore[no-untyped-def]
    """Step a tile in place, as in a tutorial: values that a block reads around its tile may already be updated."""
    tile = cuda.shared.array(RACING_TILE, u.dtype)
    ny, nx = u.shape
    top, left = cuda.blockIdx.y * SIDE - 1, cuda.blockIdx.x * SIDE - 1
    k = cuda.threadIdx.x + 1
    side = cuda.threadIdx.x * (SIDE + 1)
    x, side_x = _source(left + k, nx, edges), _source(left + side, nx, edges)
    i = cuda.threadIdx.y
    while i < SIDE + 2:
        y = _source(top + i, ny, edges)
        tile[i, k] = zero if _held(top + i, left + k, ny, nx, edges) else u[y, x]
        if k <= 2:
            tile[i, side] = zero if _held(top + i, left + side, ny, nx, edges) else u[y, side_x]
        i += SIDE
    cuda.syncthreads()
    i = cuda.threadIdx.y + 1
    if top + i < ny and left + k < nx:
        c = tile[i, k]
        lap = ((tile[i, k - 1] + tile[i, k + 1]) - four * c) + (tile[i - 1, k] + tile[i + 1, k])
        u[top + i, left + k] = c + r * lap


VARIANTS: dict[str, Callable[..., None]] = {"tile": step, "racing": racing_step}
