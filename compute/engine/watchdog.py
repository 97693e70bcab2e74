"""When a worker must next give a sign of life, and how often it may die. Clocks are passed in, always monotonic."""

from __future__ import annotations

from collections import deque

STARTUP = 60.0  # seconds beyond the deadline for a fresh interpreter and its imports, on a loaded machine
STOPPED = 1.0  # a gap between two looks longer than this means that the server itself was stopped or starved
MOST_RESTARTS = 3
WITHIN = 60.0  # seconds


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

    def overdue(self, now: float) -> bool:
        """Whether the worker hangs. A server that slept itself gives it another deadline."""
        if now - self._looked > STOPPED:
            self.last = now
        self._looked = now
        return now - self.last > self._patience


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
