"""A lease that lets only one sweep of a process keep large arrays in memory at a time.

An engine computes the sweeps of many pages in turn. If each sweep kept the inputs and reference results of an n until
its next turn, forty sweeps would need forty times the memory. So a sweep must acquire the single lease before it
creates these arrays, separately for each n; sweeps acquire it in the order in which they began to wait. Acquiring
never blocks: a sweep without the lease yields and tries again. A sweep that has the lease but is not advanced, because
its lab is paused or its page hidden, loses the lease and its arrays to the next sweep in the queue; it recreates the
arrays when it resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from math import inf
from threading import RLock
from time import monotonic
from typing import Any

SMALL = 4 * 2**20  # bytes of arrays that need no lease: forty times as much is still little
# Seconds without a request for a slice after which the holder can lose the lease, and without a request for the lease
# after which a waiting sweep loses its place in the queue.
IDLE = 3.0
# Failed requests of the next sweep before that happens: a slice of another lab may take longer than IDLE.
IN_VAIN = 10


class ArrayLease:
    """The lease for large arrays: its holder, and the waiting sweeps in the order of their first request."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._lock = RLock()  # re-entrant: garbage collection may close an abandoned sweep within these methods
        self._holder: SweepArrays | None = None
        self._waiting: dict[SweepArrays, float] = {}  # time of each sweep's latest request
        self._in_vain = 0  # failed requests of the next sweep since the holder's last slice

    def free_for(self, who: SweepArrays) -> bool:
        """Return whether the sweep would get the lease now; the call also keeps its place in the queue."""
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
        """Acquire the lease if it is free and the sweep is next in the queue; return whether it was acquired."""
        with self._lock:
            if not self.free_for(who):
                return False
            self._waiting.pop(who, None)
            self._holder, self._in_vain = who, 0
            return True

    def leave(self, who: SweepArrays) -> None:
        """Release the lease of a sweep, and remove the sweep from the queue."""
        with self._lock:
            self._waiting.pop(who, None)
            if self._holder is who:
                self._holder = None

    def went_on(self, who: SweepArrays) -> None:
        """Note that a slice of the sweep begins."""
        if self._holder is who:
            self._in_vain = 0


LEASE = ArrayLease()


class SweepArrays:
    """The arrays of one sweep between two slices, and the work that uses them.

    kept: whether the arrays exist; False again after they were dropped for another sweep.
    """

    def __init__(self, lease: ArrayLease | None = None) -> None:
        self._lease = lease or LEASE
        self._arrays: tuple[Any, ...] = ()
        self._work: Generator[None, None, None] | None = None
        self._left_at = inf  # when its last slice ended
        self.kept = False

    @property
    def held_up(self) -> bool:
        """Whether this waiting sweep must keep waiting: another sweep has the lease or precedes it in the queue."""
        return not self._lease.free_for(self)

    def wait(self, size: float) -> Iterator[None]:
        """Yield until arrays of `size` bytes may be created; the caller must create them before its next slice."""
        while size > SMALL and not self._lease.take(self):
            yield

    def keep(self, *arrays: Any) -> None:
        """Keep `arrays` until `close` or `drop`."""
        self._arrays, self.kept = arrays, True

    def run(self, work: Callable[..., Generator[None, None, None]]) -> Generator[None, None, None]:
        """Yield after each slice of `work`, which receives the arrays and is closed early by `drop`."""
        if self.kept:
            self._work = work(*self._arrays)
            yield from self._work

    def left(self) -> None:
        """Note that a slice ends, or that the sweep still requests its next one."""
        self._left_at = self._lease.clock()

    def went_on(self) -> None:
        """Note that a slice begins."""
        self._left_at = inf
        self._lease.went_on(self)

    def idle(self, now: float) -> bool:
        """Return whether the last slice or request is at least IDLE seconds old."""
        return now - self._left_at >= IDLE

    def drop(self) -> None:
        """Release the arrays and close the work in progress."""
        if self._work is not None:
            self._work.close()
        self._work, self._arrays, self.kept = None, (), False

    def close(self) -> None:
        """Release the arrays and the lease."""
        self.drop()
        self._lease.leave(self)
