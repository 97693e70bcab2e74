"""An engine's process: its start and end, the spare that replaces it, and the rules by which it counts as dead.

A WorkerProcess is one process of the engine. Standby keeps a second process for each engine, started and ready, which
replaces the first one immediately when it dies. Starting an interpreter, importing the labs and initialising Numba take
one to two seconds; with that done in advance, a lab is restored within tenths of a second. The spare has no lab, no
device and no field: it uses about 100 MB and no processor time.

The Watchdog decides when a silent worker counts as dead, the CircuitBreaker when the engine must not be restarted.
Their clocks are passed in and always monotonic. A stopped worker (SIGSTOP) is detected by its process state, long
before the deadline. The deadline counts the seconds in which the worker could have run: on an overloaded machine, the
time that it waited for a processor is added.
"""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path

from compute.devices.devices import longest_wait, processor_waits
from compute.engine.channel import Channel
from compute.engine.messages import Setup

log = logging.getLogger(__name__)

PROC = Path("/proc")  # Linux's process information; absent on other systems
SPARE_AFTER = 2.0  # seconds between an engine's readiness and the start of its spare: the labs are opened first
SPARE_AGAIN = 30.0  # seconds until the next spare when one has died, for example for lack of memory
SPARE_CHECK = 1.0  # seconds between two checks that the spare lives
STARTUP = 60.0  # seconds beyond the deadline for a fresh interpreter and its imports, on a loaded machine
SERVER_SLEPT = 1.0  # seconds between two checks above which the server itself was stopped or starved
HALTED = 1.5  # seconds for which a worker may be stopped by SIGSTOP: tools that throttle a process stop it for less
SILENT = 0.5  # seconds after which a silent worker is examined
MAX_WAITING = 4  # maximum number of deadlines added for a worker that waits for a processor
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


class WorkerProcess:
    """A fresh interpreter (never a fork) that runs the worker; it imports nothing of the server's main module.

    It prepares for an engine on `device` ("host" or "cuda"); `begin` then names the engine. Start it from a thread that
    lives as long as the process should, because it is killed when that thread ends. It has its own process group, so
    that Ctrl-C in a terminal reaches only the server, which then ends the process in order.
    """

    def __init__(self, device: str) -> None:
        ours, theirs = multiprocessing.Pipe()
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        self._oom_kills = oom_kills()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "compute.engine", str(theirs.fileno()), device],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,
            )
            try:
                self.channel = Channel(ours)
            except OSError:
                self._process.kill()
                self._process.wait()
                raise
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self.ended_by_itself = True

    def begin(self, setup: Setup) -> None:
        """Make it the worker of the engine that `setup` describes."""
        self._oom_kills = oom_kills()
        with suppress(OSError):  # it has died: the reader of the channel detects its end
            self.channel.send(setup)

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    @property
    def stopped(self) -> bool:
        """Whether the process is stopped by SIGSTOP; False if the system does not provide the state."""
        try:
            status = (PROC / str(self.pid) / "stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"

    def processor_waits(self) -> Mapping[str, float]:
        """Return the seconds that each of its threads has waited for a processor; {} if the system has no such data."""
        return processor_waits(self.pid)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def end(self, patience: float) -> str:
        """Wait `patience` seconds for the process to end, then kill it; return a description of its end."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        out_of_memory = code == -signal.SIGKILL and oom_kills() > self._oom_kills
        self.ended_by_itself = out_of_memory or code not in {-signal.SIGKILL, -signal.SIGTERM}
        how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
        return f"{how}, for want of memory" if out_of_memory else how

    def close(self) -> None:
        """Kill the process and close the channel."""
        self.kill()
        self.end(0.0)
        self.channel.close()


class Standby:
    """Keeps a spare process for an engine on `device`. Used by the supervising thread only.

    after: seconds after which a ready engine gets a spare, None for never.
    """

    def __init__(self, device: str, after: float | None) -> None:
        self._device, self._after = device, inf if after is None else after
        self._due = self._check_at = inf
        self._process: WorkerProcess | None = None

    @property
    def pid(self) -> int | None:
        """The spare's process id; None without a spare."""
        return self._process.pid if self._process else None

    def take(self) -> tuple[WorkerProcess, bool]:
        """Return the spare if it runs, else a new process, and True for the spare. OSError if none starts."""
        spare, self._process, self._due = self._process, None, inf
        if spare and (spare.ended or spare.stopped):
            spare.close()
            spare = None
        return (spare, True) if spare else (WorkerProcess(self._device), False)

    def engine_ready(self, now: float) -> None:
        """Schedule the start of the spare, because the engine is ready."""
        self._due = now + self._after

    def tend(self, now: float) -> None:
        """Start the spare when it is due; replace a dead one."""
        if self._process and now >= self._check_at:
            self._check_at = now + SPARE_CHECK
            if self._process.ended:
                log.warning("the spare of the %s engine %s", self._device, self._process.end(0.0))
                self.close()
                self._due = now + SPARE_AGAIN
        if self._process is None and now >= self._due:
            self._due, self._check_at = inf, now + SPARE_CHECK
            try:
                self._process = WorkerProcess(self._device)
            except OSError as error:
                log.warning("no spare for the %s engine: %s", self._device, error)
                self._due = now + SPARE_AGAIN

    def close(self) -> None:
        """End the spare."""
        if self._process:
            self._process.close()
            self._process = None


class Watchdog:
    """Decides when a worker counts as dead. deadline: maximum seconds between two signs of life."""

    def __init__(self, deadline: float, now: float) -> None:
        self._deadline = deadline
        self._looked = now
        self.sign_of_life(now, STARTUP)

    def sign_of_life(self, now: float, extra: float = 0.0) -> None:
        """Record a sign of life; the next one may come `extra` seconds later than usual."""
        self.last, self._looked = now, now
        self._patience = self._deadline + extra
        self._before: Mapping[str, float] | None = None
        self._halted: float | None = None

    def overdue(self, now: float, worker: WorkerProcess) -> WorkerExit | None:
        """Return why the worker counts as dead, else None. If the server itself slept, the silence starts now."""
        if now - self._looked > SERVER_SLEPT:
            self.last, self._before, self._halted = now, None, None
        self._looked = now
        silent = now - self.last
        if silent < SILENT:
            return None
        if self._before is None:
            self._before = worker.processor_waits()
        if not worker.stopped:
            self._halted = None
        elif self._halted is None:
            self._halted = now
        elif now - self._halted > HALTED:
            return WorkerExit("it was stopped by SIGSTOP and did not go on", self.last, natural=False)
        if silent > self._patience and silent > self._patience + self._waited(worker):
            return WorkerExit(f"it gave no sign of life for {silent:.1f} s", self.last)
        return None

    def _waited(self, worker: WorkerProcess) -> float:
        """Return the seconds that the worker's longest-waiting thread waited for a processor during this silence."""
        waited = longest_wait(self._before or {}, worker.processor_waits())
        return min(waited, MAX_WAITING * self._deadline)


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


def oom_kills() -> float:
    """Return the number of processes killed by the kernel's OOM killer since boot; nan if unknown."""
    try:
        lines = (PROC / "vmstat").read_text().splitlines()
    except OSError:
        return nan
    return next((float(line.split()[1]) for line in lines if line.startswith("oom_kill ")), nan)
