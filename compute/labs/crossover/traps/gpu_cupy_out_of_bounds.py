"""# Out of bounds

**What you see.** A program that NumPy stops with an IndexError runs on the GPU without an error message, and is
wrong.

**Why.** A kernel cannot raise an exception: its threads were launched long before. CuPy therefore applies an index
array modulo the length: a[n + 1] is a[1]. A custom kernel, and compiled code on a CPU as well, reads whatever that
address contains.

**Instead.** Check indices at their source, on the host. During development, run the same lines with NumPy; compile
with `njit(boundscheck=True)`; run kernels under `compute-sanitizer`, or in Numba's simulator.
"""

from __future__ import annotations

from math import nan

import cupy as cp

from compute.ways.declaring import way


@way("gpu_cupy_wrong")
def wrong(n: int = 10) -> dict[str, float]:
    """CuPy wraps an index array around where NumPy raises an IndexError.

    Read element n + 1 of n numbers.
    """
    a = cp.arange(n, dtype=cp.float64)
    return {"element": float(a[cp.array([n + 1])][0])}


@way("gpu_cupy_right")
def right(n: int = 10) -> dict[str, float]:
    """Checks the indices first. This costs a pass over them and a wait for the device.

    Read element n + 1 of n numbers.
    """
    a, indices = cp.arange(n, dtype=cp.float64), cp.array([n + 1])
    if bool(((indices < -n) | (indices >= n)).any()):
        return {"element": nan}
    return {"element": float(a[indices][0])}
