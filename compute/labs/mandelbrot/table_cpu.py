"""The table of bla.py, built with Numba: level by level, each in parallel over all cores."""

from __future__ import annotations

import math
from typing import Any

from numba import njit, prange
from numpy.typing import NDArray

from compute import numba_threads
from compute.labs.mandelbrot import table as one

numba_threads.choose_layer()

_compiled = njit(cache=True, nogil=True)
_first_plain, _merge_plain = _compiled(one.first_plain), _compiled(one.merge_plain)
_first_far, _merge_far = _compiled(one.first_far), _compiled(one.merge_far)


def bla(
    orbit: NDArray[Any],
    exponents: NDArray[Any],
    table: NDArray[Any],
    powers: NDArray[Any],
    radius: NDArray[Any],
    log2_dc: float,
    log2_epsilon: float,
    far: bool,
) -> None:
    """Fill the table of the orbit Z_m = orbit[m] 2^exponents[m], m = 0 … M, for pixels with |dc| up to 2^log2_dc.

    Arguments and results as of `bla` in bla.py.
    """
    if far:
        _far(orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)
    else:
        _plain(orbit, table, radius, math.exp2(log2_dc), math.exp2(log2_epsilon))


@njit(cache=True, nogil=True, parallel=True)
def _plain(orbit, table, radius, dc, epsilon):  # type: ignore[no-untyped-def]
    count, level = orbit.shape[0] - 2, 1
    for i in prange(count):
        _first_plain(i, orbit, table, radius, dc, epsilon)
    while count >> level > 0:
        for i in prange(count >> level):
            _merge_plain(i, level, table, radius, dc)
        level += 1


@njit(cache=True, nogil=True, parallel=True)
def _far(orbit, exponents, table, powers, radius, log2_dc, log2_epsilon):  # type: ignore[no-untyped-def]
    count, level = orbit.shape[0] - 2, 1
    for i in prange(count):
        _first_far(i, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)
    while count >> level > 0:
        for i in prange(count >> level):
            _merge_far(i, level, table, powers, radius, log2_dc)
        level += 1
