"""Reads one array and writes another."""

from __future__ import annotations

import numpy as np
from numba import cuda

from compute.devices.devices import Array


@cuda.jit
def _smooth(a: Array, out: Array) -> None:
    i = cuda.grid(1)
    if 0 < i < a.size - 1:
        out[i] = (a[i - 1] + a[i + 1]) / 2


def run(n: int = 1_000_000) -> dict[str, float]:
    """Replace each of n numbers, except the two at the ends, by the mean of its neighbours."""
    start = np.random.default_rng(0).random(n)
    a, out = cuda.to_device(start), cuda.to_device(start)
    _smooth[-(-n // 64), 64](a, out)
    right = (start[:-2] + start[2:]) / 2
    return {"wrong_cells": float(np.count_nonzero(out.copy_to_host()[1:-1] != right))}
