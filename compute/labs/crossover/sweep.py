"""Time against n, for several ways of one workload: checked first, then sampled in shuffled order.

Every way is compared with the reference at every n, from small to large; one that disagrees anywhere has no time at
all. (A plan may have some ways timed once before others are checked, but no way before itself.) Then rounds over all n,
shuffled, and at each n over the ways, shuffled: a sample each, until the quartiles have settled or the budget is over.
`Checks.run` and `Sweep.measure` are generators of short pieces: they yield after each slice how far they are, so that
others on the device have their turn between, and may be closed at any time; what was measured until then is in
`Sweep.points`. Large arrays are held by one sweep of a process at a time (arrays.py); others say that they wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from random import Random
from time import perf_counter
from typing import Any, NamedTuple

from compute.devices import Host
from compute.labs.crossover.arrays import SweepArrays
from compute.labs.crossover.plan import Point, SweepPlan
from compute.labs.crossover.runner import WorkloadRunner
from compute.labs.crossover.workload import Case, Way
from compute.measure.sampling import LEAST_SAMPLES, MOST_SAMPLES, move_to_a_quiet_core, steps_for
from compute.measure.timing import Sample, Timing, take_sample

SAMPLE_SECONDS = 0.01  # length that a sample aims at: a bar that moves, and 1e4 ticks of the clock
# Rounds that are made even if the budget is over. One sample a visit: two in a row are alike, while the arrays of
# another visit lie elsewhere and the machine is in another mood. Quartiles of few long visits are so narrow that the
# next run misses them: a shared machine may be 1.6 times slower for seconds, so what counts is the number of visits.
ROUNDS = LEAST_SAMPLES
TRANSFERS = 3  # of a way at an n: with large arrays they take longer than all else, and only their median is told
MOST_CALLS = 10_000  # in one sample
CHECKS = 0.3  # part of the progress that the checks are taken for
OVERHEAD = 1e-3  # seconds of a call that may be launches and threads waking up: they do not grow with n
SLOWEST = 1e8  # bytes a second at least that arrays are handled with; what takes longer compiles
AGAIN = 0.1  # seconds: a call that takes longer is not repeated to know its pace
TELLING = 0.01  # seconds of a reference from which it grows with n: it is not what calls cost by themselves
TRIAL_FACTOR = 3  # between two n at which it is tried
WAITING = "waiting for another sweep on this device, whose arrays are large"

PointsByWay = Mapping[tuple[str, int], Point]  # by way's name and n


class CheckProgress(NamedTuple):
    """A piece of the checks. done: part of them, from 0 to 1; doing: in words; point: what it is about.

    waits: nothing was done, since another sweep has its arrays in memory.
    """

    done: float
    doing: str
    point: Point | None = None
    waits: bool = False


class Checks:
    """Compares `points` of `plan` with the reference, from small n to large; they say what was found.

    Only what is right, at which n, is timed afterwards.
    """

    def __init__(self, plan: SweepPlan, points: PointsByWay, arrays: SweepArrays | None = None) -> None:
        self._plan, self._points, self._arrays = plan, points, arrays or SweepArrays()
        self._references: dict[int, float] = {}  # seconds by n
        self._trials: dict[str, tuple[int, float]] = {}  # of ways: an n below the plan's, and the seconds of a call

    def run(self) -> Generator[CheckProgress, None, None]:
        """Check every way against the reference; yields after each."""
        for point in self._points.values():
            if point.way.missing:
                help_ = point.way.backend.install
                point.refuse("missing", f"{point.way.missing}; {help_}" if help_ else point.way.missing)
        sizes = sorted({n for _, n in self._points})
        if self._plan.longest and any(point.status == "waiting" for point in self._points.values()):
            yield CheckProgress(0.0, "trying the reference at small n")
            self._try_reference(sizes[0], self._plan.longest)
        for number, n in enumerate(sizes):
            case = self._plan.case(n)
            points = [point for (_, m), point in self._points.items() if m == n and self._feasible(point, case)]
            if points:
                yield from self._check(points, case, number / len(sizes))
        self._spread_disagreement()

    def _check(self, points: list[Point], case: Case, done: float) -> Generator[CheckProgress, None, None]:
        yield CheckProgress(done, f"reference, n = {case.n:,}")
        left = deque(points)
        while left:
            with closing(self._arrays) as arrays:
                for _ in arrays.wait(_memory(left, case)):
                    yield CheckProgress(done, WAITING, left[0], waits=True)
                left = deque(point for point in left if _fits(point, case))
                if left:
                    arrays.keep(*self._reference(case))
                while left and arrays.kept:
                    piece = CheckProgress(done, f"checking {left[0].way.label}, n = {case.n:,}", left[0])
                    yield piece
                    for _ in arrays.run(partial(self._compare, left[0], case)):
                        yield piece
                    if arrays.kept:  # else it begins anew
                        left.popleft()

    def _reference(self, case: Case) -> tuple[Any, Any]:
        """Make the inputs and the right results, and note how long both take together."""
        start = perf_counter()
        inputs = case.inputs(self._plan.seed)
        truth = case.reference(inputs)
        self._references[case.n] = perf_counter() - start
        return inputs, truth

    def _try_reference(self, least: int, longest: float) -> None:
        """Time the reference below `least`, the first n of the plan, from the workload's least n on.

        It ends at an n from which its time at `least` can be told: before any sweep the first n is unknown, and may be
        the largest there is.
        """
        for n in self._sizes_below(least):
            self._reference(self._plan.case(n))
            if self._references[n] < AGAIN:
                first = self._references[n]  # it may have loaded a library
                self._reference(self._plan.case(n))
                self._references[n] = min(first, self._references[n])
            if self._references[n] >= min(TELLING, longest):
                return

    def _sizes_below(self, least: int) -> Iterator[int]:
        """Yield the n below `least` at which something is tried, from the workload's least n on."""
        n = self._plan.workload.sizes[0]
        while n < least:
            yield n
            n *= TRIAL_FACTOR

    def _compare(self, point: Point, case: Case, inputs: Any, truth: Any) -> Generator[None, None, None]:
        try:
            start = perf_counter()
            with WorkloadRunner(point.way, case, inputs) as runner:
                made = perf_counter() - start
                yield  # to what others compute, for however long
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
        if not found.difference <= case.tolerance:
            reason = f"differs by {found.difference:.1e}; the tolerance is {case.tolerance:.0e}"
            point.refuse("disagrees", reason)

    def _feasible(self, point: Point, case: Case) -> bool:
        """Whether the way is here, and neither time nor memory forbids this n; the point says why not."""
        if point.status == "waiting":
            try:
                reason = self._too_slow(point, case)
            except Exception as error:  # noqa: BLE001 as in _compare
                point.fail(error)
            else:
                point.refuse("skipped" if reason else "waiting", reason)
        return point.status == "waiting" and _fits(point, case)

    def _too_slow(self, point: Point, case: Case) -> str:
        """Why it would take too long, by the largest n that was tried before; empty if it would not."""
        allowed, longest = self._plan.call_allowed, self._plan.longest or inf
        before = [p for (name, n), p in self._points.items() if name == point.way.name and n < point.n]
        known = [p for p in before if isfinite(p.call_seconds)]
        if known:
            arithmetic, memory = self._growth(known[-1].n, case, point.way)
            expected = _expected([p.call_seconds for p in known], max(arithmetic, memory), OVERHEAD)
            if expected > allowed:
                return f"about {expected:.2g} s a call; limit {allowed:.2g} s"
            expected = _expected(self._handling(known), memory, 0.0)
            if expected > longest:
                return f"about {expected:.2g} s to prepare and compare its arrays; limit {longest:.2g} s"
        if self._references and point.n not in self._references:
            n = max(self._references)
            expected = self._references[n] * self._growth(n, case)[1]
            if expected > longest:
                return f"about {expected:.2g} s for the reference; limit {longest:.2g} s"
        if not known and self._plan.longest and point.way.backend.device == "host":
            n, seconds = self._trial(point.way, point.n)
            expected = seconds * max(self._growth(n, case, point.way)) if seconds >= TELLING else 0.0
            if expected > allowed:
                return f"about {expected:.2g} s a call; limit {allowed:.2g} s"
        return ""

    def _trial(self, way: Way, least: int) -> tuple[int, float]:
        """An n below `least` from whose call that at `least` is told, and its seconds; the largest if all are quick.

        The n before it must have taken long, too: of a small one threads that wake up may. A GPU's ways are not tried,
        since some compile anew for each n.
        """
        if way.name not in self._trials:
            found, before = (0, 0.0), 0.0
            for n in self._sizes_below(least):
                if min(before, found[1]) >= TELLING:
                    break
                before, case = found[1], self._plan.case(n)
                with WorkloadRunner(way, case, case.inputs(self._plan.seed)) as runner:
                    first = runner.time(1).compute  # it may compile
                    found = n, min(first, runner.time(1).compute) if first < AGAIN or not found[0] else first
            self._trials[way.name] = found
        return self._trials[way.name]

    def _handling(self, known: list[Point]) -> list[float]:
        """Seconds of handling at each n that was tried; the first is left out, or taken as if nothing was compiled."""
        if len(known) > 1:
            return [point.handling for point in known[1:]]
        first = known[0]
        return [min(first.handling, self._plan.case(first.n).work(first.way).moved / SLOWEST)]

    def _growth(self, n: int, case: Case, way: Way | None = None) -> tuple[float, float]:
        """How many times more operations, and more bytes, the case is than at n."""
        before, now = self._plan.case(n).work(way), case.work(way)
        return now.flops / max(before.flops, 1.0), now.moved / before.moved

    def _spread_disagreement(self) -> None:
        """Wrong at one n is wrong."""
        for wrong in [point for point in self._points.values() if point.status == "disagrees"]:
            for point in self._points.values():
                if point.way == wrong.way and point.status == "checked":
                    point.refuse("disagrees", f"at n = {wrong.n:,} it {wrong.reason}")


def _expected(seconds: list[float], growth: float, constant: float) -> float:
    """Seconds at an n where `growth` times more is done than at the last that was tried.

    seconds: those tried, from small n to large; the least of them does not grow, of a single one `constant` does not.
    """
    fixed = min(seconds) if len(seconds) > 1 else min(constant, seconds[0])
    return fixed + (seconds[-1] - fixed) * growth


def _cold(point: Point, began: float) -> Sample:
    """The first call as a sample."""
    way, seconds = point.way, point.first_call
    timing = Timing(way.backend.name, way.variant, 1, point.n, 0.0, seconds, first_call=True)
    return Sample(began, began + seconds, timing)


def _too_large(way: Way, case: Case) -> str:
    """Why the memory does not suffice, the device's or the host's; empty if it does."""
    needed = case.work(way).memory
    free = min(way.backend.open_device().free_bytes(), Host().free_bytes())
    return f"needs {needed / 2**30:.2f} GiB; {free / 2**30:.2f} GiB are free" if needed > free else ""


def _fits(point: Point, case: Case) -> bool:
    """Whether the memory that is free now suffices; a point without a time says why not."""
    try:
        reason = _too_large(point.way, case)
    except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
        point.fail(error)
        return False
    if reason and not point.samples:
        point.refuse("skipped", reason)
    return not reason


def _memory(points: Iterable[Point], case: Case) -> float:
    """Bytes that the greediest way of these takes."""
    return max(case.work(point.way).memory for point in points)


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is. done: part of the whole from 0 to 1; point: the one that changed last, None between two
    rounds, when nothing is open; rounds: that are whole; waits: nothing was done, since another sweep of this process
    has its arrays in memory.
    """

    done: float
    doing: str
    point: Point | None = None
    rounds: int = 0
    waits: bool = False


class Visit(NamedTuple):
    """What a round does next: the slices of a sample of `point`, or of waiting for the memory to take one."""

    point: Point
    slices: Iterator[None]
    waits: bool = False

    def progress(self, done: float, rounds: int = 0) -> Iterator[SweepProgress]:
        """Do it; yield after each slice."""
        doing = WAITING if self.waits else f"timing {self.point.way.label}, n = {self.point.n:,}"
        for _ in self.slices:
            yield SweepProgress(done, doing, self.point, rounds, self.waits)


class Sweep:
    """One run of `plan`. points: by way's name and n, all there from the start."""

    def __init__(self, plan: SweepPlan, clock: Callable[[], float] = perf_counter) -> None:
        self.plan, self._clock, self._random = plan, clock, Random(plan.seed)
        self._cores = Random(plan.seed)  # of its own: the order of visits does not depend on the machine
        self.points = {(way.name, n): Point(way, n) for way in plan.ways for n in sorted(set(plan.sizes))}
        self._start = 0.0  # of the sampling, moved on by what others took since
        self._arrays = SweepArrays()

    @property
    def held_up(self) -> bool:
        """Whether a sweep that waits would have to go on waiting; asking keeps its turn."""
        return self._arrays.held_up

    def wants_its_turn(self) -> None:
        """Note that it would go on: it is not paused, and keeps its arrays until its turn comes."""
        self._arrays.left()

    def measure(self) -> Generator[SweepProgress, None, None]:
        """Check, then sample; yields often. Closing it gives all memory back.

        The budget is for the sampling alone: neither the checks count, nor what the caller does between two slices.
        """
        with closing(self._arrays) as arrays, closing(self._pieces()) as pieces:
            for progress in pieces:
                arrays.left()
                yield progress
                arrays.went_on()

    def _pieces(self) -> Generator[SweepProgress, None, None]:
        """What `measure` yields."""
        groups = self.plan.groups
        for number, ways in enumerate(groups):
            points = {key: point for key, point in self.points.items() if point.way in ways}
            for piece in Checks(self.plan, points, self._arrays).run():
                done = CHECKS * (number + piece.done) / len(groups)
                yield SweepProgress(done, piece.doing, piece.point, waits=piece.waits)
            if number + 1 < len(groups):
                for visit in self._round(fresh=True):
                    yield from visit.progress(CHECKS * (number + 1) / len(groups))
        self._start = self._clock()
        for progress in self._sample():
            left = self._clock()
            yield progress
            self._start += self._clock() - left

    def snapshot(self) -> dict[str, Any]:
        """Return {"points": what is known of each, as plain values}."""
        return {"points": {key: point.snapshot() for key, point in self.points.items()}}

    def restore(self, snapshot: Mapping[str, Any]) -> bool:
        """Give the points what `snapshot` returned; False, and nothing changes, if that was of another plan."""
        if set(self.points) != set(snapshot["points"]):
            return False
        for key, known in snapshot["points"].items():
            self.points[key].restore(known)
        return True

    def _sample(self) -> Iterator[SweepProgress]:
        """Rounds over what is right: the first ROUNDS of them whole, further ones until the budget is over."""
        points = self._agreeing()
        for number in range(1 + MOST_SAMPLES):
            visited = 0
            for visit in self._round():
                late = self._clock() - self._start > self.plan.budget
                if late and number >= ROUNDS:
                    return
                yield from visit.progress(self._part_done(number + visited / len(points)), number)
                visited += not visit.waits
            if all(point.finished for point in self._agreeing()):
                return
            yield SweepProgress(self._part_done(number + 1), "between two rounds", None, number + 1)

    def _part_done(self, rounds: float) -> float:
        """Of the whole, after so many rounds."""
        part = min(1.0, (self._clock() - self._start) / self.plan.budget)
        return CHECKS + (1 - CHECKS) * part * min(1.0, rounds / ROUNDS)

    def _round(self, fresh: bool = False) -> Iterator[Visit]:
        """Every n at which a way is not finished, in random order, and all the ways there, with the same inputs.

        All of them, finished or not: ways that are compared are sampled in the same spells of the machine, and none
        ends at its first few samples that happen to be alike. fresh: only those without a sample.
        """
        points = [point for point in self._agreeing() if not (fresh and point.samples)]
        for n in self._shuffled(sorted({point.n for point in points if not point.finished})):
            case, left = self.plan.case(n), deque(self._shuffled([point for point in points if point.n == n]))
            while left:
                with closing(self._arrays) as arrays:
                    yield Visit(left[0], arrays.wait(_memory(left, case)), waits=True)
                    left = deque(point for point in left if _fits(point, case))
                    if left:
                        arrays.keep(case.inputs(self.plan.seed))
                    while left and arrays.kept:
                        yield Visit(left[0], arrays.run(partial(self._visit, left[0])))
                        if arrays.kept:  # else it is visited again
                            left.popleft()

    def _agreeing(self) -> list[Point]:
        return [point for point in self.points.values() if point.status in ("checked", "measured")]

    def _shuffled(self, items: list[Any]) -> list[Any]:
        self._random.shuffle(items)
        return items

    def _visit(self, point: Point, inputs: tuple[Any, ...]) -> Generator[None, None, None]:
        """A sample, after calls that do not count; each is a slice."""
        try:
            move_to_a_quiet_core(self._cores)
            with WorkloadRunner(point.way, self.plan.case(point.n), inputs) as runner:
                yield
                steps = self._warm_up(runner, point)
                yield
                if self.plan.evict:
                    runner.evict()
                elif steps > 1:
                    runner.time(1)  # something else may have had its turn since: threads sleep, caches are cold
                point.samples.append(take_sample(partial(runner.time, steps), self.plan.listen))
                point.status = "measured"
                yield
                if self.plan.split and len(point.transfers) < TRANSFERS:
                    point.transfers.append(runner.transfer())
        except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
            point.fail(error)

    def _warm_up(self, runner: WorkloadRunner, point: Point) -> int:
        """Calls that do not count; how many make a sample."""
        runner.time(1)
        if self.plan.evict or point.call_seconds > SAMPLE_SECONDS:
            return 1
        steps = steps_for(runner.time(1).compute, SAMPLE_SECONDS, MOST_CALLS)
        pace = runner.time(steps).step_seconds  # that one call may have had to wake threads
        return steps_for(pace, SAMPLE_SECONDS, MOST_CALLS)
