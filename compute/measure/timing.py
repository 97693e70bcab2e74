"""What one timed call took, part by part, and when its parts ran.

A `Timing` is what a frame, a slice or a sample took. Stopwatches note when its parts ran (`Span`) while somebody
listens (`listening`), and cost nothing else otherwise. A `Sample` is a call timed on purpose, with its moments.

All moments are readings of `time.perf_counter`, which every process of one machine shares. On a GPU only the length of
a part is known from its events; it is placed where the host saw it end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import nan
from time import perf_counter
from typing import Any, NamedTuple

PARTS = ("launch", "compute", "levels", "transfer", "delivery")
MOST_SPANS = 50  # spans kept of one sample or frame; further ones are counted


class Span(NamedTuple):
    """A part (one of PARTS) that was seen to end at `ended` after `seconds`."""

    part: str
    ended: float
    seconds: float

    @property
    def began(self) -> float:
        """When it began, as far as the host knows."""
        return self.ended - self.seconds


class SpanJournal:
    """What is heard. part: of what stopwatches time now; left_out: spans beyond MOST_SPANS."""

    def __init__(self, part: str) -> None:
        self.part, self.left_out = part, 0
        self._spans: list[Span] = []

    @property
    def spans(self) -> tuple[Span, ...]:
        """Those kept, as they were noted."""
        return tuple(self._spans)

    def add(self, span: Span) -> None:
        """Keep a span, or count it."""
        if len(self._spans) < MOST_SPANS:
            self._spans.append(span)
        else:
            self.left_out += 1


@dataclass(frozen=True)
class Timing:
    """Where the time of one frame went, in seconds; nan where a part was not measured.

    launch: host time to enqueue the kernels; compute: device time of the kernels alone; levels: reducing to screen
    size and one byte a pixel; transfer: device to host; delivery: from the server's write to the browser's paint.
    steps: sub-steps the frame advanced; cells: grid cells updated by one of them; first_call: holds compilation;
    devices: how many computed it together; share: the part of what a step of its lab needs at least, by the lab's Rate,
    that this way took, below 1 where one reading serves twice; regions: parallel regions of a step that woke the
    host's threads, 0 if it ran on one thread, nan where they were not counted; spans: when the parts ran, as far as
    somebody listened.
    """

    backend: str
    variant: str
    steps: int
    cells: int
    launch: float = nan
    compute: float = nan
    levels: float = nan
    transfer: float = nan
    delivery: float = nan
    first_call: bool = False
    devices: int = 1
    share: float = 1.0
    regions: float = field(default=nan, compare=False)
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled with plain spans, which takes a tenth of the time: each frame has six."""
        return _timing, ({**vars(self), "spans": tuple(map(tuple, self.spans))},)

    @property
    def step_seconds(self) -> float:
        """Compute seconds of one sub-step; nan if the frame advanced none."""
        return self.compute / self.steps if self.steps else nan

    def then(self, later: Timing) -> Timing:
        """The timing of two advances, this one and a later one, together."""
        return replace(
            self,
            steps=self.steps + later.steps,
            launch=self.launch + later.launch,
            compute=self.compute + later.compute,
            first_call=self.first_call or later.first_call,
        )


def _timing(values: dict[str, Any]) -> Timing:
    timing: Timing = object.__new__(Timing)
    vars(timing).update(values, spans=tuple(map(Span._make, values["spans"])))
    return timing


_listening: ContextVar[SpanJournal | None] = ContextVar("journal", default=None)


@contextmanager
def listening(part: str = "compute") -> Iterator[SpanJournal]:
    """Hear every stopwatch of this thread until the end of the block; what they time is `part`."""
    journal = SpanJournal(part)
    token = _listening.set(journal)
    try:
        yield journal
    finally:
        _listening.reset(token)


def note_span(ended: float, seconds: float, part: str = "") -> None:
    """A part has ended; without a name it is what stopwatches time now."""
    journal = _listening.get()
    if journal is not None:
        journal.add(Span(part or journal.part, ended, seconds))


@dataclass(frozen=True)
class Sample:
    """A call that was timed. began, ended: perf_counter seconds around it; spans: its parts, where stopwatches ran.

    A timing marked first_call is the cold one, which is in no median; left_out: parts beyond those kept.
    """

    began: float
    ended: float
    timing: Timing
    spans: tuple[Span, ...] = ()
    left_out: int = 0


def take_sample(call: Callable[[], Timing], listen: bool = False) -> Sample:
    """Call it, and note when; the parts as well if `listen`, which costs about a microsecond a stopwatch."""
    with listening() if listen else nullcontext(SpanJournal("")) as heard:
        began = perf_counter()
        timing = call()
        ended = perf_counter()
    return Sample(began, ended, timing, heard.spans, heard.left_out)
