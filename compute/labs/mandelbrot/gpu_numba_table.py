"""The table of bla.py in Numba-CUDA: a launch a level, a thread an entry, the code of table.py."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from compute.devices import Array
from compute.gpu_numba_kernel import kernel
from compute.labs.mandelbrot import table as one

cuda: Any = None  # numba.cuda, once a kernel is wanted
first_plain: Any = None  # the functions of table.py for the GPU, once they are wanted
merge_plain: Any = None
first_far: Any = None
merge_far: Any = None
THREADS = 128


def bla(
    orbit: Array,
    exponents: Array,
    table: Array,
    powers: Array,
    radius: Array,
    log2_dc: float,
    log2_epsilon: float,
    far: bool,
) -> None:
    """Fill the table of the orbit Z_m = orbit[m] 2^exponents[m], m = 0 … M, for pixels with |dc| up to 2^log2_dc.

    Arguments and results as of `bla` in bla.py.
    """
    _link()
    count = orbit.shape[0] - 2
    if far:
        _launch(_first_far, count, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)
    else:
        _launch(_first_plain, count, orbit, table, radius, math.exp2(log2_dc), math.exp2(log2_epsilon))
    for level in range(1, count.bit_length()):
        if far:
            _launch(_merge_far, count >> level, level, table, powers, radius, log2_dc)
        else:
            _launch(_merge_plain, count >> level, level, table, radius, math.exp2(log2_dc))


def _launch(function: Any, count: int, *arguments: Any) -> None:
    if count > 0:
        kernel(function)[-(-count // THREADS), min(THREADS, count)](count, *arguments)


@cache
def _link() -> None:
    """Compile the array code of table.py for the GPU and give it the names that the kernels below call."""
    from numba import cuda

    global first_plain, merge_plain, first_far, merge_far
    functions = one.first_plain, one.merge_plain, one.first_far, one.merge_far
    first_plain, merge_plain, first_far, merge_far = (cuda.jit(device=True)(each) for each in functions)


def _first_plain(count, orbit, table, radius, dc, epsilon):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        first_plain(i, orbit, table, radius, dc, epsilon)


def _merge_plain(count, level, table, radius, dc):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        merge_plain(i, level, table, radius, dc)


def _first_far(count, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        first_far(i, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)


def _merge_far(count, level, table, powers, radius, log2_dc):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        merge_far(i, level, table, powers, radius, log2_dc)
