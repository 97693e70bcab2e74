"""Jobs whose result several pages ask for at once: each is done once, and who asks later shares it.

A hall that opens one link asks for one state; one that is told to press Shift+R asks for one race. What nobody waits
for is cancelled. Results stay for who comes late, up to a number of bytes; those that are measurements for a short time
only, and for nobody who has had them: who asks again wants another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any
from weakref import WeakSet

from compute.export.jobs import Job


@dataclass(eq=False)
class SharedJob:
    """A job and who waits for it, or shows its result. asked: who ever did, as long as they are there."""

    job: Job
    asking: set[object] = field(default_factory=set)
    asked: WeakSet[object] = field(default_factory=WeakSet)


class SharedJobs:
    """The jobs of one kind, each by a text that says all that its result depends on.

    size(result): bytes that a result holds; kept: bytes of results that nobody shows any more, at most; fresh: seconds
    for which a result that is a measurement serves others; inf: it is none, and serves everybody. All of it is called
    on the loop of the pages.
    """

    def __init__(self, size: Callable[[Any], int], kept: int, fresh: float = inf) -> None:
        self._size, self.kept, self._fresh = size, kept, fresh
        self._jobs: dict[str, SharedJob] = {}  # the last that was asked for is the last

    def ask(self, key: str, begin: Callable[[], Job], asking: object) -> SharedJob:
        """Return the job of that key: the one that is there, if it serves `asking`, or what begin() has started."""
        shared = self._jobs.pop(key, None)
        if shared is None or not self._serves(shared, asking):
            shared = SharedJob(begin())
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

    @property
    def held(self) -> int:
        """Bytes of all results."""
        return sum(map(self._held, self._jobs.values()))

    def _serves(self, shared: SharedJob, asking: object) -> bool:
        if not shared.job.over:
            return True
        return self._lasts(shared) and (self._fresh == inf or asking not in shared.asked)

    def _lasts(self, shared: SharedJob) -> bool:
        """Whether it has a result that may serve somebody yet."""
        return shared.job.state == "done" and (self._fresh == inf or time.monotonic() - shared.job.ended < self._fresh)

    def _held(self, shared: SharedJob) -> int:
        return self._size(shared.job.result) if shared.job.state == "done" else 0
