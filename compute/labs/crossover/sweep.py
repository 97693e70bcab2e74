"""Time against n, for several ways of one workload: checked first, then sampled in shuffled order.

Every way is compared with the reference at every n, from small to large; one that disagrees anywhere has no time at
all. (A plan may have some ways timed once before others are checked, but no way before itself.) Then rounds over all n,
shuffled, and at each n over the ways, shuffled: a sample each, until the quartiles have settled or the budget is over.
`measure` is a generator: it yields after each slice how far it is, and may be closed at any time; what was measured
until then is in `Sweep.points`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from time import perf_counter
from typing import Any

from compute.bench.cores import move_to_a_quiet_core
from compute.bench.measure import LEAST, MOST, steps_for
from compute.bench.samples import taken
from compute.labs.crossover.checks import Checks
from compute.labs.crossover.crossing import Crossing, crossing
from compute.labs.crossover.plan import Plan
from compute.labs.crossover.point import Point
from compute.labs.crossover.stand import Stand
from compute.timings import Spread

SAMPLE_SECONDS = 0.01  # length that a sample aims at: a bar that moves, and 1e4 ticks of the clock
# Rounds that are made even if the budget is over. One sample a visit: two in a row are alike, while the arrays of
# another visit lie elsewhere and the machine is in another mood. Quartiles of few long visits are so narrow that the
# next run misses them: a shared machine may be 1.6 times slower for seconds, so what counts is the number of visits.
ROUNDS = LEAST
TRANSFERS = 3  # of a way at an n: with large arrays they take longer than all else, and only their median is told
MOST_CALLS = 10_000  # in one sample
CHECKS = 0.3  # part of the progress that the checks are taken for


@dataclass(frozen=True)
class Progress:
    """How far a sweep is. done: part of the whole from 0 to 1; point: the one that changed last, None between two
    rounds, when nothing is open; rounds: that are whole.
    """

    done: float
    doing: str
    point: Point | None = None
    rounds: int = 0


class Sweep:
    """One run of `plan`. points: by way's name and n, all there from the start."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = perf_counter) -> None:
        self.plan, self._clock, self._random = plan, clock, Random(plan.seed)
        self._cores = Random(plan.seed)  # of its own: the order of visits does not depend on the machine
        self.points = {(way.name, n): Point(way, n) for way in plan.ways for n in sorted(set(plan.sizes))}
        self._start = 0.0  # of the sampling, moved on by what others took since

    def measure(self) -> Generator[Progress, None, None]:
        """Check, then sample; yields often. Closing it gives all memory back.

        The budget is for the sampling alone: neither the checks count, nor what the caller does between two slices.
        """
        groups = self.plan.groups
        for number, ways in enumerate(groups):
            points = {key: point for key, point in self.points.items() if point.way in ways}
            for piece in Checks(self.plan, points, Stand).run():
                yield Progress(CHECKS * (number + piece.done) / len(groups), piece.doing, piece.point)
            if number + 1 < len(groups):
                for point, inputs in self._round(fresh=True):
                    done = CHECKS * (number + 1) / len(groups)
                    yield from (Progress(done, _timing(point), point) for _ in self._visit(point, inputs))
        self._start = self._clock()
        for progress in self._sample():
            left = self._clock()
            yield progress
            self._start += self._clock() - left

    def series(self, way: str, transfer: bool = False) -> dict[int, Spread]:
        """Seconds a call by n, right results only; with the median transfer added if that is asked for.

        Raises ValueError if transfers are asked for and were not measured.
        """
        if transfer and not self.plan.split:
            raise ValueError("transfers were not measured: the plan's split is False")
        found = {}
        for point in (point for (name, _), point in self.points.items() if name == way):
            if point.measurement:
                step, extra = point.measurement.step, point.transfer.median if transfer else 0.0
                found[point.n] = Spread(step.median + extra, step.q1 + extra, step.q3 + extra, step.n)
        return found

    def crossing(self, slow: str, fast: str, transfer: bool = False) -> Crossing:
        """From which n on the way `fast` is faster than `slow`; ValueError if fewer than two n are common to both."""
        return crossing(self.series(slow, transfer), self.series(fast, transfer))

    def _sample(self) -> Iterator[Progress]:
        """Rounds over what is right: the first ROUNDS of them whole, further ones until the budget is over."""
        points = self._right()
        for number in range(1 + MOST):
            for visited, (point, inputs) in enumerate(self._round()):
                late = self._clock() - self._start > self.plan.budget
                if late and number >= ROUNDS:
                    return
                for _ in self._visit(point, inputs):
                    yield Progress(self._part(number + visited / len(points)), _timing(point), point, number)
            if all(point.finished for point in self._right()):
                return
            yield Progress(self._part(number + 1), "between two rounds", None, number + 1)

    def _part(self, rounds: float) -> float:
        """Of the whole, after so many rounds."""
        part = min(1.0, (self._clock() - self._start) / self.plan.budget)
        return CHECKS + (1 - CHECKS) * part * min(1.0, rounds / ROUNDS)

    def _round(self, fresh: bool = False) -> Iterator[tuple[Point, tuple[Any, ...]]]:
        """Every n at which a way is not finished, in random order, and all the ways there, with their inputs.

        All of them, finished or not: ways that are compared are sampled in the same spells of the machine, and none
        ends at its first few samples that happen to be alike. fresh: only those without a sample.
        """
        points = [point for point in self._right() if not (fresh and point.samples)]
        for n in self._shuffled(sorted({point.n for point in points if not point.finished})):
            inputs = self.plan.case(n).inputs(self.plan.seed)
            for point in self._shuffled([point for point in points if point.n == n]):
                yield point, inputs

    def _right(self) -> list[Point]:
        return [point for point in self.points.values() if point.status in ("checked", "measured")]

    def _shuffled(self, items: list[Any]) -> list[Any]:
        self._random.shuffle(items)
        return items

    def _visit(self, point: Point, inputs: tuple[Any, ...]) -> Iterator[None]:
        """A sample, after calls that do not count; each is a slice."""
        try:
            move_to_a_quiet_core(self._cores)
            with Stand(point.way, self.plan.case(point.n), inputs) as stand:
                yield
                steps = self._warm(stand, point)
                yield
                if self.plan.evict:
                    stand.evict()
                elif steps > 1:
                    stand.time(1)  # something else may have had its turn since: threads sleep, caches are cold
                point.samples.append(taken(partial(stand.time, steps), self.plan.listen))
                point.status = "measured"
                yield
                if self.plan.split and len(point.transfers) < TRANSFERS:
                    point.transfers.append(stand.transfer())
        except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
            point.fail(error)

    def _warm(self, stand: Stand, point: Point) -> int:
        """Calls that do not count; how many make a sample."""
        stand.time(1)
        if self.plan.evict or point.call_seconds > SAMPLE_SECONDS:
            return 1
        steps = steps_for(stand.time(1).compute, SAMPLE_SECONDS, MOST_CALLS)
        pace = stand.time(steps).step_seconds  # that one call may have had to wake threads
        return steps_for(pace, SAMPLE_SECONDS, MOST_CALLS)


def _timing(point: Point) -> str:
    return f"timing {point.way.label}, n = {point.n:,}"
