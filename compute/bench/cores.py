"""The quiet core: where a call is timed without what somebody else does on the other half of the core.

Virtual machines share physical cores. A neighbour on a core's second hardware thread makes everything here up to twice
as slow, for seconds, on one core and not on the next; the guest's system does not see it and leaves a thread there.
Seen on a guest of 16 cores beside an H200: at any time half of the cores, for 1 to 5 s each, and 2.0 times between the
slowest and the quickest of six. Two runs of the crossover's bench then overlapped in their quartiles at 40 % of the
points; on quiet cores at 83 %.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from time import perf_counter

TRIES = 6  # cores that are compared: if half of them are slow, all six are so once in 64 times; 1 ms in all
LOOP, LOOPS = 3000, 3  # additions in a row, about 30 us: many instructions a cycle, which a neighbour halves


def move_to_a_quiet_core(random: Random) -> None:
    """Move this thread to the quickest of TRIES cores, taken at random from those that it may use.

    It stays there as long as the system has no reason to move it. Nothing is done where threads cannot be moved (macOS,
    Windows) or there is one core.
    """
    allowed = _allowed()
    if len(allowed) < 2:
        return
    tried = random.sample(sorted(allowed), min(TRIES, len(allowed)))
    try:
        _move({quickest(tried)})
    finally:
        _move(allowed)


def quickest(cores: Iterable[int]) -> int:
    """The core on which the loop takes least; this thread is on the last one afterwards."""
    seconds = {}
    for core in cores:
        _move({core})
        seconds[core] = min(_loop() for _ in range(LOOPS))
    return min(seconds, key=lambda core: seconds[core])


def _allowed() -> set[int]:
    """Cores that this thread may use; empty if the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _move(cores: set[int]) -> None:
    """Let this thread, and no other, use these cores only; it is on one of them when this returns."""
    os.sched_setaffinity(0, cores)


def _loop() -> float:
    start = perf_counter()
    sum(range(LOOP))
    return perf_counter() - start
