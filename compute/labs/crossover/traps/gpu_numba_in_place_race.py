"""# The race in place

**What you see.** A smoothing that is nearly right: some cells differ, others in every run, most often at the edges of
blocks. On a small grid it may even be right, and look fine in a lecture.

**Why.** The order of the threads is undefined. If one writes a[i] before its neighbour has read it, the neighbour
reads the new number. A barrier does not help: it synchronises one block, not its neighbours.

**Instead.** Read one array and write another, then swap them. The Diffusion tab has both kernels, and shows the error
of the racing one.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from compute.devices.devices import Array
from compute.ways.declaring import way


@cuda.jit
def _smooth_in_place(a: Array) -> None:
    i = cuda.grid(1)
    if 0 < i < a.size - 1:
        a[i] = (a[i - 1] + a[i + 1]) / 2


@way("gpu_numba_wrong")
def wrong(n: int = 1_000_000) -> dict[str, float]:
    """Smooths in place: a thread may read a value that its neighbour has already replaced.

    Replace each of n numbers, except the two at the ends, by the mean of its neighbours.
    """
    start = np.random.default_rng(0).random(n)
    a = cuda.to_device(start)
    _smooth_in_place[-(-n // 64), 64](a)
    right = (start[:-2] + start[2:]) / 2
    return {"wrong_cells": float(np.count_nonzero(a.copy_to_host()[1:-1] != right))}


@cuda.jit
def _smooth_to_another(a: Array, out: Array) -> None:
    i = cuda.grid(1)
    if 0 < i < a.size - 1:
        out[i] = (a[i - 1] + a[i + 1]) / 2


@way("gpu_numba_right")
def right(n: int = 1_000_000) -> dict[str, float]:
    """Reads one array and writes another.

    Replace each of n numbers, except the two at the ends, by the mean of its neighbours.
    """
    start = np.random.default_rng(0).random(n)
    a, out = cuda.to_device(start), cuda.to_device(start)
    _smooth_to_another[-(-n // 64), 64](a, out)
    right = (start[:-2] + start[2:]) / 2
    return {"wrong_cells": float(np.count_nonzero(out.copy_to_host()[1:-1] != right))}
