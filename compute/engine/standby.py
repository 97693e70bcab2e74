"""A second process for each engine, started and ready, which takes over at once when the first one dies.

Starting an interpreter, importing the labs and setting Numba up take a second or two; with that done in advance, a lab
is back within tenths of a second. The spare has no lab, no device and no field: it costs some 100 MB and no time.
"""

from __future__ import annotations

import logging
from math import inf

from compute.engine.process import Process

log = logging.getLogger(__name__)

AFTER = 2.0  # seconds after an engine is ready until its spare is started: the labs are opened first
AGAIN = 30.0  # seconds until the next one when a spare has died, for example for want of memory
LOOK = 1.0  # seconds between two looks at whether it lives


class Standby:
    """Keeps a spare process for an engine on `device`; after: None for never. Used by the watching thread alone."""

    def __init__(self, device: str, after: float | None) -> None:
        self._device, self._after = device, inf if after is None else after
        self._due = self._look = inf
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """The spare's id; None while there is none."""
        return self._process.pid if self._process else None

    def take(self) -> tuple[Process, bool]:
        """The spare if it is fit, a fresh process otherwise, and whether it is the spare. OSError if none starts."""
        spare, self._process, self._due = self._process, None, inf
        if spare and (spare.ended or spare.stopped):
            spare.close()
            spare = None
        return (spare, True) if spare else (Process(self._device), False)

    def ready(self, now: float) -> None:
        """The engine is at work: a spare may be started before long."""
        self._due = now + self._after

    def tend(self, now: float) -> None:
        """Start the spare when it is time; replace one that has died."""
        if self._process and now >= self._look:
            self._look = now + LOOK
            if self._process.ended:
                log.warning("the spare of the %s engine %s", self._device, self._process.end(0.0))
                self.close()
                self._due = now + AGAIN
        if self._process is None and now >= self._due:
            self._due, self._look = inf, now + LOOK
            try:
                self._process = Process(self._device)
            except OSError as error:
                log.warning("no spare for the %s engine: %s", self._device, error)
                self._due = now + AGAIN

    def close(self) -> None:
        """End the spare."""
        if self._process:
            self._process.close()
            self._process = None
