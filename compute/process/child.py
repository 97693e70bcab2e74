"""Start, signal and end child processes; functions with which a child sets itself up.

A process is never signalled after the parent has waited for it, since the system may then reuse its process id.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Generic, TypeVar

import psutil

from compute.machine import scratch
from compute.process.channel import Channel
from compute.process.watchdog import ProcessState
from compute.start import search_path

PROC = Path("/proc")  # Linux's process information; absent on other systems
KILLED = 10.0  # s for the system to end a killed process
CHECK = 0.005  # s between checks whether a process has ended
NICE = 10  # of children with low priority: the page, its engines and the browser take precedence
P = TypeVar("P", bound="ChildProcess")
DIE_WITH_PARENT, NAME = 1, 15  # PR_SET_PDEATHSIG and PR_SET_NAME of prctl(2)


@dataclass(frozen=True)
class ProcessEnd:
    """How a process ended. natural: whether it exited, crashed or ran out of memory, and was not killed otherwise."""

    text: str
    natural: bool


class ChildProcess:
    """A fresh interpreter (never a fork) that runs `python -m MODULE DESCRIPTOR ARGUMENTS`.

    It does not import this process's main module. The descriptor is its end of `channel`. Ctrl-C in a terminal does not
    reach it; this process ends it in an orderly way. leads: it leads a process group with all its children, which is
    killed as a whole; otherwise it joins this process's group. environment: variables in addition to this process's.

    `kill` may be called from any thread at any time, and sets `killed`.
    """

    def __init__(
        self, module: str, *arguments: str, leads: bool = True, environment: Mapping[str, str] | None = None
    ) -> None:
        ours, theirs = socket.socketpair()
        try:
            with _interrupts_blocked():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": search_path(), **(environment or {})},
                    process_group=0 if leads else None,
                )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid, self._leads = self._process.pid, leads
        self.channel, self.state = Channel(ours), ProcessState(self.pid)
        self._lock = threading.Lock()  # for signalling the process and waiting for it
        self.killed = False
        self._end: ProcessEnd | None = None
        self._oom_kills = oom_kills()

    def begin_work(self) -> None:
        """Record that the work begins: only kills by the kernel from now on can explain its end."""
        self._oom_kills = oom_kills()

    @property
    def exited(self) -> bool:
        """Whether the process has ended."""
        with self._lock:
            return self._look()

    @property
    def usable(self) -> bool:
        """Whether the process runs and is not stopped."""
        return not self.exited and self.state.status != psutil.STATUS_STOPPED

    def kill(self) -> None:
        """Kill the process, with its group if it leads one. Do nothing after its end was collected."""
        self.killed = True
        with self._lock:
            self._look()
            if self._process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):  # it has exited, but its end was not collected
                    os.killpg(self.pid, signal.SIGKILL) if self._leads else self._process.kill()

    def end(self, patience: float = 0.0) -> ProcessEnd:
        """Wait `patience` seconds for the process to end, then kill it; return how it ended."""
        if self._end is None:
            self._exits_within(patience)
            self.kill()
            if not self._exits_within(KILLED):
                return ProcessEnd("it does not end, though it was killed", natural=False)
            with self._lock:
                code = self._process.wait()
            with suppress(OSError):  # for example without a free descriptor; the next start deletes them
                scratch.clear(self.pid)
            self._end = _ending(code, oom_kills() - self._oom_kills)
        return self._end

    def close(self) -> None:
        """End the process, delete its temporary folders and close the channel."""
        self.end()
        self.channel.close()

    def _look(self) -> bool:
        """Return whether the process has ended, without collecting its end, which would free its id. Needs the lock."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # waited for already, or the system keeps no zombies (SIGCHLD is ignored)
            return self._process.poll() is not None

    def _exits_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self.exited:
            if time.monotonic() >= until:
                return False
            time.sleep(CHECK)
        return True


def _ending(code: int, oom_kills: float) -> ProcessEnd:
    """Describe an exit code. oom_kills: kills of the kernel for lack of memory during the work, nan if unknown."""
    if code >= 0:
        return ProcessEnd(f"it ended with exit code {code}", natural=True)
    text = f"it was ended by {signal.Signals(-code).name}"
    if code != -signal.SIGKILL:
        return ProcessEnd(text, natural=code != -signal.SIGTERM)
    if oom_kills > 0:
        return ProcessEnd(f"{text}, for lack of memory", natural=True)
    return ProcessEnd(f"{text}, from outside{'' if oom_kills == 0 else ' or for lack of memory'}", natural=False)


def oom_kills() -> float:
    """Return the number of processes killed by the kernel's OOM killer since boot; nan if unknown."""
    try:
        lines = (PROC / "vmstat").read_text().splitlines()
    except OSError:
        return nan
    return next((float(line.split()[1]) for line in lines if line.startswith("oom_kill ")), nan)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes started in the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- idle processes


class SparePool(Generic[P]):
    """Keeps up to `most` idle processes for reuse, since a start costs one to two seconds of processor time.

    Methods may be called from any thread.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._idle: list[tuple[P, threading.Timer | None]] = []  # with the timer that ends it

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the idle processes."""
        with self._lock:
            return tuple(process.pid for process, _ in self._idle)

    def add(self, process: P, seconds: float = inf) -> None:
        """Keep `process` for `seconds`; close it instead if the pool is full."""
        timer = threading.Timer(seconds, self._expire, [process]) if seconds < inf else None
        with self._lock:
            fits = len(self._idle) < self._most
            if fits:
                self._idle.append((process, timer))
                if timer:
                    timer.daemon = True
                    timer.start()
        if not fits:
            process.close()

    def take(self) -> P | None:
        """Remove and return the latest usable process, None without one; close unusable ones that precede it."""
        while process := self._remove():
            if process.usable:
                return process
            process.close()
        return None

    def take_ended(self) -> list[P]:
        """Remove and return the processes that have ended, which the caller closes."""
        with self._lock:
            idle = [process for process, _ in self._idle]
        return [process for process in idle if process.exited and self._remove(process)]

    def close(self) -> None:
        """End the idle processes."""
        while process := self._remove():
            process.close()

    def _expire(self, process: P) -> None:
        if self._remove(process):
            process.close()

    def _remove(self, process: P | None = None) -> P | None:
        """Remove and return `process`, by default the latest one; None if the pool does not contain it."""
        with self._lock:
            found = [entry for entry in self._idle if process in (None, entry[0])]
            if not found:
                return None
            self._idle.remove(found[-1])
        process, timer = found[-1]
        if timer:
            timer.cancel()
        return process


# -- in the child


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends, even in an endless computation."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def rename_process(name: str) -> None:
    """Name this process "fieldlab " and `name` in lists of processes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(NAME, f"fieldlab {name}".encode())


def lower_priority() -> None:
    """Lower the priority of this process's threads and its children."""
    with suppress(OSError, AttributeError):  # not supported by this system
        os.nice(NICE)


def terminate_tree() -> None:
    """Exit immediately; kill all child processes if this process leads a group."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
