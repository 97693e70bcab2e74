"""Whose large arrays are in memory: those of one sweep of a process at a time.

An engine computes the sweeps of many pages in turn. If each of them held the inputs and the right results of an n
until its next turn, forty would hold forty times as much. So a sweep asks for the one lease before it makes them, for
each n anew, and those that ask get it one after the other. Nobody blocks: who does not get it yields, and asks again.
A sweep that has the lease and is not advanced, since its lab is paused or its page hidden, loses it and its arrays to
the next one that asks; it makes them anew when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from math import inf
from threading import RLock
from time import monotonic
from typing import Any

SMALL = 4 * 2**20  # bytes of arrays for which no lease is needed: forty times that is little
IDLE = 3.0  # seconds without a wish for a slice after which the lease is lost, and one that waits and asks not its turn
IN_VAIN = 10  # times that the next one asks meanwhile, before that: one slice of another lab may take longer than IDLE


class ArrayLease:
    """The lease for large arrays: who has it, and who waits for it, in the order in which they began to ask."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._lock = RLock()  # an abandoned sweep may be closed whenever its memory is freed, in here, too
        self._holder: SweepArrays | None = None
        self._waiting: dict[SweepArrays, float] = {}  # when each asked last
        self._in_vain = 0  # times that the next one asked since the holder had its last slice

    def free_for(self, who: SweepArrays) -> bool:
        """Ask for `who`, which keeps its turn by asking, whether it would get the lease now."""
        with self._lock:
            now = self.clock()
            self._waiting[who] = now
            for other, asked in tuple(self._waiting.items()):
                if now - asked >= IDLE:
                    self._waiting.pop(other, None)
            if next(iter(self._waiting)) is not who:
                return False
            if self._holder is not None:
                self._in_vain += 1
                if self._in_vain >= IN_VAIN and self._holder.idle(now):
                    self._holder.drop()
                    self._holder = None
            return self._holder is None

    def take(self, who: SweepArrays) -> bool:
        """Give the lease to `who` if it is free for it."""
        with self._lock:
            if not self.free_for(who):
                return False
            self._waiting.pop(who, None)
            self._holder, self._in_vain = who, 0
            return True

    def leave(self, who: SweepArrays) -> None:
        """Take the lease, or its turn, from `who`."""
        with self._lock:
            self._waiting.pop(who, None)
            if self._holder is who:
                self._holder = None

    def went_on(self, who: SweepArrays) -> None:
        """Note that `who` has a slice."""
        if self._holder is who:
            self._in_vain = 0


LEASE = ArrayLease()


class SweepArrays:
    """The arrays of one sweep between two slices, and the work that is done with them.

    kept: whether they are there; false again once they were dropped for another sweep.
    """

    def __init__(self, lease: ArrayLease | None = None) -> None:
        self._lease = lease or LEASE
        self._arrays: tuple[Any, ...] = ()
        self._work: Generator[None, None, None] | None = None
        self._left_at = inf  # when its last slice ended
        self.kept = False

    @property
    def held_up(self) -> bool:
        """Whether another sweep has the lease, or gets it before this one, which waits for it."""
        return not self._lease.free_for(self)

    def wait(self, size: float) -> Iterator[None]:
        """Yield until arrays of `size` bytes may be made; they must be, before the next slice."""
        while size > SMALL and not self._lease.take(self):
            yield

    def keep(self, *arrays: Any) -> None:
        """Hold these until `close`, unless they are dropped before."""
        self._arrays, self.kept = arrays, True

    def run(self, work: Callable[..., Generator[None, None, None]]) -> Generator[None, None, None]:
        """Yield with the slices of `work`, which is given the arrays and ends early if they are dropped."""
        if self.kept:
            self._work = work(*self._arrays)
            yield from self._work

    def left(self) -> None:
        """Note that a slice ends, or that the next one is still wanted."""
        self._left_at = self._lease.clock()

    def went_on(self) -> None:
        """Note that a slice begins."""
        self._left_at = inf
        self._lease.went_on(self)

    def idle(self, now: float) -> bool:
        """Whether the last slice is long ago."""
        return now - self._left_at >= IDLE

    def drop(self) -> None:
        """Give the arrays back, those of the work under way, too."""
        if self._work is not None:
            self._work.close()
        self._work, self._arrays, self.kept = None, (), False

    def close(self) -> None:
        """Give the arrays and the lease back."""
        self.drop()
        self._lease.leave(self)
