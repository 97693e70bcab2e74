"""Jobs whose result several pages request at once: each runs once, and later requests share it.

A hall that opens one link requests one state; one that presses Shift+R together requests one race. A job without any
requester is cancelled. Results are kept for latecomers up to a number of bytes; results that are measurements only for
a short time, and never for a requester that has had them, who asks for another.

All results together, and what running jobs are expected to return, are bounded as well, whoever uses them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any
from weakref import WeakSet

from compute.export.jobs import Job
from compute.settings import MIB


class NoRoom(ValueError):
    """A job was refused because its result would exceed the memory limit; the text names the bytes and the limit."""


@dataclass(eq=False)
class SharedJob:
    """A job and its requesters.

    expected: predicted bytes of the result; size: measured bytes of the result; asking: requesters that wait for the
    job or show its result; asked: all requesters so far.
    """

    job: Job
    expected: int = 0
    size: int | None = None
    asking: set[object] = field(default_factory=set)
    asked: WeakSet[object] = field(default_factory=WeakSet)


class SharedJobs:
    """The jobs of one kind, each by a text that says all that its result depends on.

    size(result): bytes that a result holds; kept: bytes of results that are no longer shown, at most; most(): bytes of
    all results, those that pages wait for or show included; fresh: seconds for which a result that is a measurement
    serves others; inf: it is none, and serves everybody. All of it is called on the loop of the pages.
    """

    def __init__(
        self, size: Callable[[Any], int], kept: int, fresh: float = inf, most: Callable[[], float] = lambda: inf
    ) -> None:
        self._size, self.kept, self._fresh, self._most = size, kept, fresh, most
        self._jobs: dict[str, SharedJob] = {}  # the last that was asked for is the last

    def ask(self, key: str, begin: Callable[[], Job], asking: object, expected: int = 0) -> SharedJob:
        """Return the job with that key: an existing one, if it serves `asking`, or the job started by begin().

        expected: predicted bytes of the result. Raises NoRoom if they exceed the limit.
        """
        shared = self._jobs.pop(key, None)
        if shared is None or not self._serves(shared, asking):
            self._make_room(expected)
            shared = SharedJob(begin(), expected)
        self._jobs[key] = shared
        shared.asking.add(asking)
        shared.asked.add(asking)
        return shared

    def leave(self, shared: SharedJob, asking: object) -> None:
        """It neither waits for it nor shows it any longer: what nobody waits for is not done to its end."""
        shared.asking.discard(asking)
        if not shared.asking:
            shared.job.cancel()
        left = {key: one for key, one in self._jobs.items() if not one.asking}
        held = sum(self._held(one) for one in left.values())
        for key, one in left.items():  # the oldest first
            if not self._lasts(one) or held > self.kept:
                held -= self._held(one)
                del self._jobs[key]

    def _make_room(self, expected: int) -> None:
        """Drop unused results, the oldest first, until `expected` bytes fit."""
        most = self._most()
        for key, one in list(self._jobs.items()):
            if self.held + expected <= most:
                return
            if not one.asking:
                del self._jobs[key]
        if self.held + expected > most:
            raise NoRoom(
                f"it would take {expected / MIB:,.0f} MiB beside the {self.held / MIB:,.0f} MiB of other states, "
                f"and {most / MIB:,.0f} MiB are allowed on this server (its setting memory)"
            )

    @property
    def held(self) -> int:
        """Bytes of all results, including the predicted results of running jobs."""
        return sum(map(self._held, self._jobs.values()))

    def _serves(self, shared: SharedJob, asking: object) -> bool:
        if not shared.job.over:
            return True
        return self._lasts(shared) and (self._fresh == inf or asking not in shared.asked)

    def _lasts(self, shared: SharedJob) -> bool:
        """Whether it has a result that may serve somebody yet."""
        return shared.job.state == "done" and (self._fresh == inf or time.monotonic() - shared.job.ended < self._fresh)

    def _held(self, shared: SharedJob) -> int:
        if not shared.job.over:
            return shared.expected
        if shared.job.state != "done":
            return 0
        if shared.size is None:
            shared.size = self._size(shared.job.result)
        return shared.size
