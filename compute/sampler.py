"""One reader for everybody who wants to see what the machine is doing, at work only while somebody looks."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from functools import cache

from compute.system import Reading, System

PERIOD = 1.0  # seconds between two readings
SPAN = 60.0  # seconds of history
log = logging.getLogger(__name__)


class Sampler:
    """Reads every `period` seconds in a thread of its own as long as there are lookers.

    `look`, `leave` and `history` return at once, whatever a driver does, and may be called from any thread.
    """

    def __init__(self, read: Callable[[], Reading] | None = None, period: float = PERIOD) -> None:
        self._read, self._period = read or System().read, period
        self._lookers: set[Hashable] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._readings: deque[Reading] = deque(maxlen=int(SPAN / period) + 2)

    def look(self, who: Hashable) -> None:
        """Start reading for `who`; harmless if it looks already."""
        with self._changed:
            self._lookers.add(who)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="system", daemon=True)
                self._thread.start()

    def leave(self, who: Hashable) -> None:
        """It looks no longer; harmless if it never did."""
        with self._changed:
            self._lookers.discard(who)
            self._changed.notify_all()

    @property
    def working(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None

    def history(self) -> tuple[Reading, ...]:
        """The readings of the last SPAN seconds, oldest first."""
        oldest = time.monotonic() - SPAN
        with self._changed:
            return tuple(reading for reading in self._readings if reading.moment >= oldest)

    def _run(self) -> None:
        wait = min(self._period, 0.25)  # the second reading is the first that knows a use
        while True:
            try:
                reading = self._read()
            except Exception:  # one reading that fails must not end those that follow
                log.exception("a reading of the system failed")
            else:
                with self._changed:
                    self._readings.append(reading)
            with self._changed:
                if self._lookers:
                    self._changed.wait_for(lambda: not self._lookers, wait)
                if not self._lookers:
                    self._thread = None
                    return
            wait = self._period


@cache
def sampler() -> Sampler:
    """This process's sampler."""
    return Sampler()
