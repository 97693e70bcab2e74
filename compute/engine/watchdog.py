"""When a worker must next give a sign of life, and how often it may die. Clocks are passed in, always monotonic.

A worker that is stopped (SIGSTOP) is found by its state, long before the deadline. The deadline is one of seconds in
which the worker could have run: what it waited for a processor, on a machine with more to do than cores, is added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Protocol

from compute.engine.ledger import Death

STARTUP = 60.0  # seconds beyond the deadline for a fresh interpreter and its imports, on a loaded machine
STOPPED = 1.0  # a gap between two looks longer than this means that the server itself was stopped or starved
HALTED = 1.5  # seconds for which a worker may be stopped by SIGSTOP: whoever slows it down on purpose needs less
QUIET = 0.5  # seconds after which a silent worker is looked at more closely
MOST_WAITING = 4  # deadlines that are added for a worker that waits for a processor, at most
MOST_RESTARTS = 3
WITHIN = 60.0  # seconds


class Watched(Protocol):
    """What is looked at in a worker that is silent; see Process."""

    @property
    def stopped(self) -> bool:
        """Whether it is stopped by a signal."""

    def waits(self) -> Mapping[str, float]:
        """Seconds for which each of its threads has waited for a processor."""


class Watchdog:
    """`deadline`: seconds between two signs of life at most."""

    def __init__(self, deadline: float, now: float) -> None:
        self._deadline = deadline
        self._looked = now
        self.heard(now, STARTUP)

    def heard(self, now: float, extra: float = 0.0) -> None:
        """A sign of life; the next may come `extra` seconds later than usual."""
        self.last, self._looked = now, now
        self._patience = self._deadline + extra
        self._before: Mapping[str, float] | None = None
        self._halted: float | None = None

    def overdue(self, now: float, worker: Watched) -> Death | None:
        """Why the worker counts as hanging; None while it does not. A server that slept itself begins anew."""
        if now - self._looked > STOPPED:
            self.last, self._before, self._halted = now, None, None
        self._looked = now
        silent = now - self.last
        if silent < QUIET:
            return None
        if self._before is None:
            self._before = worker.waits()
        if not worker.stopped:
            self._halted = None
        elif self._halted is None:
            self._halted = now
        elif now - self._halted > HALTED:
            return Death("it was stopped by SIGSTOP and did not go on", self.last, natural=False)
        if silent > self._patience and silent > self._patience + self._waited(worker):
            return Death(f"it gave no sign of life for {silent:.1f} s", self.last)
        return None

    def _waited(self, worker: Watched) -> float:
        """Seconds of this silence that the thread which waited longest has waited for a processor."""
        before = self._before or {}
        waited = max((seconds - before.get(task, 0.0) for task, seconds in worker.waits().items()), default=0.0)
        return min(waited, MOST_WAITING * self._deadline)


class Breaker:
    """Opens at a death that follows MOST_RESTARTS restarts WITHIN seconds."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque()

    def died(self, now: float) -> bool:
        """Count a death; True if there must be no further restart."""
        self._deaths.append(now)
        while now - self._deaths[0] > WITHIN:
            self._deaths.popleft()
        return len(self._deaths) > MOST_RESTARTS

    def reset(self) -> None:
        """Forget all deaths."""
        self._deaths.clear()
