"""Diffusion in NumPy slices: the reference. Every other backend exports the same functions.

u' = u + r * lap,  lap = (N + S) + (W + E) - 4 u, in this incremental form: the equal a*u + r*s drifts in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.diffusion.edges import PERIODIC, ZERO_FLUX, edge_code

Field = NDArray[Any]


def step(u: Field, out: Field, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. `out` holds the result; u is left alone
    for one step and is scratch for more.
    """
    ratio = u.dtype.type(r)
    source, target = u, out
    for _ in range(steps):
        laplacian(source, target, edges)
        np.multiply(target, ratio, out=target)
        np.add(source, target, out=target)
        source, target = target, source
    if source is not out:
        out[...] = source


def laplacian(u: Field, out: Field, edges: str) -> None:
    """out = +lap(u), unit spacing. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    kind = edge_code(edges)
    np.multiply(u, u.dtype.type(-4), out=out)
    out += _neighbours(u, kind) + _neighbours(u.T, kind).T


def _neighbours(u: Field, kind: int) -> Field:
    """u[i-1] + u[i+1] along the first axis, with ghost cells."""
    total = np.empty_like(u)
    total[1:-1] = u[:-2] + u[2:]
    last = len(u) - 1
    if kind == PERIODIC:
        before, after = u[last], u[0]
    elif kind == ZERO_FLUX:
        before, after = u[0], u[last]
    else:
        before = after = np.zeros_like(u[0])
    total[0] = before + (u[1] if last else after)
    total[last] = (u[last - 1] if last else before) + after
    return total


VARIANTS: dict[str, Callable[..., None]] = {"one-step": step}
