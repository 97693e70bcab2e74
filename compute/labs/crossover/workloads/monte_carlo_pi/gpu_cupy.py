"""Monte Carlo π on the GPU, in CuPy."""

from __future__ import annotations

from typing import Any

import cupy as cp

from compute.devices.devices import Array
from compute.ways.declaring import way


def prepare(n: int, seed: int, out: Array) -> tuple[int, Any, Array]:
    """Replace the seed by a generator; its creation takes longer than drawing a million numbers."""
    return n, cp.random.default_rng(seed), out


@way("gpu_cupy", prepare=prepare)
def estimate(n: int, rng: Any, out: Array) -> None:
    """CuPy: the same lines as NumPy, with CuPy's generator (XORWOW) on the GPU.

    Write 4 x the fraction of n points of the unit square within the quarter circle to out, (1,).
    """
    x, y = rng.random((2, n), out.dtype)
    out[0] = 4 * cp.count_nonzero(x * x + y * y < 1) / n
