"""One sample of a bench as it happened: when, what it took, and when its parts ran."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter

from compute.spans import Journal, Span, listening
from compute.timings import Timing


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


def taken(call: Callable[[], Timing], listen: bool = False) -> Sample:
    """Call it, and note when; the parts as well if `listen`, which costs about a microsecond a stopwatch."""
    with listening() if listen else nullcontext(Journal("")) as heard:
        began = perf_counter()
        timing = call()
        ended = perf_counter()
    return Sample(began, ended, timing, heard.spans, heard.left_out)
