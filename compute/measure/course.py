"""What is raced for in a lab whose work ends: one whole result, timed as `fieldlab bench` times a case.

A lab's benchmark makes the `Course` for values of the lab. `run_course` checks and times every backend on it with
the bench's own `CaseRun`: the same fixture, the same samples in shuffled rounds, the same statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compute.backends import Backend
from compute.measure.case import Implementation, Row
from compute.measure.run import CHECKING, CaseRun, Pace
from compute.measure.sampling import Deadline

if TYPE_CHECKING:
    from compute.measure.benchmark import CaseBenchmark

SHARE = 6.0  # s of sampling for all lanes together
LONGEST_LANE = 90.0  # s that a lane's check and fewest samples may take, as others work on this computer, too
TURNS = 20  # moments of the way to the finish line at which a picture is shown


@dataclass(frozen=True)
class Course:
    """One whole result of a lab that ends, which lanes race for.

    case: a TimedCase; right: the reference in the form of the lab's own bench; kernel: of a backend, what its
    BenchmarkFixture runs; timed: what is in a time, in words; said: a difference that a fixture has found, in words.

    unit: what the way to the finish line is counted in; marks: from 0 to the finish line, ascending. pictures: at each
    of them, levels (one byte a pixel, row 0 the lowest); or curves: at each, ((lower, upper), (|Ax - b|, |x|), λ), nan
    where nothing is known yet. ended: what ended it, in words, where that may be something else than the goal; else "".
    """

    case: Any
    right: Any
    kernel: Callable[[Backend], Any]
    timed: str
    said: Callable[[float], str]
    unit: str
    marks: tuple[int, ...]
    pictures: tuple[NDArray[np.uint8], ...] = ()
    curves: tuple[NDArray[np.float64], ...] = ()
    ended: str = ""


def run_course(
    benchmark: CaseBenchmark, course: Course, backends: Sequence[Backend], heard: Callable[[float, str], object]
) -> list[Row]:
    """Check and time a whole result on each backend; a row for each, in their order. heard(part, words): how far."""
    deadline = Deadline(LONGEST_LANE * len(backends))
    run = CaseRun(benchmark, course.case, course.right, SHARE, Pace(), deadline, alone=LONGEST_LANE)
    try:
        with deadline.watching_builds():
            for number, backend in enumerate(backends):
                heard(CHECKING * number / len(backends), f"checking {backend.label}")
                run.check(Implementation(backend, "", course.kernel(backend)))
            run.sample(lambda part: heard(CHECKING + (1 - CHECKING) * part, "taking turns"))
    finally:
        run.close()
    return sorted(run.rows, key=lambda row: [backend.name for backend in backends].index(row.backend))


def turns(whole: int) -> tuple[int, ...]:
    """Return TURNS + 1 whole numbers from 0 to `whole`, evenly spread; fewer where `whole` is smaller than TURNS."""
    count = min(TURNS, whole)
    return tuple(whole * number // count for number in range(count + 1))
