"""How long a bench may take: its budget holds for the whole run, checks and roofs included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from compute.builds import watching

LEAST_RUN = 30.0  # seconds that a run may take however small its budget: what checks and five samples of each need
OVER = "the budget of the whole run was over"
KEPT = "what is measured is kept if you interrupt it"


class Deadline:
    """The end of a run that has begun now. budget: seconds for all of it; compiling kernels is no part of them."""

    def __init__(self, budget: float, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._end = clock() + max(budget, LEAST_RUN)

    @property
    def left(self) -> float:
        """Seconds that are left; 0 when it is over."""
        return max(0.0, self._end - self._clock())

    @property
    def over(self) -> bool:
        """Whether nothing may be begun any more."""
        return self.left <= 0.0

    @contextmanager
    def watching_builds(self) -> Iterator[None]:
        """Move the end by the time that this thread takes in the block to build kernels."""

        def ended() -> None:
            """A kernel has been built."""
            self._end += builds.seconds

        with watching(ended=ended) as builds:
            yield
