"""Transfer on the CPU, in NumPy and Numba."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def round_trip_numpy(a: Array, out: Array) -> None:
    """NumPy: no transfer.

    Compute out = a + 1, both (n,) in main memory.
    """
    np.add(a, 1, out=out)


@way("cpu_numba")
@njit(parallel=True, nogil=True, cache=True)
def round_trip_numba(a: Array, out: Array) -> None:
    """Numba: no transfer, and all cores compute.

    Compute out = a + 1, both (n,) in main memory.
    """
    for i in prange(a.size):
        out[i] = a[i] + 1
