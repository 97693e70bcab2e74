"""Many small launches on the CPU, in NumPy and Numba."""

from __future__ import annotations

from numba import njit

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def add_many_numpy(a: Array, n: int) -> None:
    """NumPy: a loop of n calls, a microsecond each.

    Add 1 to every element of a, (4096,), n times.
    """
    for _ in range(n):
        a += 1


@way("cpu_numba")
@njit(nogil=True, cache=True)
def add_many_numba(a: Array, n: int) -> None:
    """Numba: the loop is compiled as well, so that it contains no calls.

    Add 1 to every element of a, (4096,), n times.
    """
    for _ in range(n):
        for i in range(a.size):
            a[i] += 1
