"""A race: the same work of one lab on two to four lanes, each at its own speed, to a finish line.

In a lab with an end, the finish line is its whole result, a picture or a curve: each lane computes it repeatedly,
checked and timed as `fieldlab bench` times a case (measure/course.py); its clock is the median of its runs, and runs
evenly between start and finish. In other labs it is a number of steps, as follows.

Lanes of one host share its cores. So they take turns, leg by leg, in a rotating order, and each races against its own
clock: the sum of its legs' compute times, measured by the lab's stopwatch and counted as by `fieldlab bench`. A lane
may be a record instead (assets/timings): its clock is the recorded time of a step, and its pictures are those computed
here at the same steps.

Before the start every lane runs one leg, which may compile, and is reset. Fields are compared at the finish line, but
those of an unstable scheme, which amplifies rounding until they overflow, after a few steps before the start. A leg
that is too short for a clock, as on a GPU that races NumPy, is timed as a part of a longer stretch: on a second grid,
with as many steps in one call as a sample of `fieldlab bench` has, whole launches of its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, inf, isqrt, nan, prod
from typing import Any

import numpy as np
import param
from numpy.typing import NDArray

from compute.devices.backends import REFERENCE, Backend, backend, preferred
from compute.files.documents import short
from compute.lab.lab import Lab
from compute.lab.two_runs import alone
from compute.measure.agreement import Agreement, amplification, relative_l2
from compute.measure.benchmark import CaseBenchmark, benchmark_of
from compute.measure.case import Row
from compute.measure.conditions import OtherWork
from compute.measure.course import Course, run_course
from compute.measure.rates import spaced
from compute.measure.records import Recorded
from compute.measure.rules import FieldRules
from compute.measure.sampling import MOST_STEPS as MOST_SAMPLED
from compute.measure.sampling import steps_for
from compute.measure.statistics import SpeedUp, Spread

FEWEST_LANES, MOST_LANES = 2, 4
LEGS = 20  # of a race: moments at which a lane's clock and picture are recorded
MOST_STEPS = 10**6
ROUNDED = 1e-12  # relative error of simulated time over step time that is ignored before rounding up to whole steps
SECONDS = 4.0  # longest time of the slowest lane if the number of steps is not given
SHORTEST = 0.005  # s; shorter legs are timed as part of a longer stretch
TRIALS = 3  # timings of one step, of which the fastest determines the number of steps of the race
PICTURE = (256, 256)  # most pixels of a lane's pictures (height, width)
RECORDED = "recorded"  # the key of a lane that is a record
NUMPY_CELLS = 2**22  # largest grid on which NumPy races by default: some 20 ms a step
MOST_WORK = 10**12  # largest number of steps times cells of a lane

OnRaceProgress = Callable[[float, str], object]  # called with the fraction done, from 0 to 1, and a text


class RaceError(ValueError):
    """A race that cannot be run; the text states the request and the bound."""


@dataclass(frozen=True)
class Racer:
    """The entry of a lane: a backend's kernel on this computer, or an earlier run on another one."""

    backend: str
    variant: str = ""
    record: Recorded | None = None

    @property
    def name(self) -> str:
        """Display name; for a record with its kernel, which may differ from the lab's."""
        label = backend(self.backend).label
        return f"{label}, {self.variant}" if self.variant else label

    @property
    def key(self) -> str:
        """Name in requests of browsers and commands: "cpu_numba", "cpu_numba:one-step", "recorded"."""
        return RECORDED if self.record else ":".join(filter(None, (self.backend, self.variant)))


@dataclass
class Lane:
    """The outcome of a racer.

    clock: its own seconds at the start and after each leg; step: seconds of a step, over the legs, or as recorded;
    agreement: with the first lane of this computer, None for that lane and for records.
    """

    racer: Racer
    step: Spread
    clock: tuple[float, ...]
    agreement: Agreement | None = None

    @property
    def seconds(self) -> float:
        """Seconds to the finish line."""
        return self.clock[-1]

    @property
    def right(self) -> bool:
        """Whether the lane counts: True unless a comparison of its result failed."""
        return self.agreement is None or self.agreement.agrees


@dataclass(frozen=True)
class RaceResult:
    """The outcome of a race.

    lanes: in the order of the start; steps: to the finish line; marks: steps at each moment of the lanes' clocks.

    pictures: at these moments, computed by one lane of this computer, as levels (one byte a pixel, row 0 the lowest),
    or curves (measure/course.py); words: the work; unit: name of a step; made_by: the backend of that lane, with which
    the others are compared; left_out: racers that could not race, with the reason; timed: contents of a time, for races
    to a whole result; ended: why that ended, if other reasons than the goal are possible; others: cores that other
    processes kept busy during the race, None if unknown.
    """

    lanes: tuple[Lane, ...]
    steps: int
    marks: tuple[int, ...]
    pictures: tuple[NDArray[np.uint8], ...]
    words: str
    unit: str = "step"
    made_by: str = ""
    curves: tuple[NDArray[np.float64], ...] = ()
    left_out: tuple[str, ...] = ()
    timed: str = ""
    ended: str = ""
    others: float | None = None

    @property
    def ranks(self) -> tuple[Lane, ...]:
        """The right lanes, in the order of arrival at the finish line."""
        return tuple(sorted((lane for lane in self.lanes if lane.right), key=lambda lane: lane.seconds))

    @property
    def compared_with(self) -> Lane:
        """The lane of this computer that made the pictures: the first, unless `made_by` names another."""
        own = [lane for lane in self.lanes if lane.racer.record is None]
        return next((lane for lane in own if lane.racer.backend == self.made_by), own[0])

    def behind(self, lane: Lane) -> float:
        """Return the time of `lane` to the finish line over the winner's."""
        return lane.seconds / self.ranks[0].seconds

    def speed_up(self, lane: Lane) -> SpeedUp:
        """Return the same for a typical step, as a bench does: the ratio of medians with its confidence interval."""
        return SpeedUp.of(lane.step, self.ranks[0].step)


@dataclass
class RunningLane:
    """A lane of this computer while it races.

    twin: a second lab on which a longer stretch is timed if legs are too short; agreement: with the first lane, if
    compared before the start.
    """

    racer: Racer
    lab: Lab
    twin: Lab | None = None
    stretch: int = 0  # steps of the longer stretch
    clock: list[float] = field(default_factory=lambda: [0.0])
    steps: list[float] = field(default_factory=list)  # seconds a step of each leg
    agreement: Agreement | None = None

    def warm_up(self, count: int, twin: Callable[[], Lab]) -> None:
        """Run an untimed leg and reset; open the twin if the leg was too short for a clock."""
        self.lab.advance(count)  # compiles
        step = self.lab.advance(count).step_seconds
        self.lab.reset()
        if step * count < SHORTEST:
            self.stretch = sample_steps(self.lab, step)
            self.twin = twin()
            self.twin.advance(self.stretch)  # the first one at full length: it may tune itself

    def go(self, count: int) -> None:
        """Run a leg."""
        timing = self.lab.advance(count)
        if self.twin is not None:
            self.twin.reset()
            timing = self.twin.advance(self.stretch)
        self.clock.append(self.clock[-1] + timing.step_seconds * count)
        self.steps.append(timing.step_seconds)


@dataclass(frozen=True)
class Race:
    """A race of `lab` with the same `values` for all.

    steps: to the finish line, 0 for as many as take SECONDS; time: the simulated time from which `steps_to` calculated
    the steps, 0 if the steps were given directly.
    """

    lab: type[Lab]
    values: Mapping[str, Any]
    racers: tuple[Racer, ...]
    steps: int = 0
    time: float = 0.0

    def __post_init__(self) -> None:
        if not FEWEST_LANES <= len(self.racers) <= MOST_LANES:
            wrong = f"a race has {FEWEST_LANES} to {MOST_LANES} lanes, not {len(self.racers)}"
            if len(self.racers) < FEWEST_LANES and too_large_for_numpy(self.lab, self.values):
                side = isqrt(NUMPY_CELLS)
                wrong += f": NumPy has none on more than {side} × {side} cells, so choose a smaller grid"
            raise RaceError(wrong)
        if not 0 <= self.steps <= MOST_STEPS:
            raise RaceError(f"steps must be from 0 to {spaced(MOST_STEPS)}, not {spaced(self.steps)}")
        work = self.steps * cells(self.lab, self.values)
        if work > MOST_WORK:
            raise RaceError(f"{work:.1e} steps times cells are more than the {MOST_WORK:.0e} of a race")
        if self.lab.ENDS and self.steps:
            raise RaceError(f"steps must be 0 in {self.lab.LAB}, whose race is for a whole result, not {self.steps}")
        _ = self.words  # raises ValueError without a whole result to race for
        own = [racer.backend for racer in self.racers if racer.record is None]
        if self.lab.ENDS and len(set(own)) < len(own):
            raise RaceError(f"lanes of {self.lab.LAB} must be of different backends, not {', '.join(own)}")
        if all(racer.record for racer in self.racers):
            raise RaceError("one lane at least must be of this computer, which computes the pictures")
        for name in own:
            backend(name).require()
            if why := backend(name).simulated:
                raise RaceError(f"{name} cannot race: {why}")

    def run(self, progress: OnRaceProgress) -> RaceResult:
        """Run the race; `progress` receives its state. ValueError for values that the lab refuses."""
        if self.lab.ENDS:
            return self._run_course(progress)
        with ExitStack() as stack:
            lanes = [RunningLane(racer, self._open(racer, stack)) for racer in self.racers if racer.record is None]
            progress(0.0, "warming up")
            steps = self.steps or suggested(lanes)
            legs = tuple(cut(steps))
            for lane in lanes:
                lane.warm_up(legs[-1], partial(self._open, lane.racer, stack))
            compare_early(lanes)
            pictures = [picture(lanes[0].lab)]
            for number, count in enumerate(legs):
                for lane in (*lanes[number % len(lanes) :], *lanes[: number % len(lanes)]):
                    lane.go(count)
                pictures.append(picture(lanes[0].lab))
                progress((number + 1) / len(legs), f"leg {number + 1} of {len(legs)}")
            marks = tuple(int(mark) for mark in np.cumsum((0, *legs)))
            found = iter([finished(lane, lanes[0], steps) for lane in lanes])
            all_lanes = (recorded(racer, marks) if racer.record else next(found) for racer in self.racers)
            return RaceResult(tuple(all_lanes), steps, marks, tuple(pictures), self.words)

    def _run_course(self, progress: OnRaceProgress) -> RaceResult:
        """Run to a whole result; RaceError if fewer than two lanes can be timed."""
        progress(0.0, "warming up")
        benchmark = benchmark_of(self.lab)
        if not isinstance(benchmark, CaseBenchmark):
            raise RaceError(f"{self.lab.LAB} cannot race: its bench has no cases")
        own = [backend(racer.backend) for racer in self.racers if racer.record is None]
        refused = {one.name: why for one in own if (why := benchmark.refusal(one, self.given))}
        backends = [one for one in own if one.name not in refused]
        if not backends or len(self.racers) - len(refused) < FEWEST_LANES:
            reasons = (f"{backend(name).label}: {why}" for name, why in refused.items())
            raise RaceError(f"fewer than {FEWEST_LANES} lanes can be timed: {'; '.join(reasons)}")
        made_by = preferred(backends)
        course = benchmark.course(self.given, made_by, PICTURE)
        rows = {row.backend: row for row in run_course(benchmark, course, backends, progress)}
        untimed = refused | {name: row.reason for name, row in rows.items() if row.measurement is None}
        left_out = [f"{backend(name).label}: {reason}" for name, reason in untimed.items()]
        running = [racer for racer in self.racers if racer.record or racer.backend not in untimed]
        if len(running) < FEWEST_LANES:
            raise RaceError(f"fewer than {FEWEST_LANES} lanes can be timed: {'; '.join(left_out)}")
        lanes = tuple(
            recorded(racer, course.marks, 1 / course.marks[-1]) if racer.record
            else timed(racer, rows[racer.backend], course, made_by.name)
            for racer in running
        )  # fmt: skip
        shown = course.marks, course.pictures, self.words, course.unit, made_by.name, course.curves
        return RaceResult(lanes, course.marks[-1], *shown, tuple(left_out), course.timed, course.ended)

    @property
    def given(self) -> dict[str, Any]:
        """All values of the lab except those for its backend and device."""
        placed = ("name", "backend", "device_index")
        given = {name: self.lab.param[name].default for name in self.lab.param if name not in placed}
        own = [backend(racer.backend) for racer in self.racers if racer.record is None]
        return dict(benchmark_of(self.lab).raced_values(given | dict(self.values), own))

    @property
    def words(self) -> str:
        """The work, as text."""
        lab, given = self.lab, self.given
        if lab.ENDS:
            return benchmark_of(lab).course_words(given)
        sides = [f"{given['nx']} × {given['ny']} cells"] if {"nx", "ny"} <= given.keys() else []
        until = [f"to t = {time_words(lab, self.time)}, {spaced(self.steps)} steps"] if self.time else []
        return ", ".join([*sides, *(str(given[name]) for name in ("dtype", "edges") if name in given), *until])

    def _open(self, racer: Racer, stack: ExitStack) -> Lab:
        """Open the lab for a lane; `stack` closes it."""
        variant = {"variant": racer.variant} if "variant" in self.lab.param else {}
        return stack.enter_context(closing(self.lab(**{**alone(self.values), **variant, "backend": racer.backend})))


def cells(lab: type[Lab], values: Mapping[str, Any]) -> int:
    """Return the cells of the grid at these values; 1 for a lab without a grid.

    RaceError for a side out of its bounds.
    """
    sides = {side: values.get(side, lab.param[side].default) for side in ("ny", "nx") if side in lab.param}
    require_whole_numbers(lab, sides)
    return prod(sides.values())


def require_whole_numbers(lab: type[Lab], values: Mapping[str, Any]) -> None:
    """Raise RaceError for a whole number out of its parameter's bounds, since the limits of a race divide by them."""
    for name, value in values.items():
        parameter = lab.param[name]
        if isinstance(parameter, param.Integer) and not (value is None and parameter.allow_None):
            least, most = parameter.bounds or (None, None)
            low, high = -inf if least is None else least, inf if most is None else most
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise RaceError(f"{name} must be a whole number from {low} to {high}, not {short(value)}")


def most_steps(lab: type[Lab], values: Mapping[str, Any]) -> int:
    """Return the largest number of steps of a race on the grid at these values."""
    return min(MOST_STEPS, MOST_WORK // cells(lab, values))


def sample_steps(lab: Lab, step: float) -> int:
    """Return the steps of a sample of the lab's bench with its kernel, of which one step takes `step` seconds."""
    benchmark = benchmark_of(type(lab))
    most = benchmark.most_steps if isinstance(benchmark, CaseBenchmark) else MOST_SAMPLED
    rules = benchmark.rules
    return steps_for(step, most=most, at_once=rules.steps_at_once(lab.backend, kernel_name(lab)) if rules else 1)


def kernel_name(lab: Lab) -> str:
    """Return the bench's name of the kernel that a lab runs; "" if its kernels have no names."""
    named = vars(lab.kernels)
    chosen = str(lab.values().get("variant", ""))
    return chosen or next((name for name, one in named.get("VARIANTS", {}).items() if one is named.get("step")), "")


def steps_to(lab: type[Lab], values: Mapping[str, Any], time: float) -> int:
    """Return the steps to a simulated time, in the lab's unit; RaceError for no or too many steps."""
    given = {name: lab.param[name].default for name in lab.param} | dict(values)
    step = benchmark_of(lab).step_time(given)
    if not step > 0:
        raise RaceError(f"time cannot be given for {lab.LAB}, in which no simulated time passes")
    if not 0 < time < inf:
        raise RaceError(f"time must be above 0 and finite, not {time:g}")
    steps = ceil(time / step * (1 - ROUNDED))
    most = most_steps(lab, values)
    if steps > most:
        where = "" if most == MOST_STEPS else " on this grid"
        needed = f"t = {time_words(lab, time)} needs {spaced(steps)} steps"
        raise RaceError(f"{needed}, and a race{where} has {spaced(most)} at most")
    return max(1, steps)


def time_words(lab: type[Lab], time: float) -> str:
    """Format a simulated time with its unit."""
    return f"{time:g} {benchmark_of(lab).time_unit}".rstrip()


def suggested(lanes: Sequence[RunningLane]) -> int:
    """Return 1, 2 or 5 times a power of ten steps, at least LEGS, for which the slowest lane needs SECONDS at most."""
    slowest = 0.0
    for lane in lanes:
        lane.lab.advance(1)  # compiles
        slowest = max(slowest, min(lane.lab.advance(1).step_seconds for _ in range(TRIALS)))
        lane.lab.reset()
    most = SECONDS / slowest if slowest > 0 else MOST_STEPS
    fitting = [each * 10**power for power in range(6) for each in (1, 2, 5) if each * 10**power <= most]
    return max([LEGS, *fitting])


def cut(steps: int) -> Iterator[int]:
    """Yield the steps of each leg, at most LEGS legs of nearly equal length."""
    legs = min(LEGS, steps)
    for number in range(legs):
        yield steps * (number + 1) // legs - steps * number // legs


def picture(lab: Lab) -> NDArray[np.uint8]:
    """Return the levels of the first raster of the lab's frame, at most PICTURE in size; ValueError without one."""
    rasters = list(lab.frame(None, PICTURE).rasters.values())
    if rasters:
        return np.array(rasters[0].levels)
    raise ValueError(f"a race needs a frame with a raster, and those of {lab.LAB} have none")


def compare_early(lanes: Sequence[RunningLane]) -> None:
    """If steps amplify rounding, compare the lanes after the few steps that their bench uses, and reset them.

    At the finish line such fields may have overflowed, and right ones then differ as much as wrong ones.
    """
    rules, values = benchmark_of(type(lanes[0].lab)).rules, lanes[0].lab.values()
    if not isinstance(rules, FieldRules) or rules.growth(values) <= 1:
        return
    steps = rules.compared_after(values)
    for lane in lanes:
        lane.lab.advance(steps)
    for lane in lanes[1:]:
        lane.agreement = compared(lane.lab, lanes[0].lab, steps)
    for lane in lanes:
        lane.lab.reset()


def finished(lane: RunningLane, first: RunningLane, steps: int) -> Lane:
    """Return the outcome of a lane at the finish line."""
    agreement = None if lane is first else lane.agreement or compared(lane.lab, first.lab, steps)
    return Lane(lane.racer, Spread.of(lane.steps), tuple(lane.clock), agreement)


def compared(lab: Lab, first: Lab, steps: int) -> Agreement:
    """Compare the fields of two lanes.

    Each step rounds again, so the tolerance of the lab's bench grows with the steps; for schemes that amplify rounding,
    by the amplification.
    """
    rules, values = benchmark_of(type(lab)).rules, lab.values()
    allowed, early = nan, ""
    if isinstance(rules, FieldRules):
        growth, rounded = rules.growth(values), max(1.0, steps / rules.check_steps)
        if growth > 1:
            rounded = amplification(growth, steps)
            early = f"; unstable: rounding is amplified, so compared after {steps} step{'s' * (steps != 1)}"
        allowed = rules.tolerance[rules.dtype(values)] * rounded
    difference = relative_l2([lab.field()], [first.field().astype(np.float64)])
    said = f"rel.\N{NO-BREAK SPACE}{difference:.1e}{early}"
    about = f"relative L2 against the first lane after {steps} steps; up to {allowed:.0e} counts as right"
    return Agreement(difference, allowed, said, about)


def recorded(racer: Racer, marks: Sequence[int], part: float = 1.0) -> Lane:
    """Return the lane of a record, with the recorded seconds of a step. part: fraction of such a step of one mark."""
    assert racer.record is not None  # noqa: S101 - as `run` asks
    figure = racer.record
    return Lane(racer, Spread(figure.step, figure.q1, figure.q3, 0), tuple(figure.step * mark * part for mark in marks))


def timed(racer: Racer, row: Row, course: Course, made_by: str) -> Lane:
    """Return the lane of a bench's row, for a race to a whole result: one run of it is a step of the row."""
    assert row.measurement is not None  # noqa: S101 - as `_run_course` asks
    step = row.measurement.step
    clock = tuple(step.median * mark / course.marks[-1] for mark in course.marks)
    if racer.backend == made_by:
        return Lane(racer, step, clock)
    difference, allowed = row.difference or 0.0, course.case.tolerance
    about = f"against {backend(made_by).label}'s result; up to {allowed:.1e} counts as right"
    return Lane(racer, step, clock, Agreement(difference, allowed, course.said(difference), about))


def run_race(race: Race, report: OnRaceProgress) -> RaceResult:
    """Run a race in this process, as a job or a command does, and measure the CPU use of other processes."""
    work = OtherWork()
    return replace(race.run(report), others=work.cores())


def default_racers(lab: type[Lab], values: Mapping[str, Any], figures: Sequence[Recorded]) -> tuple[Racer, ...]:
    """Return NumPy, Numba, the GPU of this computer if any, and a recorded one if it did the same work.

    figures: all recorded ones. NumPy is omitted on grids on which it would take minutes; a backend that is then alone
    races its other kernels.
    """
    known = backends_for(lab, values)
    gpus = [one for one in known if one.kind == "gpu"]
    own = [one for one in known if one.kind == "cpu"]
    racers = [Racer(one.name) for one in (*own, *([preferred(gpus)] if gpus else []))]
    racers += recorded_racers(lab, values, figures)
    if len(racers) < FEWEST_LANES:
        return possible_racers(lab, values, figures)[:MOST_LANES]
    return tuple(racers[-MOST_LANES:])


def possible_racers(lab: type[Lab], values: Mapping[str, Any], figures: Sequence[Recorded]) -> tuple[Racer, ...]:
    """Return all possible racers on this computer. See `default_racers`.

    These are every backend that is ready; its other kernels, except kernels wrong by design, if the lab has a
    choice of kernels; and a recorded GPU if it did the same work.
    """
    racers = []
    for one in backends_for(lab, values):
        racers.append(Racer(one.name))
        if "variant" in lab.param and not lab.ENDS:
            kernels, benchmark = vars(one.kernels(lab.PACKAGE)), benchmark_of(lab)
            wrong = benchmark.wrong if isinstance(benchmark, CaseBenchmark) else {}
            named = kernels.get("VARIANTS", {}).items()
            others = [name for name, kernel in named if kernel is not kernels.get("step") and name not in wrong]
            racers += [Racer(one.name, name) for name in others]
    return (*racers, *recorded_racers(lab, values, figures))


def racers_named(names: Sequence[str], possible: Sequence[Racer]) -> tuple[Racer, ...]:
    """Return the racers with these keys, in the order of `possible`; RaceError for unknown or repeated names."""
    known = [racer.key for racer in possible]
    for name in names:
        if name not in known or names.count(name) > 1:
            raise RaceError(f"lanes must be different ones of {', '.join(known)}, not {', '.join(names)}")
    return tuple(racer for racer in possible if racer.key in names)


def backends_for(lab: type[Lab], values: Mapping[str, Any]) -> list[Backend]:
    """Return the lab's backends that are ready, without NumPy on grids on which it would take minutes."""
    large = too_large_for_numpy(lab, values)
    return [one for one in lab.backends() if one.ready and not (large and one.name == REFERENCE)]


def too_large_for_numpy(lab: type[Lab], values: Mapping[str, Any]) -> bool:
    """Whether NumPy would take minutes; False for a whole result, since its first call measures the time."""
    return not lab.ENDS and cells(lab, values) > NUMPY_CELLS


def recorded_racers(lab: type[Lab], values: Mapping[str, Any], figures: Sequence[Recorded]) -> list[Racer]:
    """Return the recorded GPU that did the work of these values, if any."""
    given = {name: lab.param[name].default for name in lab.param} | dict(values)
    rules = benchmark_of(lab).rules
    pair = rules.recorded_pair(given, figures) if rules else None
    return [Racer(pair.gpu.backend, pair.gpu.variant, pair.gpu)] if pair is not None and pair.same else []
