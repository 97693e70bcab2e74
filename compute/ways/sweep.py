"""Time against n, for several ways of one workload: checked first, then sampled in shuffled order.

Every way is compared with the reference at every n, from small to large; a way that disagrees at one n gets no time at
all. (A plan may have some ways timed once before others are checked, but each way is checked before it is timed.) Then
rounds over all n, shuffled, and at each n over the ways, shuffled, take one sample each until the quartiles have
settled or the budget is used up. `Checks.run` and `Sweep.measure` are generators of short pieces: they yield their
progress after each slice, so that other labs on the device get their turn, and can be closed at any time; the
measurements up to then are in `Sweep.points`. Only one sweep of a process keeps large arrays at a time (arrays.py);
the others report that they wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite
from operator import attrgetter
from random import Random
from time import perf_counter
from typing import Any

from compute.devices.devices import Host
from compute.measure.agreement import disagreement, memory_shortage
from compute.measure.clocks import with_clock_rate
from compute.measure.sampling import (
    LEAST_SAMPLES,
    Budget,
    expected_seconds,
    move_to_a_quiet_core,
    rounds,
    shuffled_groups,
    steps_for,
)
from compute.measure.timing import Sample, Timing, take_sample
from compute.ways.arrays import SweepArrays
from compute.ways.plan import Point, SweepPlan
from compute.ways.runner import WorkloadRunner
from compute.ways.workload import Case, Way

SAMPLE_SECONDS = 0.01  # length of a sample: short enough for live progress, and 1e4 ticks of the clock
# Rounds made even if the budget is used up. One sample per visit: two in a row are alike, while another visit has its
# arrays at other addresses and finds the machine in another state. Quartiles of few long visits are so narrow that the
# next run misses them: a shared machine may be 1.6 times slower for seconds, so the number of visits is what counts.
ROUNDS = LEAST_SAMPLES
TRANSFERS = 3  # of a way at an n: for large arrays they take the longest, and only their median is reported
MOST_CALLS = 10_000  # per sample
CHECKS = 0.3  # fraction of the progress assigned to the checks
OVERHEAD = 1e-3  # seconds of a call that may be launches and threads waking up, which do not grow with n
SLOWEST = 1e8  # least bytes per second when arrays are created and compared; anything slower is compiling
AGAIN = 0.1  # seconds: a longer call is not repeated to determine its pace
TELLING = 0.01  # seconds of a reference above which it grows with n: shorter times may be call overhead
TRIAL_FACTOR = 3  # between two n of the trials
WAITING = "waiting for another sweep on this device, whose arrays are large"

SIZE: Callable[[Point], int] = attrgetter("n")
SAMPLES: Callable[[Point], list[Sample]] = attrgetter("samples")
PointsByWay = Mapping[tuple[str, int], Point]  # by name of the way and n


@dataclass(frozen=True)
class SweepProgress:
    """Progress of a sweep. done: completed fraction; point: the last point that changed, None between two rounds, when
    no arrays are in use; rounds: completed rounds; waits: no work was done, since another sweep of this process has
    its arrays in memory.
    """

    done: float
    doing: str
    point: Point | None = None
    rounds: int = 0
    waits: bool = False

    @property
    def between_rounds(self) -> bool:
        """Whether a round has just been completed."""
        return self.point is None and self.rounds > 0


class Checks:
    """Compare `points` of `plan` with the reference, from small n to large, and store the results in them.

    Only correct points are timed afterwards.
    """

    def __init__(self, plan: SweepPlan, points: PointsByWay, arrays: SweepArrays | None = None) -> None:
        self._plan, self._points, self._arrays = plan, points, arrays or SweepArrays()
        self._references: dict[int, float] = {}  # seconds by n
        self._trials: dict[str, tuple[int, float]] = {}  # by way: an n below the plan's, and the seconds of a call

    def run(self) -> Iterator[SweepProgress]:
        """Check every way against the reference; yield after each."""
        for point in self._points.values():
            if point.way.missing:
                help_ = point.way.backend.install
                point.refuse("missing", f"{point.way.missing}; {help_}" if help_ else point.way.missing)
            elif self._plan.dtype not in point.way.backend.dtypes:
                point.refuse("missing", f"{point.way.backend.label} has no {self._plan.dtype}")
        sizes = sorted({n for _, n in self._points})
        if self._plan.longest and any(point.status == "waiting" for point in self._points.values()):
            yield SweepProgress(0.0, "trying the reference at small n")
            self._try_reference(sizes[0], self._plan.longest)
        for number, n in enumerate(sizes):
            case = self._plan.case(n)
            points = [point for (_, m), point in self._points.items() if m == n and self._feasible(point, case)]
            if points:
                yield SweepProgress(number / len(sizes), f"reference, n = {n:,}")
                make, work = partial(self._reference, case), partial(self._compare, case)
                for progress in with_arrays(self._arrays, points, case, make, work, "checking"):
                    yield replace(progress, done=number / len(sizes))
        self._spread_disagreement()

    def _reference(self, case: Case) -> tuple[Any, Any]:
        """Return the inputs and the reference results, and note the seconds that both took together."""
        start = perf_counter()
        inputs = case.inputs(self._plan.seed)
        truth = case.reference(inputs)
        self._references[case.n] = perf_counter() - start
        return inputs, truth

    def _try_reference(self, least: int, longest: float) -> None:
        """Time the reference below `least`, the first n of the plan, starting with the workload's least n.

        Stop as soon as a time predicts the time at `least`: before any sweep it is unknown, and `least` may be the
        workload's largest n.
        """
        for n in self._sizes_below(least):
            self._reference(self._plan.case(n))
            if self._references[n] < AGAIN:
                first = self._references[n]  # may have loaded a library
                self._reference(self._plan.case(n))
                self._references[n] = min(first, self._references[n])
            if self._references[n] >= min(TELLING, longest):
                return

    def _sizes_below(self, least: int) -> Iterator[int]:
        """Yield the n of the trials below `least`, starting with the workload's least n."""
        n = self._plan.workload.sizes[0]
        while n < least:
            yield n
            n *= TRIAL_FACTOR

    def _compare(self, case: Case, point: Point, inputs: Any, truth: Any) -> Generator[None, None, None]:
        yield  # to report the point
        try:
            start = perf_counter()
            with WorkloadRunner(point.way, case, inputs) as runner:
                made = perf_counter() - start
                yield  # to the other labs, for any length of time
                start = perf_counter()
                found = runner.check(truth)
                compared = perf_counter() - start - found.first_call
                point.handling = max(0.0, made, compared)
                point.difference, point.first_call = found.difference, found.first_call
                point.cold = _cold(point, start)
                yield
                point.call_seconds = runner.time(1).compute
                if point.call_seconds < AGAIN:
                    point.call_seconds = min(point.call_seconds, runner.time(1).compute)
        except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
            point.fail(error)
            return
        point.status = "checked"
        if reason := disagreement(found.difference, case.tolerance):
            point.refuse("disagrees", reason)

    def _feasible(self, point: Point, case: Case) -> bool:
        """Return whether the way is available and time and memory allow this n; the point notes why not."""
        if point.status == "waiting":
            try:
                reason = self._too_slow(point, case)
            except Exception as error:  # noqa: BLE001 as in _compare
                point.fail(error)
            else:
                point.refuse("skipped" if reason else "waiting", reason)
        return point.status == "waiting" and _fits(point, case)

    def _too_slow(self, point: Point, case: Case) -> str:
        """Return why a call would take too long, predicted from the largest n tried; empty if it would not."""
        return next(
            (f"about {expected:.2g} s {what}; limit {limit:.2g} s"
             for expected, limit, what in self._expected(point, case) if expected > limit),
            "",
        )  # fmt: skip

    def _expected(self, point: Point, case: Case) -> Iterator[tuple[float, float, str]]:
        """Yield the expected seconds of each piece of work at the point, their limit and the name of the piece."""
        allowed, longest = self._plan.call_allowed, self._plan.longest or inf
        before = [p for (name, n), p in self._points.items() if name == point.way.name and n < point.n]
        known = [p for p in before if isfinite(p.call_seconds)]
        if known:
            arithmetic, memory = self._growth(known[-1].n, case, point.way)
            calls = {p.n: p.call_seconds for p in known}
            yield expected_seconds(calls, point.n, max(arithmetic, memory), OVERHEAD), allowed, "a call"
            handling = expected_seconds(self._handling(known), point.n, memory)
            yield handling, longest, "to prepare and compare its arrays"
        if self._references and point.n not in self._references:
            n = max(self._references)
            yield self._references[n] * self._growth(n, case)[1], longest, "for the reference"
        if not known and self._plan.longest and point.way.backend.kind == "cpu":
            n, seconds = self._trial(point.way, point.n)
            if seconds >= TELLING:
                yield seconds * max(self._growth(n, case, point.way)), allowed, "a call"

    def _trial(self, way: Way, least: int) -> tuple[int, float]:
        """Return an n below `least` whose call predicts that at `least`, and its seconds; the largest if all are fast.

        The previous n must have been slow as well: at a small n, waking threads may dominate. Ways on a GPU are not
        tried, since some compile again for each n.
        """
        if way.name not in self._trials:
            found, before = (0, 0.0), 0.0
            for n in self._sizes_below(least):
                if min(before, found[1]) >= TELLING:
                    break
                before, case = found[1], self._plan.case(n)
                with WorkloadRunner(way, case, case.inputs(self._plan.seed)) as runner:
                    first = runner.time(1).compute  # may compile
                    found = n, min(first, runner.time(1).compute) if first < AGAIN or not found[0] else first
            self._trials[way.name] = found
        return self._trials[way.name]

    def _handling(self, known: list[Point]) -> dict[int, float]:
        """Return the handling time by n tried; the first is dropped, or capped as it may include compilation."""
        first = known[0]
        capped = min(first.handling, self._plan.case(first.n).work(first.way).moved / SLOWEST)
        return {point.n: point.handling for point in known[1:]} or {first.n: capped}

    def _growth(self, n: int, case: Case, way: Way | None = None) -> tuple[float, float]:
        """Return the ratios of operations and of bytes between the case and n."""
        before, now = self._plan.case(n).work(way), case.work(way)
        return now.flops / max(before.flops, 1.0), now.moved / before.moved

    def _spread_disagreement(self) -> None:
        """Reject a way at every n if it disagrees at one n."""
        for wrong in [point for point in self._points.values() if point.status == "disagrees"]:
            for point in self._points.values():
                if point.way == wrong.way and point.status == "checked":
                    point.refuse("disagrees", f"at n = {wrong.n:,} it {wrong.reason}")


def _cold(point: Point, began: float) -> Sample:
    """Return the first call as a sample."""
    way, seconds = point.way, point.first_call
    timing = Timing(way.backend.name, way.variant, 1, point.n, 0.0, seconds, first_call=True)
    return Sample(began, began + seconds, timing)


def _fits(point: Point, case: Case) -> bool:
    """Return whether device and host have enough free memory now; a point without a sample notes why not."""
    try:
        free = min(point.way.backend.open_device().free_bytes(), Host().free_bytes())
        reason = memory_shortage(case.work(point.way).memory, free)
    except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
        point.fail(error)
        return False
    if reason and not point.samples:
        point.refuse("skipped", reason)
    return not reason


def with_arrays(
    arrays: SweepArrays,
    points: Iterable[Point],
    case: Case,
    make: Callable[[], tuple[Any, ...]],
    work: Callable[..., Generator[None, None, None]],
    doing: str,
) -> Iterator[SweepProgress]:
    """Run work(point, *make()) for each point, and yield after each slice of it.

    The arrays that `make` returns are in memory until the last point; a point whose arrays were dropped for another
    sweep is repeated. Points whose arrays do not fit into memory are left out.
    """
    left = deque(points)
    while left:
        with closing(arrays):
            for _ in arrays.wait(max(case.work(point.way).memory for point in left)):
                yield SweepProgress(0.0, WAITING, left[0], waits=True)
            left = deque(point for point in left if _fits(point, case))
            if left:
                arrays.keep(*make())
            while left and arrays.kept:
                progress = SweepProgress(0.0, f"{doing} {left[0].way.label}, n = {case.n:,}", left[0])
                for _ in arrays.run(partial(work, left[0])):
                    yield progress
                if arrays.kept:
                    left.popleft()


class Sweep:
    """One run of `plan`. points: all points of the plan by name of the way and n."""

    def __init__(self, plan: SweepPlan, clock: Callable[[], float] = perf_counter) -> None:
        self.plan, self._random = plan, Random(plan.seed)
        self._cores = Random(plan.seed)  # separate, so that the order of visits does not depend on the machine
        self.points = {(way.name, n): Point(way, n) for way in plan.ways for n in sorted(set(plan.sizes))}
        self._budget = Budget(plan.budget, clock, running=False)  # of the sampling
        self._visits = 0  # samples taken
        self._arrays = SweepArrays()

    @property
    def held_up(self) -> bool:
        """Whether a waiting sweep must keep waiting; reading this keeps its place in the queue."""
        return self._arrays.held_up

    def wants_its_turn(self) -> None:
        """Note that the sweep is not paused, so that it keeps its arrays until its next slice."""
        self._arrays.left()

    def measure(self) -> Generator[SweepProgress, None, None]:
        """Check, then sample; yield often. Closing the generator releases all memory.

        The budget is for the sampling only: checks, and the caller's time between two slices, do not count.
        """
        with closing(self._arrays) as arrays, closing(self._pieces()) as pieces:
            for progress in pieces:
                arrays.left()
                yield progress
                arrays.went_on()

    def _pieces(self) -> Generator[SweepProgress, None, None]:
        """Yield the progress that `measure` passes on."""
        groups = self.plan.groups
        for number, ways in enumerate(groups):
            points = {key: point for key, point in self.points.items() if point.way in ways}
            for progress in Checks(self.plan, points, self._arrays).run():
                yield replace(progress, done=CHECKS * (number + progress.done) / len(groups))
            if number + 1 < len(groups):
                fresh = [point for point in self._agreeing() if not point.samples]
                for together in shuffled_groups(fresh, SIZE, self._random):
                    for progress in self._visited(together):
                        yield replace(progress, done=CHECKS * (number + 1) / len(groups))
        with self._budget.counting(True):
            for progress in self._sample():
                with self._budget.counting(False):
                    yield progress

    def snapshot(self) -> dict[str, Any]:
        """Return {"points": snapshots by name of the way and n}."""
        return {"points": {key: point.snapshot() for key, point in self.points.items()}}

    def restore(self, snapshot: Mapping[str, Any]) -> bool:
        """Restore the points of a `snapshot`; return False and change nothing for another plan."""
        if set(self.points) != set(snapshot["points"]):
            return False
        for key, known in snapshot["points"].items():
            self.points[key].restore(known)
        return True

    def _sample(self) -> Iterator[SweepProgress]:
        """Run rounds over the correct points: the first ROUNDS completely, further ones until the budget is used up.

        The ways are sampled with the same inputs, n by n.
        """
        self._visits = 0
        scheduled = rounds(self._agreeing, SAMPLES, self._budget, self._random, lambda _: ROUNDS, SIZE)
        for number, groups in enumerate(scheduled):
            if number:
                yield SweepProgress(self._part_done(number), "between two rounds", None, number)
            for together in groups:
                if number >= ROUNDS and self._budget.over:
                    return
                for progress in self._visited(together, number >= ROUNDS):
                    yield replace(progress, done=self._part_done(number), rounds=number)

    def _part_done(self, completed: int) -> float:
        """Return the completed fraction of the whole after `completed` rounds and the visits since then."""
        part = max(completed, self._visits / max(1, len(self._agreeing()))) / ROUNDS
        return CHECKS + (1 - CHECKS) * self._budget.part * min(1.0, part)

    def _agreeing(self) -> list[Point]:
        """Return the correct points, by n."""
        found = [point for point in self.points.values() if point.status in ("checked", "measured")]
        return sorted(found, key=SIZE)

    def _visited(self, points: Iterable[Point], may_end: bool = False) -> Iterator[SweepProgress]:
        """Take a sample of each of the points, which have the same n. may_end: only while the budget lasts."""
        points = list(points)
        case = self.plan.case(points[0].n)
        work = partial(self._visit, case, may_end)
        return with_arrays(self._arrays, points, case, lambda: (case.inputs(self.plan.seed),), work, "timing")

    def _visit(
        self, case: Case, may_end: bool, point: Point, inputs: tuple[Any, ...]
    ) -> Generator[None, None, None]:  # fmt: skip
        """Take a sample, after calls that do not count; each is a slice."""
        if may_end and self._budget.over:
            return
        try:
            move_to_a_quiet_core(self._cores)
            with WorkloadRunner(point.way, case, inputs) as runner:
                yield
                steps = self._warm_up(runner, point)
                yield
                if self.plan.evict:
                    runner.evict()
                elif steps > 1:
                    runner.time(1)  # another lab may have had its turn: threads sleep, caches are cold
                sample = take_sample(partial(runner.time, steps), self.plan.listen)
                point.samples.append(with_clock_rate(sample, runner.device))
                point.status = "measured"
                self._visits += 1
                yield
                if self.plan.split and len(point.transfers) < TRANSFERS:
                    point.transfers.append(runner.transfer())
        except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
            point.fail(error)

    def _warm_up(self, runner: WorkloadRunner, point: Point) -> int:
        """Make calls that do not count; return the number of calls per sample."""
        runner.time(1)
        if self.plan.evict or point.call_seconds > SAMPLE_SECONDS:
            return 1
        steps = steps_for(runner.time(1).compute, SAMPLE_SECONDS, MOST_CALLS)
        pace = runner.time(steps).step_seconds  # the previous call may have had to wake threads
        return steps_for(pace, SAMPLE_SECONDS, MOST_CALLS)
