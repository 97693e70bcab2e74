"""Counts the parallel regions that woke the host's threads, without importing what runs them.

A kernel that decides how many threads its work is worth (numba_threads.shared) notes the decision here. What times the
kernel reads the count, so that the time to wake the threads can be told from the time to compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan


@dataclass
class RegionCount:
    """Parallel regions that woke threads in a block of code: 0 if all of its work ran on one thread; nan as long as the
    block has not ended, and for kernels that do not decide how many threads to use.
    """

    regions: float = nan


@dataclass
class _Noted:
    decisions: int = 0
    regions: int = 0


_noted = _Noted()  # by this process so far


def note(regions: int) -> None:
    """Note a decision: so many parallel regions that wake threads follow."""
    _noted.decisions += 1
    _noted.regions += regions


@contextmanager
def counted() -> Iterator[RegionCount]:
    """Count the parallel regions of the block."""
    decisions, regions, found = _noted.decisions, _noted.regions, RegionCount()
    yield found
    if _noted.decisions > decisions:
        found.regions = _noted.regions - regions
