"""Detect lost children: those that exceed a deadline, are stopped by SIGSTOP, or do nothing.

The parent polls a Watchdog several times a second. Clocks are monotonic, and long gaps between polls do not count, so
that no child is ended because the computer slept or the parent was itself stopped or starved. On an overloaded machine,
the time that the child's threads waited for a processor extends its deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Literal

import psutil

from compute.devices.devices import longest_wait, processor_waits

SLEPT = 1.0  # s between two calls above which the parent itself was stopped or starved
BASELINE = 0.5  # s of the deadline after which the processor waits are first read
COUNTED = 1.0  # s between two readings of the processor time, which examine all descendants


class ProcessState:
    """The state of the process `pid`, as the operating system reports it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    @property
    def status(self) -> str:
        """The state by psutil's name: "running", "stopped" (by SIGSTOP) …; "dead" also if it cannot be read."""
        with suppress(psutil.Error, OSError):  # OSError: without a free descriptor
            return psutil.Process(self._pid).status()
        return psutil.STATUS_DEAD

    def processor_seconds(self) -> float:
        """Return the processor time of the process and its descendants, in s; 0 if it has ended."""
        used = 0.0
        with suppress(psutil.Error, OSError):
            process = psutil.Process(self._pid)
            for one in (process, *process.children(recursive=True)):
                with suppress(psutil.Error):
                    times = one.cpu_times()
                    used += times.user + times.system
        return used

    def processor_waits(self) -> Mapping[str, float]:
        """Return the seconds that each of its threads has waited for a processor; {} if the system has no such data."""
        return processor_waits(self._pid)


@dataclass(frozen=True)
class Deadlines:
    """The limits of a child, in s.

    deadline: maximum running time, restarted by each sign of life if `renewed`; most_wait: maximum extension of the
    deadline by waits for a processor; quiet: time without a sign of life after which the process is examined; stopped:
    maximum time stopped by SIGSTOP; idle: maximum time in which neither it nor its descendants use a processor.
    """

    deadline: float = inf
    renewed: bool = False
    most_wait: float = 0.0
    quiet: float = BASELINE
    stopped: float = inf
    idle: float = inf


@dataclass(frozen=True)
class Loss:
    """Why a child counts as lost, as its kind and as text."""

    kind: Literal["late", "stopped", "idle"]
    text: str


class Watchdog:
    """Decides when a process counts as lost. now: the present time of the monotonic clock, in s.

    extra: seconds in addition to the deadline; limits: may be replaced at any time; seconds: elapsed part of the
    deadline; last: time of the last sign of life.
    """

    def __init__(self, process: ProcessState, limits: Deadlines, now: float, extra: float = 0.0) -> None:
        self._process, self.limits = process, limits
        self._used, self._counted, self._looked = 0.0, now, now
        self.seconds, self._extra = 0.0, extra
        self._waits: Mapping[str, float] | None = None
        self.sign_of_life(now, extra)

    def sign_of_life(self, now: float, extra: float = 0.0) -> None:
        """Record a sign of life. A renewed deadline restarts, extended by `extra` seconds."""
        self.last, self._stopped, self._idle = now, 0.0, 0.0
        if self.limits.renewed:
            self._looked, self.seconds, self._extra, self._waits = now, 0.0, extra, None

    def lost(self, now: float, paused: bool = False) -> Loss | None:
        """Return why the process counts as lost, else None. Time before this call does not count if `paused`."""
        passed, self._looked = now - self._looked, now
        if paused:
            return None
        if passed > SLEPT:
            if self.limits.renewed:
                self.sign_of_life(now, self._extra)
            passed = 0.0 if self.limits.renewed else SLEPT
        self.seconds += passed
        if now - self.last >= self.limits.quiet:
            status = self._process.status
            self._stopped = self._stopped + passed if status == psutil.STATUS_STOPPED else 0.0
            self._idle = 0.0 if self._works(now, status) else self._idle + passed
        if self._stopped > self.limits.stopped:
            return Loss("stopped", f"it was stopped by SIGSTOP for more than {self.limits.stopped:g} s")
        if self._idle > self.limits.idle:
            return Loss("idle", f"it did nothing for more than {self.limits.idle:g} s")
        if self.seconds <= self.limits.deadline + self._extra + self._excused():
            return None
        if self.limits.renewed:
            return Loss("late", f"it gave no sign of life for {self.seconds:.1f} s")
        return Loss("late", f"it took longer than the allowed {self.limits.deadline:g} s")

    def _excused(self) -> float:
        """Return the seconds that the longest-waiting thread waited for a processor during this deadline, limited."""
        if not self.limits.most_wait or self.seconds < BASELINE:
            return 0.0
        if self._waits is None:
            self._waits = self._process.processor_waits()
        if self.seconds <= self.limits.deadline + self._extra:
            return 0.0
        return min(longest_wait(self._waits, self._process.processor_waits()), self.limits.most_wait)

    def _works(self, now: float, status: str) -> bool:
        """Return whether the process runs, or it or a descendant has used a processor since the last reading."""
        if self.limits.idle == inf or now - self._counted < COUNTED:
            return False
        self._counted, before = now, self._used
        self._used = self._process.processor_seconds()
        return self._used > before or status in {psutil.STATUS_RUNNING, psutil.STATUS_TRACING_STOP}
