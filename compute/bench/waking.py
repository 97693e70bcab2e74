"""What it costs to start all threads once: a parallel loop that does nothing, timed."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numba import njit, prange

from compute import numba_threads
from compute.devices import cpu_count
from compute.timings import Spread

RUNS, FIRST = 200, 5  # loops timed, and those before them that are not: compilation, threads that sleep

numba_threads.choose_layer()


def waking_seconds() -> float:
    """Seconds of an empty parallel loop over all threads: the lower quartile, so that it is no overstatement."""
    seen, seconds = np.zeros(cpu_count()), []
    for number in range(FIRST + RUNS):
        start = perf_counter()
        _empty(seen)
        if number >= FIRST:
            seconds.append(perf_counter() - start)
    return Spread.of(seconds).q1


@njit(cache=True, nogil=True, parallel=True)
def _empty(seen: Any) -> None:
    for i in prange(seen.size):
        seen[i] = i
