"""The run of `fieldlab bench crossover`: a sweep for each curve, a round of each at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from math import inf
from time import perf_counter

from compute.backends import BACKENDS
from compute.bench.bandwidth import copy_bandwidth
from compute.bench.fma import fma_rate
from compute.bench.meter import Meter
from compute.bench.rows import Plan as BenchPlan
from compute.bench.rows import Results, Row
from compute.bench.run import Progress as Say
from compute.devices import Device
from compute.labs.crossover.catalogue import Way, Workload, workload
from compute.labs.crossover.plan import Plan
from compute.labs.crossover.results import Case, rows
from compute.labs.crossover.roofline import Roof, roof_of
from compute.labs.crossover.sweep import CHECKS, ROUNDS, Progress, Sweep

LONGEST = 6.0  # seconds that a reference or a comparison may take: larger n are skipped
LONGEST_CALL = 2.0  # seconds that a call may take, of which there are eight at least
ROOF_SAMPLES = 2  # of each roof after a round of a curve
OVER = "the time for all was over"


@dataclass
class Curve:
    """A sweep that is under way. work: its slices; done: part of it; rounds: that are whole; round_seconds: of the
    first one; reason: why it ended before its time.
    """

    title: str
    sweep: Sweep
    work: Generator[Progress, None, None]
    done: float = 0.0
    rounds: int = 0
    round_seconds: float = 0.0
    over: bool = False
    reason: str = ""

    def end(self, reason: str = "") -> None:
        """Nothing more is done; all memory is given back."""
        self.work.close()
        self.over, self.done, self.reason = True, 1.0, reason


class Bench:
    """One run of `plan`, whose cases are results.Case. say: hears how it gets on.

    Every curve is checked and has its first round; then it goes round the curves, a round of each at a time. So the
    visits of a point lie far apart, and a slow spell of the machine is in few of them.
    """

    def __init__(self, plan: BenchPlan, say: Say, clock: Callable[[], float] = perf_counter) -> None:
        self._plan, self._say, self._clock = plan, say, clock
        self._absent: dict[str, Row] = {}
        self._results = Results()
        self._curves: list[Curve] = []
        self._groups = [list(group) for _, group in groupby(plan.cases, key=lambda case: case.group)]
        self._end = inf

    def run(self) -> Results:
        """Every curve in the plan's order, as long as there is time."""
        self._end = self._clock() + min((case.limit for case in self._plan.cases), default=inf)
        for group in self._groups:
            self._begin(group)
        while working := [curve for curve in self._curves if not curve.over]:
            for curve in working:
                self._turn(curve)
        for curve in self._curves:
            plan = curve.sweep.plan
            self._results.rows += rows(curve.sweep, self._roofs(plan.ways, plan.dtype), curve.reason)
        self._results.rows[:0] = self._absent.values()
        return self._results

    def _begin(self, group: Sequence[Case]) -> None:
        """Check a curve and make its first round; only if there is time for ROUNDS of those before."""
        ways = tuple(self._present(ways_of(workload(group[0].workload), group[0].ways)))
        if not ways:
            return
        late = self._clock() + ROUNDS * sum(curve.round_seconds for curve in self._curves) > self._end
        sweep = Sweep(self._sweep_plan(group[:1] if late else group, ways))  # one n tells that it was not begun
        curve = Curve(group[0].group, sweep, sweep.measure())
        self._curves.append(curve)
        if late:
            curve.end(OVER)
        else:
            self._turn(curve)

    def _turn(self, curve: Curve) -> None:
        """The next round of a curve, or its checks and its first. What raises ends this curve alone."""
        began, rounds = self._clock(), curve.rounds
        if began > self._end:
            curve.end(OVER)
            return
        try:
            while not curve.over and curve.rounds == rounds:
                if self._clock() > self._end:
                    curve.end(OVER)
                elif (progress := next(curve.work, None)) is None:
                    curve.end()
                else:
                    if progress.done <= CHECKS:
                        began = self._clock()
                    curve.done, curve.rounds = progress.done, progress.rounds
                    self._tell(curve)
        except Exception as error:  # noqa: BLE001 one broken workload must not lose the figures of the others
            curve.end(" ".join(f"{type(error).__name__}: {error}".split())[:300])
        self._measure_roofs(curve)
        if not rounds:
            curve.round_seconds = self._clock() - began
        self._results.conditions.note(curve.title)

    def _measure_roofs(self, curve: Curve) -> None:
        """Between two rounds the roofs have their turn; their arrays are not there while anything is timed."""
        plan = curve.sweep.plan
        with closing(Meter(self._devices(plan.ways).values(), ("copy", "fma"), plan.dtype)) as meter:
            for _ in range(ROOF_SAMPLES):
                meter.sample()

    def _tell(self, curve: Curve) -> None:
        doing = "timing" if curve.done > CHECKS else "checking"
        self._say(f"{curve.title}: {doing}", sum(curve.done for curve in self._curves) / len(self._groups))

    def _sweep_plan(self, group: Sequence[Case], ways: tuple[Way, ...]) -> Plan:
        first, sizes = group[0], tuple(case.size for case in group)
        return Plan(
            workload(first.workload), ways, sizes, first.dtype, dict(first.settings),
            self._plan.budget / len(self._groups),
            split=True, longest=LONGEST, longest_call=LONGEST_CALL, listen=self._plan.listen,
        )  # fmt: skip

    def _present(self, ways: Sequence[Way]) -> Iterator[Way]:
        """Those of the backends asked for that can be timed here; why the others' libraries cannot is noted.

        Libraries that are no backend of the house are asked for with all of them.
        """
        known, asked = {b.name for b in BACKENDS}, set(self._plan.backends)
        for way in ways:
            name = way.backend.name
            if name not in asked and (name in known or asked != known):
                continue
            reason = way.missing or way.backend.simulated
            if reason:
                self._absent[name] = Row(name, "", None, "missing", reason)
            else:
                yield way

    def _roofs(self, ways: Sequence[Way], dtype: str) -> dict[str, Roof]:
        """The roofs of the devices that these ways use, measured once a process; noted in the results."""
        found: dict[str, Roof] = {}
        for kind, device in self._devices(ways).items():
            found[kind] = roof_of(device, dtype)
            self._results.bandwidths[device.name] = copy_bandwidth(device)
            if fma := fma_rate(device, dtype):
                self._results.fma[device.name, dtype] = fma
        return found

    def _devices(self, ways: Sequence[Way]) -> dict[str, Device]:
        """By kind, those that the ways of our own backends use."""
        known: dict[str, Device] = {}
        for way in ways:
            if way.backend.device not in known and way.backend.name in {b.name for b in BACKENDS}:
                known[way.backend.device] = way.backend.open_device()
        return known


def ways_of(of: Workload, names: Sequence[str]) -> tuple[Way, ...]:
    """The workload's ways of these names; all for none."""
    return tuple(way for way in of.ways() if way.name in (names or [way.name]))
