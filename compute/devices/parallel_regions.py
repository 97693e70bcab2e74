"""Count parallel regions, to separate the wake-up time of threads from computing time. Does not import Numba.

numba_threads.shared calls `note` for every decision on the number of threads; benchmark targets read the count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan


@dataclass
class RegionCount:
    """Parallel regions on more than one thread: 0 if all kernels ran on one thread, nan if no kernel called `note`."""

    regions: float = nan


@dataclass
class _Noted:
    decisions: int = 0
    regions: int = 0


_noted = _Noted()  # by this process so far


def note(regions: int) -> None:
    """Add parallel regions on more than one thread; 0 for a kernel on one thread."""
    _noted.decisions += 1
    _noted.regions += regions


@contextmanager
def counted() -> Iterator[RegionCount]:
    """Count the parallel regions of the block; the result is set when the block ends."""
    decisions, regions, found = _noted.decisions, _noted.regions, RegionCount()
    yield found
    if _noted.decisions > decisions:
        found.regions = _noted.regions - regions
