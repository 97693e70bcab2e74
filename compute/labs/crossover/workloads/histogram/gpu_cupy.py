"""Histogram on the GPU, in CuPy."""

from __future__ import annotations

import cupy as cp

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("gpu_cupy")
def histogram(x: Array, bins: int, counts: Array) -> None:
    """CuPy: bincount, which uses atomics. It waits for the device to determine the length of its result.

    Count the numbers x, (n,), from 0 to 1 into counts, (bins,).
    """
    counts[:] = cp.bincount((x * bins).astype(cp.int32), minlength=bins)
