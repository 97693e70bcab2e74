"""Times the first call: mostly the compiler, and little arithmetic."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numba import njit

from compute.devices.devices import Array


def run(n: int = 1_000_000) -> dict[str, float]:
    """Sum n squares."""

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
