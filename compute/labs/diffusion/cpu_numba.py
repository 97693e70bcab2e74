"""Diffusion in Numba, rows in parallel over all cores: the fair CPU opponent.

Rows are handed to a small inner loop without branches, which LLVM vectorises; only edge cells look at the edge
condition. No fastmath, no contraction to FMA: the results equal the NumPy reference bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute import numba_threads
from compute.labs.diffusion.scheme import PERIODIC, ZERO_FLUX, edge_code

numba_threads.choose_layer()

Field = NDArray[Any]


def step(u: Field, out: Field, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. `out` holds the result; u is left alone
    for one step and is scratch for more.
    """
    real = u.dtype.type
    _sweeps(u, out, real(r), edge_code(edges), steps)


def laplacian(u: Field, out: Field, edges: str) -> None:
    """out = +lap(u), unit spacing. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    _laplacian(u, out, edge_code(edges))


@njit(cache=True, nogil=True)
def _ghost(u, i, j, kind):  # type: ignore[no-untyped-def]
    """u[i, j], where one index may be one cell outside."""
    ny, nx = u.shape
    if kind == PERIODIC:
        return u[(i + ny) % ny, (j + nx) % nx]
    if kind == ZERO_FLUX:
        return u[min(max(i, 0), ny - 1), min(max(j, 0), nx - 1)]
    if i < 0 or j < 0 or i >= ny or j >= nx:
        return u[0, 0] - u[0, 0]
    return u[i, j]


@njit(cache=True, nogil=True)
def _edge_cell(u, i, j, kind):  # type: ignore[no-untyped-def]
    """Laplacian of a cell that may touch an edge."""
    here = u[i, j]
    vertical = (_ghost(u, i + 1, j, kind) - here) - (here - _ghost(u, i - 1, j, kind))
    horizontal = (_ghost(u, i, j + 1, kind) - here) - (here - _ghost(u, i, j - 1, kind))
    return vertical + horizontal


@njit(cache=True, nogil=True)
def _interior_step(above, row, below, out, r):  # type: ignore[no-untyped-def]
    """One row without its two ends; plain indices, so that it vectorises."""
    for j in range(1, row.size - 1):
        here = row[j]
        lap = ((above[j] - here) - (here - below[j])) + ((row[j + 1] - here) - (here - row[j - 1]))
        out[j] = here + r * lap


@njit(cache=True, nogil=True)
def _interior_laplacian(above, row, below, out):  # type: ignore[no-untyped-def]
    """As _interior_step, for the Laplacian alone."""
    for j in range(1, row.size - 1):
        here = row[j]
        out[j] = ((above[j] - here) - (here - below[j])) + ((row[j + 1] - here) - (here - row[j - 1]))


@njit(cache=True, nogil=True)
def _row_step(u, out, i, r, kind):  # type: ignore[no-untyped-def]
    ny, nx = u.shape
    if 0 < i < ny - 1:
        _interior_step(u[i + 1], u[i], u[i - 1], out[i], r)
        out[i, 0] = u[i, 0] + r * _edge_cell(u, i, 0, kind)
        out[i, nx - 1] = u[i, nx - 1] + r * _edge_cell(u, i, nx - 1, kind)
    else:
        for j in range(nx):
            out[i, j] = u[i, j] + r * _edge_cell(u, i, j, kind)


@njit(cache=True, nogil=True)
def _row_laplacian(u, out, i, kind):  # type: ignore[no-untyped-def]
    ny, nx = u.shape
    if 0 < i < ny - 1:
        _interior_laplacian(u[i + 1], u[i], u[i - 1], out[i])
        out[i, 0] = _edge_cell(u, i, 0, kind)
        out[i, nx - 1] = _edge_cell(u, i, nx - 1, kind)
    else:
        for j in range(nx):
            out[i, j] = _edge_cell(u, i, j, kind)


@njit(cache=True, nogil=True, parallel=True)
def _one_step(u, out, r, kind):  # type: ignore[no-untyped-def]
    for i in prange(u.shape[0]):
        _row_step(u, out, np.int64(i), r, kind)  # prange counts unsigned, and unsigned - signed is a float


@njit(cache=True, nogil=True)
def _sweeps(u, out, r, kind, steps):  # type: ignore[no-untyped-def]
    """Ping-pong; one copy at the end when the count is even."""
    for k in range(steps):
        if k % 2 == 0:
            _one_step(u, out, r, kind)
        else:
            _one_step(out, u, r, kind)
    if steps % 2 == 0:
        out[:, :] = u


@njit(cache=True, nogil=True, parallel=True)
def _laplacian(u, out, kind):  # type: ignore[no-untyped-def]
    for i in prange(u.shape[0]):
        _row_laplacian(u, out, np.int64(i), kind)


VARIANTS: dict[str, Callable[..., None]] = {"one-step": step}
