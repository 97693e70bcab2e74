"""Square on the CPU, in NumPy and Numba."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numpy")
def square_numpy(a: Array, out: Array) -> None:
    """NumPy: a * a.

    Compute out = a * a, both (n,).
    """
    np.multiply(a, a, out=out)


@way("cpu_numpy_power")
def square_numpy_power(a: Array, out: Array) -> Array:
    """NumPy: a ** 2, which NumPy turns into a square.

    Return a ** 2, (n,).
    """
    return a**2


@way("cpu_numpy_square")
def square_numpy_square(a: Array, out: Array) -> None:
    """NumPy: its function square.

    Compute out = a * a, both (n,).
    """
    np.square(a, out=out)


@way("cpu_numba")
@njit(parallel=True, nogil=True, cache=True)
def square_numba(a: Array, out: Array) -> None:
    """Numba: a loop over the elements, shared by all cores.

    Compute out = a * a, both (n,).
    """
    for i in prange(a.size):
        out[i] = a[i] * a[i]
