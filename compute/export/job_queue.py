"""Whose turn it is: jobs run in lanes, so that what is quick never waits behind a film.

In a lane the client who has the fewest jobs running comes first, then whoever has waited longest for a turn.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Protocol

from compute.devices import cpu_count
from compute.export.processes import ChildProcess, exchange


class Queued(Protocol):
    """What takes turns."""

    lane: Lane
    client: Hashable

    def your_turn(self) -> None:
        """It has a turn, unless it has been removed since."""


@dataclass(frozen=True)
class Lane:
    """What a job shares its turns with. turns: jobs of it that run at the same time; deadline: seconds that one may
    run, pauses left out.
    """

    name: str
    turns: int
    deadline: float = inf


QUICK = Lane("quick", max(2, cpu_count() // 4), 120.0)  # estimates, checks of what a link or a file says
STATE = Lane("state", max(2, cpu_count() // 4), 1800.0)  # a link's or a file's state computed again, for the page
FILE = Lane("file", max(2, cpu_count() // 4))  # one picture, the numbers of one state
FILM = Lane("film", max(1, cpu_count() // 4))  # films, tables: minutes to hours


class JobQueue:
    """Who may run. Its lock may be taken with that of a job held, never the other way round."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Queued] = []
        self._running: set[Queued] = set()
        self._served: dict[Hashable, int] = {}  # clients of waiting or running jobs, by when they last got a turn
        self._count = 0
        self._spare: ChildProcess | None = None  # a process that was started ahead

    def add(self, job: Queued) -> None:
        """Let `job` wait for a turn; `deal` gives it one."""
        with self._lock:
            self._waiting.append(job)

    def remove(self, job: Queued) -> None:
        """Take `job` out, whether it waits or has a turn. Harmless if it does neither."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
            self._running.discard(job)
            known = {one.client for one in (*self._waiting, *self._running)}
            self._served = {client: when for client, when in self._served.items() if client in known}

    def gave_turn(self, job: Queued) -> bool:
        """Whether `job` has a turn."""
        with self._lock:
            return job in self._running

    def deal(self) -> None:
        """Give the turns there are to those who wait, and tell them. Called without the lock of any job."""
        with self._lock:
            chosen = []
            while job := self._next():
                self._waiting.remove(job)
                self._running.add(job)
                self._count += 1
                self._served[job.client] = self._count
                chosen.append(job)
        for job in chosen:
            job.your_turn()

    def prepare(self) -> None:
        """Start a process ahead, so that the next job need not wait for one. Returns at once."""
        threading.Thread(target=self._prepare, name="spare", daemon=True).start()

    def process(self) -> ChildProcess:
        """The process that was started ahead, or a new one."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            exchange([spare], 0)
            if not spare.ended:
                return spare
            spare.close()
        return ChildProcess(leads=True, low=True)

    def _prepare(self) -> None:
        if self._spare is not None:
            return
        with suppress(OSError):  # the next job will say so
            made = ChildProcess(leads=True, low=True, ahead=True)
            with self._lock:
                if self._spare is None:
                    self._spare = made
                    return
            made.close()  # somebody was faster

    def _next(self) -> Queued | None:
        """Who comes next, None if there is nobody or no turn."""
        used = Counter(job.lane for job in self._running)
        able = [job for job in self._waiting if used[job.lane] < job.lane.turns]
        shares = Counter((job.client, job.lane) for job in self._running)
        order = [(shares[job.client, job.lane], self._served.get(job.client, 0), at) for at, job in enumerate(able)]
        return able[min(order)[-1]] if able else None


JOBS = JobQueue()
