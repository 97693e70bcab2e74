"""`fieldlab bench`: every way to compute a lab's step, checked, then timed side by side in one run.

For each case of the lab's CaseBenchmark: all implementations start from the same state and are compared with the
reference; those that agree are sampled in shuffled rounds. Disagreeing implementations get no time. Kernels that are
wrong by design are timed too, and reported separately.

The budget is spent breadth first. A first pass over all cases, the lab's headline cases first, checks every way and
takes the fewest samples, FIRST_SAMPLES of a slow way. A second pass spends the rest on more samples of the timed ways.
References and compilation do not count towards the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from compute.devices.backends import BACKENDS, Backend
from compute.devices.devices import Device
from compute.measure.agreement import error_line, memory_shortage
from compute.measure.case import BenchmarkFixture, BenchPlan, Implementation, Results, Row, with_speed_ups
from compute.measure.clocks import with_clock_rate
from compute.measure.roofs import DTYPES, RoofMeter
from compute.measure.sampling import (
    KEPT,
    LEAST_RUN,
    LEAST_SAMPLES,
    OVER,
    SAMPLE_SECONDS,
    Budget,
    interleave,
    steps_for,
)
from compute.measure.statistics import Measurement
from compute.measure.timing import Sample, Timing, take_sample

if TYPE_CHECKING:
    from compute.measure.benchmark import CaseBenchmark

CHECKING = 0.3  # fraction of a case's progress before it is timed
SAMPLING = 2 / 3  # fraction of a case's time that is its share, the seconds of sampling; the rest is for checks
PATIENCE = 2.0  # largest time of a case over its share, if slow ways need it for their check and fewest samples
WARM_UPS = 2  # before the samples of a way
FIRST_SAMPLES = 2  # in the first pass, of a way that takes SLOW seconds or more for a sample
SLOW = 0.25
FIRST_PASS = 0.75  # of the time left, for the cases of the first pass together: no share of it is larger
HEADLINE = 0.5  # of the time left, for the first way of a case alone: it is timed even beyond the case's share
LOOKS = 4  # estimates of a way's time before it is rejected as too slow; fewer if each estimate is slow
LOOKING = 1 / 20  # fraction of the time of a race's lane for one estimate
NOTHING = 1.0  # seconds that every way may take: no fast way is lost because of a slow one


class BenchProgress(Protocol):
    """Callback for the progress of a bench. It is called between two samples, so it may block and write."""

    def __call__(self, text: str, done: float | None = None, /) -> None:
        """Report the current task, `text`, and the fraction of the whole that is done (0 to 1), None if unknown."""


def silent(_text: str, _done: float | None = None, /) -> None:
    """Ignore all progress."""


WALL = "{}: this GPU has no usable timestamps; its times are wall times from the first launch until it has finished"


@dataclass
class Pace:
    """The latest seconds a cell of each way, by way and the case's `pace`."""

    seconds: dict[Any, float] = field(default_factory=dict)

    def note(self, way: Implementation, case: Any, step_seconds: float) -> None:
        """Store the measured or predicted seconds of a step: a way that was too slow once is not started again."""
        self.seconds[way.name, case.pace] = step_seconds / case.cells

    def step_seconds(self, way: Implementation, case: Any) -> float:
        """Return the predicted seconds of a step of `case`; 0 for a way without a measurement at such a case."""
        return self.seconds.get((way.name, case.pace), 0.0) * case.cells


class CaseRun:
    """The arrays and state of one case during its timing.

    case: a TimedCase of the lab; right: its reference; share: seconds of sampling it may take; budget: of the whole
    run; listen: whether to record the parts of each sample; alone: seconds that each way may take independently of the
    others, 0 if they share the time: a race drops no lane to save time for another. quick: True in the first pass,
    with FIRST_SAMPLES of slow ways and none beyond the fewest.
    """

    def __init__(
        self,
        benchmark: CaseBenchmark,
        case: Any,
        right: Any,
        share: float,
        pace: Pace,
        budget: Budget,
        listen: bool = False,
        alone: float = 0.0,
    ) -> None:
        self._benchmark, self._case, self._right, self._share, self._pace = benchmark, case, right, share, pace
        self._budget, self._listen, self._alone = budget, listen, alone
        self.quick = False
        self._fixtures: dict[str, BenchmarkFixture] = {}
        self._checked: list[tuple[Implementation, Row, tuple[Sample, ...]]] = []
        self._taken: dict[str, Row] = {}  # of the first pass, by way
        self._spent_before = budget.spent
        self._planned = 0.0  # predicted seconds of the fewest samples of the checked ways
        self.rows: list[Row] = []

    def check(self, way: Implementation) -> None:
        """Compare the way's result with the reference; add its row now unless it will be sampled."""
        work = self._benchmark.lesser.get(way.variant, "")
        row = Row(way.backend.name, way.variant, self._case, "skipped", reference=self._right.name, work=work)
        reason = OVER if self._budget.over else self._too_slow(way, self._step_seconds(way))
        try:
            row = replace(row, reason=reason) if reason else self._compare(way, row)
        except Exception as error:  # noqa: BLE001  one broken way must not lose the figures of the others
            row = replace(row, status="failed", reason=error_line(error))
        if row.status not in ("measured", "wrong"):
            self.rows.append(row)

    def resume(self, way: Implementation, row: Row) -> None:
        """Prepare a way timed in the first pass for more samples; on failure its row stays unchanged."""
        step = self._step_seconds(way)
        try:
            ready = not self._budget.over and not self._too_slow(way, step) and not self._open(way)
            if ready:
                self._fixtures[way.backend.name].first(way)
        except Exception:  # noqa: BLE001 - what was measured before is kept
            ready = False
        if not ready:
            self.rows.append(row)
            return
        self._checked.append((way, row, row.samples))
        self._taken[way.name] = row
        self._planned += (WARM_UPS + self._fewest(way, step)) * self._at_once(way) * step

    def sample(self, progress: Callable[[float], object] = lambda _: None) -> None:
        """Time the checked ways in shuffled rounds and add their rows; progress: see `interleave`."""
        calls: dict[str, Callable[[], Sample]] = {}
        least: dict[str, int] = {}
        for way, _, _ in self._checked:
            if self._budget.over:
                break
            for _ in range(self._warm_ups(way)):  # the first one at full length: it may tune itself
                timing = self._fixtures[way.backend.name].run(way, self._steps(way))
                self._pace.note(way, self._case, timing.step_seconds)
            calls[way.name] = self._call(way, self._steps(way))
            least[way.name] = self._fewest(way, self._step_seconds(way))
        found: dict[str, list[Sample]] = {}
        sampling = Budget(0.0 if self.quick else self._for_samples, self._budget.clock)
        try:
            interleave(calls, sampling, progress=progress, stop=lambda: self._budget.over, samples=found, least=least)
        except KeyboardInterrupt:
            self._add(found, "interrupted before it was timed")
            raise
        self._add(found, OVER)

    def not_timed(self, reason: str) -> None:
        """Add rows without times for the checked ways."""
        self._add({}, reason)

    def _add(self, found: Mapping[str, Sequence[Sample]], reason: str) -> None:
        """Add the rows of the checked ways; reason: for ways without samples."""
        checked, self._checked = self._checked, []
        for way, row, (first, *before) in checked:
            if not found.get(way.name):
                self.rows.append(row if before else replace(row, status="skipped", reason=reason))
                continue
            last = found[way.name][-1].timing
            self._pace.note(way, self._case, last.step_seconds)
            cold = replace(first, timing=replace(first.timing, first_call=True, cells=last.cells))
            earlier = (replace(one, timing=replace(one.timing, cells=last.cells)) for one in before)
            samples = (cold, *earlier, *found[way.name])
            measurement = Measurement.of([sample.timing for sample in samples])
            self.rows.append(replace(row, measurement=measurement, steps=last.steps, samples=samples))

    def close(self) -> None:
        """Free the devices' memory."""
        devices = [fixture.device for fixture in self._fixtures.values()]
        self._fixtures.clear()
        for device in devices:
            device.close()

    def _compare(self, way: Implementation, row: Row) -> Row:
        """Return the row of a checked way; one with the status "measured" or "wrong" will be sampled."""
        if reason := self._open(way):
            return replace(row, reason=reason)
        fixture = self._fixtures[way.backend.name]
        estimates: list[float] = []  # of the seconds a step, in addition to the timing
        before = self._spent

        def call() -> Timing:
            """Time the first call, and store its estimate of later steps."""
            timing, seconds = fixture.first(way)
            estimates.append(seconds)
            return timing

        first = take_sample(call, self._listen)
        row = replace(row, device=fixture.device.name)
        longest = max(NOTHING, LOOKING * self._alone)
        while (
            self._too_slow(way, min(estimates))
            and len(estimates) < LOOKS
            and self._spent - before < longest * len(estimates)
        ):
            estimates.append(fixture.first(way)[1])  # a part of a step is short: one disturbance would raise it
        step = min(estimates)
        self._pace.note(way, self._case, step)
        if reason := self._too_slow(way, step):
            return replace(row, reason=reason)
        difference, largest, timing = fixture.check(way)
        self._pace.note(way, self._case, timing.step_seconds)
        row = replace(row, status="measured", difference=difference, largest=largest)
        if way.variant in self._benchmark.wrong:
            row = replace(row, status="wrong", reason=self._benchmark.wrong[way.variant])
        elif reason := self._benchmark.disagreement(difference, self._case.tolerance):
            return replace(row, status="disagrees", reason=reason)
        self._checked.append((way, row, (first,)))
        seconds = max(timing.step_seconds, step)
        self._planned += (self._warm_ups(way) + self._fewest(way, seconds)) * self._at_once(way) * seconds
        return row

    def _open(self, way: Implementation) -> str:
        """Allocate the backend's arrays if needed, outside of the budget; return the reason for a refusal, or ""."""
        with self._budget.counting(False):
            if way.backend.name not in self._fixtures:
                device = way.backend.open_device()
                if shortage := memory_shortage(self._case.needed_bytes, device.free_bytes(), f" on {device.name}"):
                    return shortage
                self._fixtures[way.backend.name] = self._benchmark.fixture(device, self._case, self._right)
            self._fixtures[way.backend.name].prepare(way)
            return ""

    def _too_slow(self, way: Implementation, step: float) -> str:
        """Return why steps of `step` seconds take too long; "" if they do not, or take at most NOTHING seconds."""
        seconds = step * (self._benchmark.check_steps + self._fewest(way, step) * self._at_once(way))
        left = min(self._alone or PATIENCE * self._share - self._spent - self._planned, self._budget.left)
        if self.quick and not any(one.backend.device == way.backend.device for one, _, _ in self._checked):
            left = max(left, HEADLINE * self._budget.left)
        if seconds <= max(left, NOTHING):
            return ""
        left, what = max(0.0, left), self._benchmark.rate.step
        return f"would take about {seconds:.3g} s ({step:.2g} s a {what}); {left:.3g} s are allowed for this case"

    def _fewest(self, way: Implementation, step: float) -> int:
        """Return the least number of samples of this way."""
        if self.quick and step * self._at_once(way) >= SLOW:
            return FIRST_SAMPLES
        row = self._taken.get(way.name)
        return LEAST_SAMPLES if row is None or row.measurement is None else LEAST_SAMPLES - row.measurement.step.n

    def _warm_ups(self, way: Implementation) -> int:
        """Return the number of calls before the samples: 1 for a slow way in the first pass."""
        return 1 if self.quick and self._step_seconds(way) * self._at_once(way) >= SLOW else WARM_UPS

    @property
    def _spent(self) -> float:
        """Seconds that this case has taken, without building kernels."""
        return self._budget.spent - self._spent_before

    @property
    def _for_samples(self) -> float:
        """Seconds of sampling: the share, minus the excess time of slow checks, but at least half of it."""
        others = 0.0 if self._alone else self._spent
        return max(self._share / 2, min(self._share, self._share / SAMPLING - others))

    def _step_seconds(self, way: Implementation) -> float:
        return self._pace.step_seconds(way, self._case)

    def _steps(self, way: Implementation) -> int:
        if way.name in self._taken:  # all samples must have the same length
            return self._taken[way.name].steps
        return steps_for(self._step_seconds(way), most=self._benchmark.most_steps, at_once=self._at_once(way))

    def _at_once(self, way: Implementation) -> int:
        rules = self._benchmark.rules
        return rules.steps_at_once(way.backend.name, way.variant) if rules else 1

    def _call(self, way: Implementation, steps: int) -> Callable[[], Sample]:
        fixture = self._fixtures[way.backend.name]

        def call() -> Sample:
            """Take a sample, then read the GPU's clock."""
            return with_clock_rate(take_sample(lambda: fixture.run(way, steps), self._listen), fixture.device)

        return call


class BenchRun:
    """One run of `plan`; keeps the pace of each way, to skip ways that could not finish."""

    def __init__(
        self,
        benchmark: CaseBenchmark,
        plan: BenchPlan,
        progress: BenchProgress = silent,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._benchmark, self._plan, self._progress = benchmark, plan, progress
        self._shared: tuple[Any, Any] = (None, None)  # the `shared` of the latest reference, and that reference
        self._budget = Budget(max(plan.budget, LEAST_RUN), clock)
        self._pace = Pace()
        self._found: dict[Any, list[Row]] = {}  # by case
        self.results = Results(notes=plan.notes)

    def run(self) -> Results:
        """Time every case in the plan's order while time is left; an interrupted run returns its partial results."""
        backends, cases = list(self._backends()), self._plan.cases
        self._progress(self._estimate(backends))
        try:
            with self._budget.excluding_builds():
                self._roofs(backends)
                self._cases(backends, cases)
        except KeyboardInterrupt as stop:
            self.results.interrupted = stop
        return self.results

    def _estimate(self, backends: Sequence[Backend]) -> str:
        """Return the expected duration as text."""
        ways = sum(1 for case in self._plan.cases for _ in self._ways(backends, case))
        least, most = LEAST_SAMPLES * SAMPLE_SECONDS * ways, self._budget.left
        seconds = f"{min(least, most):.0f} to {most:.0f} s, compiling apart"
        return f"{len(self._plan.cases)} cases, {ways} ways in all: {seconds}; {KEPT}"

    def _cases(self, backends: Sequence[Backend], cases: Sequence[Any]) -> None:
        """Time every case in two passes; the rows are in the order of the plan."""
        headline = list(self._benchmark.headline(cases))
        order = list(dict.fromkeys([*headline, *cases]))
        try:
            self._pass(backends, order, len(headline))
            if self._for_more:
                self._pass(backends, [case for case in order if any(row.measurement for row in self._found[case])])
        finally:  # also after an interrupt
            self.results.rows += [row for case in cases for row in with_speed_ups(self._found.get(case, []))]

    def _pass(self, backends: Sequence[Backend], cases: Sequence[Any], headline: int = 0) -> None:
        """Time every case, for the first time or once more.

        headline: number of the first cases that share the time left with one more case, however many follow.
        """
        for number, case in enumerate(cases):
            ways = list(self._ways(backends, case))
            among = (headline + 1 if number < headline else len(cases)) - number
            if not self._budget.over:
                self._case(case, ways, max(1, among), (number / len(cases), 1 / len(cases)))
            elif case not in self._found:
                self._found[case] = [Row(way.backend.name, way.variant, case, "skipped", OVER) for way in ways]

    def _case(self, case: Any, ways: Sequence[Implementation], among: int, place: tuple[float, float]) -> None:
        """Check the ways, or resume those timed in the first pass, and time them.

        among: number of cases that share the time left; place: start and length in the progress of the pass.
        """
        before = {(row.backend, row.variant): row for row in self._found.get(case, ())}

        def tell(text: str, part: float) -> None:
            """Report the progress of this case: part 0 … 1. Each pass is half of the run."""
            done = place[0] + place[1] * part
            self._progress(f"{case.title}: {text}", 0.5 * (bool(before) + done))

        tell("reference", 0.0)
        with self._budget.counting(False):
            right = self._reference(case)
        share = (SAMPLING if before else FIRST_PASS / PATIENCE) * self._for_more / among
        run = CaseRun(self._benchmark, case, right, share, self._pace, self._budget, self._plan.listen)
        run.quick = not before
        try:
            for number, way in enumerate(_in_checking_order(ways)):
                row = before.get((way.backend.name, way.variant))
                if row is None:
                    tell(f"checking {way.name}", CHECKING * number / len(ways))
                    run.check(way)
                elif row.measurement is not None:
                    run.resume(way, row)
            self._sample(run, case, ways, tell)
        finally:
            run.not_timed("interrupted before it was timed")
            self.results.conditions.note(case.title)
            run.close()
            places = {(way.backend.name, way.variant): number for number, way in enumerate(ways)}
            kept = {**before, **{(row.backend, row.variant): row for row in run.rows}}
            self._found[case] = sorted(kept.values(), key=lambda row: places[row.backend, row.variant])

    def _sample(
        self, run: CaseRun, case: Any, ways: Sequence[Implementation], tell: Callable[[str, float], None]
    ) -> None:  # fmt: skip
        """Time the checked ways, and the roofs of their devices in turn with them."""
        devices = list({(device := way.backend.open_device()).name: device for way in ways}.values())
        with closing(RoofMeter(devices, (self._benchmark.rate.roof,), case.dtype)) as meter:

            def between(part: float) -> None:
                """Between two rounds, sample the roof."""
                tell("timing", CHECKING + (1 - CHECKING) * part)
                meter.sample()

            run.sample(between)
        for device in devices:
            self._roof_of(device)

    @property
    def _for_more(self) -> float:
        """Seconds left of the budget; a small budget may be exceeded up to LEAST_RUN for the fewest samples."""
        return max(0.0, self._budget.left - max(0.0, LEAST_RUN - self._plan.budget))

    def _backends(self) -> Iterator[Backend]:
        """Yield the available backends of the plan; add a row with the reason for each missing one."""
        for backend in BACKENDS:
            if backend.name not in self._plan.backends or not backend.has_kernels(self._benchmark.package):
                continue
            reason = backend.missing or backend.simulated
            if reason:
                self.results.rows.append(Row(backend.name, "", None, "missing", reason))
            else:
                yield backend

    def _ways(self, backends: Sequence[Backend], case: Any) -> Iterator[Implementation]:
        yield from self._benchmark.others(case)
        dtype = getattr(case, "dtype", None)
        for backend in (one for one in backends if dtype is None or dtype in one.dtypes):
            kernels: list[Any] = []
            for variant, kernel in self._benchmark.variants(backend, case).items():
                if kernel is None or not any(kernel is other for other in kernels):  # skip duplicates of a kernel
                    kernels.append(kernel)
                    yield Implementation(backend, variant, kernel)

    def _roofs(self, backends: Sequence[Backend]) -> None:
        """Measure the roof of each device."""
        for backend in backends:
            device = backend.open_device()
            self._roof_of(device)
            self.results.l2[device.name] = device.l2_bytes()
            if device.kind == "gpu" and device.clock == "wall time":
                self.results.notes += (WALL.format(device.name),)
            device.close()

    def _roof_of(self, device: Device) -> None:
        """Store the current measurement of the roof that the lab's rates are compared with."""
        self.results.note_roofs(device, self._benchmark.rate.roof, DTYPES, self._progress)

    def _reference(self, case: Any) -> Any:
        """Return the reference of the case; cases with equal `shared` use the same, and only the latest is kept."""
        if self._shared[0] != case.shared:
            self._shared = (None, None)
            self._shared = (case.shared, self._benchmark.reference(case))
        return self._shared[1]


def _in_checking_order(ways: Sequence[Implementation]) -> list[Implementation]:
    """Return the ways in the order of their checks: the first variant of each backend, then the second; GPUs first.

    The earliest ways get a case's time: the important and the fast ones.
    """
    of_backends = [list(group) for _, group in groupby(ways, key=lambda way: way.backend.name)]
    return [way for nth in zip_longest(*reversed(of_backends)) for way in nth if way is not None]
