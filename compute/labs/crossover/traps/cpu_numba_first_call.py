"""# Timing the first call

**What you see.** A function that seems to take a hundred times longer than it does.

**Why.** Numba, CuPy, JAX and torch.compile compile a function at its first call with arguments of given types; a GPU
loads its code then, and the operating system allocates memory at the first access. All of this happens once.

**Instead.** Call it once, or a few times, before you measure, with arguments of the same types and shapes. Report the
first call separately: for work that is done only once, it is the relevant time.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numba import njit

from compute.devices.devices import Array
from compute.ways.declaring import way


@way("cpu_numba_wrong")
def wrong(n: int = 1_000_000) -> dict[str, float]:
    """Times the first call: mostly the compiler, and little arithmetic.

    Sum n squares.
    """

    @njit
    def squares(a: Array) -> float:
        """Sum the squares of `a`."""
        total = 0.0
        for x in a:
            total += x * x
        return total

    a = np.ones(n)
    start = perf_counter()
    squares(a)
    return {"milliseconds": 1e3 * (perf_counter() - start)}


@way("cpu_numba_right")
def right(n: int = 1_000_000) -> dict[str, float]:
    """Calls it once to compile it, then times many calls and takes their median.

    Sum n squares.
    """

    @njit
    def squares(a: Array) -> float:
        """Sum the squares of `a`."""
        total = 0.0
        for x in a:
            total += x * x
        return total

    a, times = np.ones(n), []
    squares(a)
    for _ in range(11):
        start = perf_counter()
        squares(a)
        times.append(perf_counter() - start)
    return {"milliseconds": 1e3 * float(np.median(times))}
