"""Add one on the CPU, in NumPy and Numba."""

from __future__ import annotations

from numba import njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def add_one_numpy(a: Array) -> None:
    """NumPy: one pass through memory, on one core.

    Add 1 to every element of a, (n,), in place.
    """
    a += 1


@way("cpu_numba")
@njit(parallel=True, nogil=True, cache=True)
def add_one_numba(a: Array) -> None:
    """Numba: the same pass, shared by all cores.

    Add 1 to every element of a, (n,), in place.
    """
    for i in prange(a.size):
        a[i] += 1
