"""The duration of one timed call, part by part, and when its parts ran.

A `Timing` is the time of a frame, a slice or a sample. Inside `listening`, stopwatches also record when its parts ran
(`Span`); outside they record no spans. A `Sample` is a call timed for a measurement, with its start and end.

All moments are readings of `time.perf_counter`, which every process of one machine shares. CUDA events give only the
length of a part on a GPU; the part ends when the host observed its end.
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
    """A part (one of PARTS) that the host observed to end at `ended` after `seconds`."""

    part: str
    ended: float
    seconds: float

    @property
    def began(self) -> float:
        """The start, calculated from the end that the host observed."""
        return self.ended - self.seconds


class SpanJournal:
    """The spans recorded by `listening`. part: current part of the stopwatches; left_out: spans beyond MOST_SPANS."""

    def __init__(self, part: str) -> None:
        self.part, self.left_out = part, 0
        self._spans: list[Span] = []

    @property
    def spans(self) -> tuple[Span, ...]:
        """The stored spans, in the order of their ends."""
        return tuple(self._spans)

    def add(self, span: Span) -> None:
        """Store a span, or count it beyond MOST_SPANS."""
        if len(self._spans) < MOST_SPANS:
            self._spans.append(span)
        else:
            self.left_out += 1


@dataclass(frozen=True)
class Timing:
    """The time of one frame by parts, in seconds; nan for unmeasured parts.

    launch: host time to enqueue the kernels; compute: device time of the kernels alone; levels: reducing to screen
    size and one byte a pixel; transfer: device to host; delivery: from the server's write to the browser's paint.
    steps: sub-steps the frame advanced; cells: grid cells updated by one of them; first_call: includes compilation;
    devices: number of devices that computed it together; share: fraction of the `need` of the lab's Rate that this way
    used, below 1 if one reading serves twice; regions: parallel regions of a step that woke the host's threads, 0 if it
    ran on one thread, nan if not counted; clock_rate: of the GPU after it, see clocks.py; spans: when the parts ran, if
    recorded.
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
    clock_rate: float = field(default=nan, compare=False)
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with plain tuples as spans, ten times as fast: each frame has six."""
        return _timing, ({**vars(self), "spans": tuple(map(tuple, self.spans))},)

    @property
    def step_seconds(self) -> float:
        """Compute seconds of one sub-step; nan if the frame advanced none."""
        return self.compute / self.steps if self.steps else nan

    def then(self, later: Timing) -> Timing:
        """Return the combined timing of this advance and a later one."""
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
    """Record every stopwatch of this thread until the end of the block, as the part `part`."""
    journal = SpanJournal(part)
    token = _listening.set(journal)
    try:
        yield journal
    finally:
        _listening.reset(token)


def note_span(ended: float, seconds: float, part: str = "") -> None:
    """Record the end of a part, by default the current part of the stopwatches."""
    journal = _listening.get()
    if journal is not None:
        journal.add(Span(part or journal.part, ended, seconds))


@dataclass(frozen=True)
class Sample:
    """A timed call. began, ended: perf_counter seconds around it; spans: its parts, if stopwatches recorded any.

    A timing marked first_call is cold and excluded from medians; left_out: number of parts that were not stored.
    """

    began: float
    ended: float
    timing: Timing
    spans: tuple[Span, ...] = ()
    left_out: int = 0


def take_sample(call: Callable[[], Timing], listen: bool = False) -> Sample:
    """Call `call` and record when; with `listen` also its parts, which costs about a microsecond a stopwatch."""
    with listening() if listen else nullcontext(SpanJournal("")) as journal:
        began = perf_counter()
        timing = call()
        ended = perf_counter()
    return Sample(began, ended, timing, journal.spans, journal.left_out)
