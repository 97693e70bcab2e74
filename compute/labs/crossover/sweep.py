"""Time against n, for several ways of one workload: checked first, then sampled in shuffled order.

Every way is compared with the reference at every n, from small to large; one that disagrees anywhere has no time at
all. Then rounds over all n, shuffled, and at each n over the ways, shuffled: a burst of samples each, until the
quartiles have settled or the budget is over. `measure` is a generator: it yields after each slice how far it is, and
may be closed at any time; what was measured until then is in `Sweep.points`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from random import Random
from time import perf_counter
from typing import Any, Literal

from compute.bench.measure import LEAST, MOST, steps_for
from compute.devices import Host
from compute.labs.crossover.catalogue import Case, Way, Workload
from compute.labs.crossover.crossing import Crossing, crossing
from compute.labs.crossover.stand import Stand
from compute.timings import Measurement, Spread, Timing, settled

SAMPLE_SECONDS = 0.02  # length that a sample aims at: a bar that moves, and 1e4 ticks of the clock
BURST = LEAST  # samples of a way before it is another's turn
MOST_CALLS = 10_000  # in one sample
OVERHEAD = 1e-3  # seconds of a call that may be launches and threads waking up: they do not grow with n
CHECKS = 0.3  # part of the progress that the checks are taken for
PATIENCE = 2.0  # a call may take so many times the budget of its point before larger n are skipped

Status = Literal["waiting", "checked", "measured", "disagrees", "failed", "skipped", "missing"]


@dataclass(frozen=True)
class Plan:
    """What to measure. budget: seconds of sampling in all; evict: each call on empty caches; split: transfers too."""

    workload: Workload
    ways: tuple[Way, ...]
    sizes: tuple[int, ...]
    dtype: str = "float64"
    settings: dict[str, Any] = field(default_factory=dict)
    budget: float = 30.0
    evict: bool = False
    split: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sizes or not self.ways:
            raise ValueError("a sweep needs at least one n and one way")
        if not self.budget > 0:
            raise ValueError(f"budget must be more than 0 seconds, not {self.budget}")
        for n in self.sizes:
            self.case(n)

    def case(self, n: int) -> Case:
        """The workload at this n."""
        return self.workload.case(n, self.dtype, **self.settings)


@dataclass
class Point:
    """One way at one n. timings: its samples; transfers: seconds there and back, if these were asked for."""

    way: Way
    n: int
    status: Status = "waiting"
    reason: str = ""
    difference: float = nan
    first_call: float = nan
    call_seconds: float = nan
    timings: list[Timing] = field(default_factory=list)
    transfers: list[float] = field(default_factory=list)

    @property
    def measurement(self) -> Measurement | None:
        """Its times; None unless it was measured and is right."""
        if self.status != "measured":
            return None
        first = replace(self.timings[0], compute=self.first_call, steps=1, first_call=True)
        return Measurement.of([first, *self.timings])

    @property
    def launch(self) -> Spread:
        """Seconds until a call returned; on the host that is the whole call."""
        return Spread.of(timing.launch / timing.steps for timing in self.timings)

    @property
    def transfer(self) -> Spread:
        """Seconds of the inputs to the device and of the results back."""
        return Spread.of(self.transfers)

    @property
    def label(self) -> str:
        """Its status, or "noisy" if the time scatters too much to be quoted without saying so."""
        measured = self.measurement
        return "noisy" if measured and measured.noisy else self.status

    @property
    def finished(self) -> bool:
        """Whether more samples would tell nothing new."""
        seconds = [timing.step_seconds for timing in self.timings]
        return len(seconds) >= MOST or settled(seconds)


@dataclass(frozen=True)
class Progress:
    """How far a sweep is. done: part of the whole from 0 to 1; point: the one that changed last."""

    done: float
    doing: str
    point: Point | None = None


class Sweep:
    """One run of `plan`. points: by way's name and n, all there from the start."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = perf_counter) -> None:
        self.plan, self._clock, self._random = plan, clock, Random(plan.seed)
        self.points = {(way.name, n): Point(way, n) for way in plan.ways for n in sorted(set(plan.sizes))}

    def measure(self) -> Generator[Progress, None, None]:
        """Check, then sample; yields often. Closing it gives all memory back."""
        yield from self._check()
        yield from self._sample()

    def series(self, way: str, transfer: bool = False) -> dict[int, Spread]:
        """Seconds a call by n, right results only; with the median transfer added if that is asked for.

        Raises ValueError if transfers are asked for and were not measured.
        """
        if transfer and not self.plan.split:
            raise ValueError("transfers were not measured: the plan's split is False")
        found = {}
        for point in self._of(way):
            if point.measurement:
                step, extra = point.measurement.step, point.transfer.median if transfer else 0.0
                found[point.n] = Spread(step.median + extra, step.q1 + extra, step.q3 + extra, step.n)
        return found

    def crossing(self, slow: str, fast: str, transfer: bool = False) -> Crossing:
        """From which n on the way `fast` is faster than `slow`; ValueError if fewer than two n are common to both."""
        return crossing(self.series(slow, transfer), self.series(fast, transfer))

    def _of(self, way: str) -> list[Point]:
        return [point for (name, _), point in self.points.items() if name == way]

    # -- first: which results are right

    def _check(self) -> Iterator[Progress]:
        for point in self.points.values():
            if point.way.missing:
                help_ = point.way.backend.install
                point.status, point.reason = "missing", f"{point.way.missing}; {help_}" if help_ else point.way.missing
        sizes = sorted({n for _, n in self.points})
        for number, n in enumerate(sizes):
            done, case = CHECKS * number / len(sizes), self.plan.case(n)
            points = [point for way in self.plan.ways if self._possible(point := self.points[way.name, n], case)]
            if not points:
                continue
            yield Progress(done, f"reference, n = {n:,}")
            inputs = case.inputs(self.plan.seed)
            truth = case.reference(inputs)
            for point in points:
                yield Progress(done, f"checking {point.way.label}, n = {n:,}", point)
                self._check_point(point, case, inputs, truth)
        self._spread_disagreement()

    def _possible(self, point: Point, case: Case) -> bool:
        """Whether the way is here, and neither time nor memory forbids this n; the point says why not."""
        if point.status == "waiting":
            try:
                point.reason = self._too_slow(point) or _too_large(point.way, case)
                point.status = "skipped" if point.reason else "waiting"
            except Exception as error:  # noqa: BLE001 one broken way must not lose the figures of the others
                _fail(point, error)
        return point.status == "waiting"

    def _check_point(self, point: Point, case: Case, inputs: Any, truth: Any) -> None:
        try:
            with Stand(point.way, case, inputs) as stand:
                found = stand.check(truth)
                point.difference, point.first_call = found.difference, found.first_call
                point.call_seconds = min(stand.time(1).compute for _ in range(2))
        except Exception as error:  # noqa: BLE001 as in _possible
            _fail(point, error)
            return
        point.status = "checked"
        if not found.difference <= case.tolerance:
            point.status = "disagrees"
            point.reason = f"differs by {found.difference:.1e}; the tolerance is {case.tolerance:.0e}"

    def _too_slow(self, point: Point) -> str:
        """Why a call would take too long by the largest n that was called before; empty if it would not."""
        known = [p for p in self._of(point.way.name) if p.n < point.n and isfinite(p.call_seconds)]
        expected, allowed = self._scaled(known[-1], point) if known else 0.0, PATIENCE * self._share()
        if expected <= allowed:
            return ""
        return f"would take about {expected:.2g} s a call; {allowed:.2g} s are allowed"

    def _scaled(self, known: Point, point: Point) -> float:
        """In proportion to the work, but for what a call costs at any n."""
        before, now = (self.plan.case(p.n).work(p.way) for p in (known, point))
        ratio = max(now.moved / before.moved, now.flops / max(before.flops, 1.0))
        return max(0.0, known.call_seconds - OVERHEAD) * ratio

    def _share(self) -> float:
        return self.plan.budget / len(self.points)

    def _spread_disagreement(self) -> None:
        """Wrong at one n is wrong."""
        for wrong in [point for point in self.points.values() if point.status == "disagrees"]:
            for point in self._of(wrong.way.name):
                if point.status == "checked":
                    point.status, point.reason = "disagrees", f"at n = {wrong.n:,} it {wrong.reason}"

    # -- then: what the right ones take

    def _sample(self) -> Iterator[Progress]:
        start = self._clock()
        for first_round in (True, *[False] * MOST):
            if all(point.finished for point in self._right()):
                return
            for n in self._shuffled(sorted({point.n for point in self._right()})):
                inputs = self.plan.case(n).inputs(self.plan.seed)
                for point in self._shuffled([p for p in self._right() if p.n == n and not p.finished]):
                    late = self._clock() - start > self.plan.budget
                    if late and not first_round:
                        return
                    for _ in self._burst(point, inputs):
                        part = min(1.0, (self._clock() - start) / self.plan.budget)
                        yield Progress(CHECKS + (1 - CHECKS) * part, f"timing {point.way.label}, n = {n:,}", point)

    def _right(self) -> list[Point]:
        return [point for point in self.points.values() if point.status in ("checked", "measured")]

    def _shuffled(self, items: list[Any]) -> list[Any]:
        self._random.shuffle(items)
        return items

    def _burst(self, point: Point, inputs: tuple[Any, ...]) -> Iterator[None]:
        """A few samples, after calls that do not count; each is a slice."""
        try:
            with Stand(point.way, self.plan.case(point.n), inputs) as stand:
                stand.time(1)
                pace = stand.time(1).compute
                steps = 1 if self.plan.evict else steps_for(pace, SAMPLE_SECONDS, MOST_CALLS)
                stand.time(steps)
                yield
                for _ in range(BURST):
                    if self.plan.evict:
                        stand.evict()
                    point.timings.append(stand.time(steps))
                    point.status = "measured"
                    yield
                if self.plan.split:
                    point.transfers.append(stand.transfer())
        except Exception as error:  # noqa: BLE001 as in _possible
            _fail(point, error)


def _fail(point: Point, error: Exception) -> None:
    point.status, point.reason = "failed", " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _too_large(way: Way, case: Case) -> str:
    """Why the memory does not suffice, the device's or the host's; empty if it does."""
    needed = case.work(way).held
    free = min(way.backend.open_device().free_bytes(), Host().free_bytes())
    return f"needs {needed / 2**30:.2f} GiB; {free / 2**30:.2f} GiB are free" if needed > free else ""
