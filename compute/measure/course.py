"""The course of a race in a lab whose work ends: one whole result, timed as `fieldlab bench` times a case.

A lab's benchmark makes the `Course` for values of the lab. `run_course` checks and times every backend on it with
the bench's own `CaseRun`: the same fixture, the same samples in shuffled rounds, the same statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import Backend
from compute.measure.case import Implementation, Row
from compute.measure.run import CHECKING, CaseRun, Pace
from compute.measure.sampling import LEAST_RUN, Budget

if TYPE_CHECKING:
    from compute.measure.benchmark import CaseBenchmark

SHARE = 6.0  # s of sampling for all lanes together
LONGEST_LANE = 90.0  # s for the check and fewest samples of a lane, since other processes use this machine, too
TURNS = 20  # moments on the way to the finish line at which a picture is shown


@dataclass(frozen=True)
class Course:
    """One whole result of a lab that ends, which lanes race for.

    case: a TimedCase; right: the reference in the form of the lab's own bench; kernel: returns the kernel of a backend
    for its BenchmarkFixture; timed: contents of a time, as text; said: formats a difference that a fixture found.

    unit: of the way to the finish line; marks: from 0 to the finish line, ascending. pictures: levels at each mark (one
    byte a pixel, row 0 the lowest); or curves: at each mark ((lower, upper), (|Ax - b|, |x|), λ), nan while unknown.
    ended: why the work ended, if other reasons than the goal are possible; else "".
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
    benchmark: CaseBenchmark, course: Course, backends: Sequence[Backend], progress: Callable[[float, str], object]
) -> list[Row]:
    """Check and time a whole result on each backend; return their rows in order. progress: of (fraction, text)."""
    budget = Budget(max(LONGEST_LANE * len(backends), LEAST_RUN))
    run = CaseRun(benchmark, course.case, course.right, SHARE, Pace(), budget, alone=LONGEST_LANE)
    try:
        with budget.excluding_builds():
            for number, backend in enumerate(backends):
                progress(CHECKING * number / len(backends), f"checking {backend.label}")
                run.check(Implementation(backend, "", course.kernel(backend)))
            run.sample(lambda part: progress(CHECKING + (1 - CHECKING) * part, "taking turns"))
    finally:
        run.close()
    return sorted(run.rows, key=lambda row: [backend.name for backend in backends].index(row.backend))


def turns(whole: int) -> tuple[int, ...]:
    """Return TURNS + 1 evenly spaced whole numbers from 0 to `whole`; fewer if `whole` is smaller than TURNS."""
    count = min(TURNS, whole)
    return tuple(whole * number // count for number in range(count + 1))
