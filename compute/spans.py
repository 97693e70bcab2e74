"""When the parts of a timing happened: stopwatches note it while somebody listens, and cost nothing else otherwise.

All moments are readings of `time.perf_counter`, which every process of one machine shares. On a GPU only the length of
a part is known from its events; it is placed where the host saw it end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

MOST = 50  # spans kept of one sample or frame; further ones are counted


class Span(NamedTuple):
    """A part (one of compute.timings.PARTS) that was seen to end at `ended` after `seconds`."""

    part: str
    ended: float
    seconds: float

    @property
    def began(self) -> float:
        """When it began, as far as the host knows."""
        return self.ended - self.seconds


class Journal:
    """What is heard. part: of what stopwatches time now; left_out: spans beyond MOST."""

    def __init__(self, part: str) -> None:
        self.part, self.left_out = part, 0
        self._spans: list[Span] = []

    @property
    def spans(self) -> tuple[Span, ...]:
        """Those kept, as they were noted."""
        return tuple(self._spans)

    def add(self, span: Span) -> None:
        """Keep a span, or count it."""
        if len(self._spans) < MOST:
            self._spans.append(span)
        else:
            self.left_out += 1


_listening: ContextVar[Journal | None] = ContextVar("journal", default=None)


@contextmanager
def listening(part: str = "compute") -> Iterator[Journal]:
    """Hear every stopwatch of this thread until the end of the block; what they time is `part`."""
    journal = Journal(part)
    token = _listening.set(journal)
    try:
        yield journal
    finally:
        _listening.reset(token)


def note(ended: float, seconds: float, part: str = "") -> None:
    """A part has ended; without a name it is what stopwatches time now."""
    journal = _listening.get()
    if journal is not None:
        journal.add(Span(part or journal.part, ended, seconds))
