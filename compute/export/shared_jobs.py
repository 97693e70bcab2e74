"""Jobs whose result several pages request concurrently: each runs once, and later requests share it.

An audience that opens one link requests one state; one that presses Shift+R together requests one race. A job without
any requester is cancelled. Results are kept for later requests up to a number of bytes; measurements are kept only for
a short time, and a requester that has received one gets a new job.

The total size of all results, including the predicted results of running jobs, is limited, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any
from weakref import WeakSet

from compute.cli.settings import MIB
from compute.export.jobs import Job


class NoRoom(ValueError):
    """A job was refused because its result would exceed the memory limit; the text names the bytes and the limit."""


@dataclass(eq=False)
class SharedJob:
    """A job and its requesters.

    expected: predicted bytes of the result; size: measured bytes of the result; requesters: those that wait
    for the job or show its result; served: all requesters so far.
    """

    job: Job
    expected: int = 0
    size: int | None = None
    requesters: set[object] = field(default_factory=set)
    served: WeakSet[object] = field(default_factory=WeakSet)


class SharedJobs:
    """The jobs of one kind, by a key that identifies the result.

    size(result): bytes of a result; kept: limit in bytes for results without requesters; most(): limit in bytes for all
    results; fresh: seconds for which a measurement is shared; inf: results are no measurements and are always shared.
    All methods are called on the pages' event loop.
    """

    def __init__(
        self, size: Callable[[Any], int], kept: int, fresh: float = inf, most: Callable[[], float] = lambda: inf
    ) -> None:
        self._size, self.kept, self._fresh, self._most = size, kept, fresh, most
        self._jobs: dict[str, SharedJob] = {}  # ordered by the last request

    def ask(self, key: str, begin: Callable[[], Job], requester: object, expected: int = 0) -> SharedJob:
        """Return the job of `key`: the existing one, if `requester` may share it, or the one started by begin().

        expected: predicted bytes of the result. Raise NoRoom if they exceed the limit.
        """
        shared = self._jobs.pop(key, None)
        if shared is None or not self._serves(shared, requester):
            self._make_room(expected)
            shared = SharedJob(begin(), expected)
        self._jobs[key] = shared
        shared.requesters.add(requester)
        shared.served.add(requester)
        return shared

    def leave(self, shared: SharedJob, requester: object) -> None:
        """Remove the requester `requester`; cancel a job without requesters and drop results beyond `kept` bytes."""
        shared.requesters.discard(requester)
        if not shared.requesters:
            shared.job.cancel()
        left = {key: one for key, one in self._jobs.items() if not one.requesters}
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
            if not one.requesters:
                del self._jobs[key]
        if self.held + expected > most:
            raise NoRoom(
                f"it would take {expected / MIB:,.0f} MiB in addition to {self.held / MIB:,.0f} MiB of other states, "
                f"and {most / MIB:,.0f} MiB are allowed on this server (its setting memory)"
            )

    @property
    def held(self) -> int:
        """Bytes of all results, including the predicted results of running jobs."""
        return sum(map(self._held, self._jobs.values()))

    def _serves(self, shared: SharedJob, requester: object) -> bool:
        if not shared.job.over:
            return True
        return self._lasts(shared) and (self._fresh == inf or requester not in shared.served)

    def _lasts(self, shared: SharedJob) -> bool:
        """Return whether the job has a result that may be shared."""
        return shared.job.state == "done" and (self._fresh == inf or time.monotonic() - shared.job.ended < self._fresh)

    def _held(self, shared: SharedJob) -> int:
        if not shared.job.over:
            return shared.expected
        if shared.job.state != "done":
            return 0
        if shared.size is None:
            shared.size = self._size(shared.job.result)
        return shared.size
