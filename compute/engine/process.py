"""An engine's process, the spare that replaces it, and the rules by which it is restarted.

A WorkerProcess is one process of the engine. Standby keeps a second process for each engine, started and ready, which
replaces the first one immediately when it dies. Starting an interpreter, importing the labs and initialising Numba take
one to two seconds; with that done in advance, a lab is restored within tenths of a second. The spare has no lab, no
device and no field: it uses about 100 MB and no processor time.

A Watchdog (compute/process/watchdog.py) with the limits of `worker_watchdog` decides when a silent worker counts as
dead, the CircuitBreaker when the engine must not be restarted. A stopped worker (SIGSTOP) is detected by its process
state, long before the deadline.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from compute.engine.messages import Setup
from compute.process.child import ChildProcess, SparePool
from compute.process.watchdog import Deadlines, ProcessState, Watchdog

log = logging.getLogger(__name__)

SPARE_AFTER = 8.0  # seconds from an engine's readiness to the start of its spare: the first page comes first
SPARE_AGAIN = 30.0  # seconds until the next spare when one has died, for example for lack of memory
SPARE_CHECK = 1.0  # seconds between two checks that the spare lives
STARTUP = 60.0  # seconds beyond the deadline for a fresh interpreter and its imports, on a loaded machine
HALTED = 1.5  # seconds for which a worker may be stopped by SIGSTOP: tools that throttle a process stop it for less
MOST_WAITS = 4  # maximum number of deadlines added for a worker that waits for a processor
MAX_RESTARTS = 3
WITHIN = 60.0  # seconds in which restarts count
TOGETHER = 120.0  # seconds within which deaths charged to several labs suggest a broken device
REMEMBERED = 600.0  # seconds for which a charged death delays unproven labs
FREE = 1  # charged deaths without a delay
FIRST_PAUSE, MOST_PAUSE = 2.0, 30.0  # seconds of delay after the next one, doubled by each further death
BACK_OFF, MOST_BACK_OFF = 30.0, 600.0  # seconds until a broken engine is tried again, doubled each time
CALM = 3600.0  # seconds after the last opening of the breaker after which the delay starts at BACK_OFF again


@dataclass(frozen=True)
class WorkerExit:
    """The end of a process.

    reason: for logs and messages; since: time of the last sign of life, or of the end; natural: True for a crash, a
    hang or a kill by the kernel's OOM killer, False for any other external signal; lab: number of the lab that caused
    it, 0 if the process did not report one.
    """

    reason: str
    since: float
    natural: bool = True
    lab: int = 0


class WorkerProcess(ChildProcess):
    """A process for an engine on `device` ("host" or "cuda"); `begin` then names the engine.

    Start it from a thread that lives as long as the process should, because it is killed when that thread ends.
    """

    def __init__(self, device: str) -> None:
        super().__init__("compute.engine", device)

    def begin(self, setup: Setup) -> None:
        """Make it the worker of the engine that `setup` describes."""
        self.begin_work()
        with suppress(OSError):  # it has died: the reader of the channel detects its end
            self.channel.send(setup)


class Standby:
    """Keeps a spare process for an engine on `device`. Used by the supervising thread only.

    after: seconds after which a ready engine gets a spare, None for never.
    """

    def __init__(self, device: str, after: float | None) -> None:
        self._device, self._after = device, inf if after is None else after
        self._due = self._check_at = inf
        self._spares: SparePool[WorkerProcess] = SparePool(1)

    @property
    def pid(self) -> int | None:
        """The spare's process id; None without a spare."""
        return next(iter(self._spares.pids), None)

    def take(self) -> tuple[WorkerProcess, bool]:
        """Return the spare if it runs, else a new process, and True for the spare. OSError if none starts."""
        self._due = inf
        spare = self._spares.take()
        return (spare, True) if spare else (WorkerProcess(self._device), False)

    def engine_ready(self, now: float) -> None:
        """Schedule the start of the spare, because the engine is ready."""
        self._due = now + self._after

    def tend(self, now: float) -> None:
        """Start the spare when it is due; replace a dead one."""
        if now >= self._check_at:
            self._check_at = now + SPARE_CHECK
            for dead in self._spares.take_ended():
                log.warning("the spare of the %s engine %s", self._device, dead.end().text)
                dead.close()
                self._due = now + SPARE_AGAIN
        if now >= self._due and not self._spares.pids:
            self._due, self._check_at = inf, now + SPARE_CHECK
            try:
                self._spares.add(WorkerProcess(self._device))
            except OSError as error:
                log.warning("no spare for the %s engine: %s", self._device, error)
                self._due = now + SPARE_AGAIN

    def close(self) -> None:
        """End the spare."""
        self._spares.close()


def worker_watchdog(worker: ProcessState, deadline: float, now: float) -> Watchdog:
    """Return the watchdog of a worker that starts now. deadline: maximum seconds between two signs of life."""
    return Watchdog(
        worker, Deadlines(deadline, renewed=True, most_wait=MOST_WAITS * deadline, stopped=HALTED), now, STARTUP
    )


class CircuitBreaker:
    """Counts the deaths of an engine's process, and opens when the process must not be restarted.

    Uncharged deaths: the breaker opens at the death after MAX_RESTARTS restarts within WITHIN seconds. Deaths charged
    to labs: the breaker opens if more than MAX_RESTARTS labs were charged within TOGETHER seconds and no other lab
    completed any work since the first of these deaths, which indicates a broken device. Otherwise they only delay the
    opening of unproven labs (`unproven_from`).
    """

    def __init__(self) -> None:
        self._deaths: deque[float] = deque()
        self._charged: deque[tuple[float, int]] = deque()
        self._opened, self._opened_at = 0, -inf

    def died(self, now: float) -> bool:
        """Count an uncharged death; return True if the breaker opens."""
        self._deaths.append(now)
        while now - self._deaths[0] > WITHIN:
            self._deaths.popleft()
        return len(self._deaths) > MAX_RESTARTS

    def charged(self, lab: int, now: float, others_worked: Callable[[Collection[int], float], bool]) -> bool:
        """Count a death charged to lab number `lab`; return True if the breaker opens.

        others_worked(labs, since): whether any lab not in `labs` completed work after `since`.
        """
        self._charged.append((now, lab))
        while now - self._charged[0][0] > REMEMBERED:
            self._charged.popleft()
        recent = [(moment, number) for moment, number in self._charged if now - moment <= TOGETHER]
        labs = {number for _, number in recent}
        return len(labs) > MAX_RESTARTS and not others_worked(labs, recent[0][0])

    def unproven_from(self, now: float) -> float:
        """Return the time from which unproven labs may be opened; see LabState.proven.

        Labs that are opened only to kill the engine cause at most one death per delay. Proven labs are never delayed.
        The engine does not know which client a lab belongs to, so the delay applies to every new lab.
        """
        deaths = [moment for moment, _ in self._charged if now - moment <= REMEMBERED]
        if len(deaths) <= FREE:
            return -inf
        return deaths[-1] + min(FIRST_PAUSE * 2.0 ** (len(deaths) - FREE - 1), MOST_PAUSE)

    def back_off(self, now: float) -> float:
        """Return the seconds to wait after the breaker has opened; doubled each time, reset after CALM seconds."""
        self._opened = 0 if now - self._opened_at > CALM else self._opened + 1
        self._opened_at = now
        return min(BACK_OFF * 2.0**self._opened, MOST_BACK_OFF)

    def reset(self) -> None:
        """Forget all deaths."""
        self._deaths.clear()
        self._charged.clear()


def out_of_resources(error: OSError) -> bool:
    """Return whether a process failed to start for lack of descriptors, memory or process slots."""
    return error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
