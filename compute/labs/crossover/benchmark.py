"""`fieldlab bench crossover`: time every way of every workload against n, with the sweep that the lab runs live.

Each curve is a sweep; the bench runs one round of each in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from math import inf, nan
from time import perf_counter
from typing import Any, ClassVar

from rich.console import Console

from compute.devices.backends import BACKENDS
from compute.devices.devices import Device
from compute.labs.crossover import results
from compute.labs.crossover.claims import LikeForLike, Ratio
from compute.labs.crossover.results import BenchCase, rows
from compute.measure.agreement import error_line
from compute.measure.benchmark import Benchmark
from compute.measure.case import BenchPlan, Option, Results, Row
from compute.measure.rates import Rate
from compute.measure.report import as_record
from compute.measure.roofs import RoofMeter
from compute.measure.run import BenchProgress, silent
from compute.measure.sampling import KEPT, LEAST_RUN, Budget, in_turn
from compute.ways.catalogue import workload, workload_names, workloads
from compute.ways.plan import SweepPlan
from compute.ways.roofline import Roof, roof_of
from compute.ways.sweep import CHECKS, Sweep, SweepProgress
from compute.ways.workload import DTYPES, Way, Workload

LONGEST = 6.0  # seconds allowed for a reference or a comparison: larger n are skipped
LONGEST_CALL = 2.0  # seconds allowed for a call
CALL_SHARE = 0.05  # fraction of a curve's share of the budget allowed for a call: a round has one or two per way and n
ROOF_SAMPLES = 2  # samples of each roof after a round of a curve
OVER = "the time for all was over"
NOT_BEGUN = SweepProgress(0.0, "not begun")
LONGEST_LIMIT = 86_400.0
QUICK_BYTES = 700 * 2**20  # larger n are left out by default, unless a tutorial used them
MOST_SIZES, FEW_DECADES = 6, 5  # default number of n of a workload; a range of fewer decades has more n per decade
INCLUDED = (
    "A time is that of a call, when many follow each other, on data that lie on the device, warm: between two CUDA "
    "events on a GPU, wall time on the host and for JAX. Arrays that a way makes for itself are included. Transfer: "
    "inputs to the device and results back, apart. Of the workload transfer: wall time from data in main memory to "
    "results there. Each visit is on the quickest of a few cores. Bytes and operations are the least that a way's work "
    "asks for."
)


def _size(text: str) -> int:
    most = max(w.sizes[1] for w in workloads())
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number n from 1 to {most}")
    return int(text)


def _workload(text: str) -> str:
    return workload(text).name


def _limit(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= LONGEST_LIMIT:
        raise ValueError(f"{text!r} is not a number of seconds from 1 to {LONGEST_LIMIT:.0f}")
    return value


def _way(text: str) -> str:
    known = sorted({way.name for w in workloads() for way in w.ways()})
    if text not in known:
        raise ValueError(f"must be some of {', '.join(known)}, not {text!r}")
    return text


def _rank(case: BenchCase) -> int:
    """Return 0 for cases that tutorials drew conclusions from, else 1, so that a time limit cuts off the others."""
    return 0 if any(claim.test.dtype == case.dtype for claim in workload(case.workload).claims) else 1


def _sizes(of: Workload, wanted: Sequence[int], dtype: str) -> tuple[int, ...]:
    """Return the requested n in the workload's range; by default powers of ten that are quick, plus tutorials' n."""
    if wanted:
        return tuple(n for n in sorted(wanted) if n <= of.sizes[1])
    tens = of.grid(per_decade=1)
    grid = tens if len(tens) >= FEW_DECADES else of.grid(per_decade=2)
    small = [n for n in grid if of.case(n, dtype).work().memory <= QUICK_BYTES]
    tests = [claim.test for claim in of.claims if isinstance(claim.test, Ratio | LikeForLike)]
    others = [test.n for test in tests if test.dtype == dtype]
    others += [cited.n for cited in of.cited if cited.dtype in ("", dtype)]
    return tuple(sorted({*small[-MOST_SIZES:], *(n for n in others if n <= of.sizes[1])}))


@dataclass
class BenchCurve:
    """A sweep in progress. work: its slices; progress: of the last slice; over: whether it has ended, early for
    `reason`.
    """

    title: str
    sweep: Sweep
    work: Generator[SweepProgress, None, None]
    progress: SweepProgress = NOT_BEGUN
    over: bool = False
    reason: str = ""

    def end(self, reason: str = "") -> None:
        """Close the sweep, which releases its memory, and note the reason."""
        self.work.close()
        self.over, self.progress, self.reason = True, SweepProgress(1.0, ""), reason


class SweepBench:
    """One run of `plan`, whose cases are BenchCase. say: called with the progress.

    First each curve is checked and gets one round, so that a small budget leaves none out; then the curves get further
    rounds in turn. The visits of a point are thus far apart, and a slow phase of the machine affects few of them.
    """

    def __init__(self, plan: BenchPlan, say: BenchProgress, clock: Callable[[], float] = perf_counter) -> None:
        self._plan, self._say = plan, say
        self._absent: dict[str, Row] = {}
        self._results = Results()
        self._curves: list[BenchCurve] = []
        self._groups = [list(group) for _, group in groupby(plan.cases, key=lambda case: case.group)]
        self._budget = Budget(max(plan.budget, LEAST_RUN), clock, running=False)  # of the timing
        self._whole = Budget(min((case.limit for case in plan.cases), default=inf), clock)  # checks included

    def run(self) -> Results:
        """Time the curves in the plan's order until the time is used up."""
        limit = self._whole.seconds
        within = "" if limit == inf else f", at most {limit:.0f} s in all"
        timing = f"up to {self._budget.seconds:.0f} s of timing, checks apart{within}"
        self._say(f"{len(self._groups)} curves: {timing}; {KEPT}", 0.0)
        try:
            for group in self._groups:
                self._begin(group)
            in_turn([curve for curve in self._curves if not curve.over], self._turn)
        except KeyboardInterrupt as stop:
            self._results.interrupted = stop
            for curve in self._curves:
                if not curve.over:
                    curve.end("interrupted")
        for curve in self._curves:
            plan = curve.sweep.plan
            self._results.rows += rows(curve.sweep, self._roofs(plan.ways, plan.dtype), curve.reason)
        self._results.rows[:0] = self._absent.values()
        return self._results

    @property
    def _late(self) -> bool:
        return self._budget.over or self._whole.over

    def _begin(self, group: Sequence[BenchCase]) -> None:
        """Check a curve and run its first round if time is left."""
        ways = tuple(self._present(ways_of(workload(group[0].workload), group[0].ways)))
        if not ways:
            return
        late = self._late
        sweep = Sweep(self._sweep_plan(group[:1] if late else group, ways))  # one n reports that it was not begun
        curve = BenchCurve(group[0].group, sweep, sweep.measure())
        self._curves.append(curve)
        if late:
            curve.end(OVER)
        else:
            self._turn(curve)

    def _turn(self, curve: BenchCurve) -> bool:
        """Run the next round of a curve, or its checks and first round; return whether more rounds follow.

        An error ends this curve only.
        """
        try:
            self._round(curve)
        except Exception as error:  # noqa: BLE001 one broken workload must not lose the figures of the others
            curve.end(error_line(error))
        if curve.reason != OVER:
            self._measure_roofs(curve)
            self._results.conditions.note(curve.title)
        return not curve.over

    def _round(self, curve: BenchCurve) -> None:
        """Advance the curve until a round is complete, its sweep ends, or time is over."""
        while not self._late:
            with self._budget.counting(curve.progress.done >= CHECKS):
                progress = next(curve.work, None)
            if progress is None:
                curve.end()
                return
            curve.progress = progress
            self._tell(curve)
            if progress.between_rounds:
                return
        curve.end(OVER)

    def _measure_roofs(self, curve: BenchCurve) -> None:
        """Sample the roofs between two rounds; their arrays are released before anything else is timed."""
        plan = curve.sweep.plan
        with closing(RoofMeter(self._devices(plan.ways).values(), ("copy", "fma"), plan.dtype)) as meter:
            for _ in range(ROOF_SAMPLES):
                meter.sample()

    def _tell(self, curve: BenchCurve) -> None:
        doing = "timing" if curve.progress.done > CHECKS else "checking"
        self._say(f"{curve.title}: {doing}", sum(curve.progress.done for curve in self._curves) / len(self._groups))

    def _sweep_plan(self, group: Sequence[BenchCase], ways: tuple[Way, ...]) -> SweepPlan:
        first, sizes = group[0], tuple(case.size for case in group)
        return SweepPlan(
            workload(first.workload), ways, sizes, first.dtype, dict(first.settings),
            self._plan.budget / len(self._groups),
            split=True, longest=LONGEST, longest_call=self._longest_call, listen=self._plan.listen,
        )  # fmt: skip

    @property
    def _longest_call(self) -> float:
        """Seconds allowed for a call: a smaller budget leaves out the largest n, not whole curves."""
        return min(LONGEST_CALL, CALL_SHARE * self._budget.seconds / len(self._groups))

    def _present(self, ways: Sequence[Way]) -> Iterator[Way]:
        """Yield the ways of the requested backends that can be timed here; note why other libraries are absent.

        Libraries that are not backends of the project are included only if all backends are requested.
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
        """Return the roofs of the devices that the ways use, measured once per process; note them in the results."""
        found: dict[str, Roof] = {}
        for kind, device in self._devices(ways).items():
            found[kind] = roof_of(device, dtype)
            self._results.note_roofs(device, "copy", ())
            self._results.note_roofs(device, "fma", (dtype,))
        return found

    def _devices(self, ways: Sequence[Way]) -> dict[str, Device]:
        """Return the devices that ways of the project's backends use, by kind."""
        known: dict[str, Device] = {}
        for way in ways:
            if way.backend.device not in known and way.backend.name in {b.name for b in BACKENDS}:
                known[way.backend.device] = way.backend.open_device()
        return known


def ways_of(of: Workload, names: Sequence[str]) -> tuple[Way, ...]:
    """Return the workload's ways called `names`, or all ways if `names` is empty."""
    return tuple(way for way in of.ways() if way.name in (names or [way.name]))


class CrossoverBenchmark(Benchmark):
    """Sweeps over n: each curve is timed as a whole, not case by case."""

    package = "compute.labs.crossover"
    rate = Rate("Gelement/s", "elements", "call", "copy", "bytes", lambda _dtype: nan)
    included = INCLUDED
    dtypes = DTYPES
    parameters: ClassVar[Mapping[str, Any]] = {"seed": 0, "longest_s": LONGEST, "longest_call_s": LONGEST_CALL}
    options = (
        Option("workloads", _workload, f"some of {','.join(workload_names())} (default: all)"),
        Option("ways", _way, "names of files, for example cpu_numba,gpu_cupy_fuse (default: all)"),
        Option("sizes", _size, "n, if a workload supports it (default: six powers of ten, and the tutorials' own)"),
        Option("limit", _limit, "total seconds, checks included; no work begins after them (default: none)"),
    )

    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> list[BenchCase]:  # noqa: ARG002
        """Return the cases for all workloads, settings, types and n. Raise ValueError if none remain."""
        limit = min(chosen["limit"], default=inf)
        found = [
            BenchCase(w.name, n, dtype, tuple(settings.items()), tuple(chosen["ways"]), limit=limit)
            for dtype in dtypes for w in workloads() if w.name in (chosen["workloads"] or [w.name])
            if ways_of(w, chosen["ways"])
            for settings in w.choices() for n in _sizes(w, chosen["sizes"], dtype)
        ]  # fmt: skip
        if not found:
            raise ValueError("none of the requested workloads has such a way at such an n")
        return sorted(found, key=_rank)

    def revision(self, row: Row) -> int:
        """Return the revision in the way's file."""
        return workload(row.case.workload).way(row.extra["way"]).revision

    def course_words(self, values: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Raise ValueError: the lab has no whole result to race for; the message names the alternatives."""
        raise ValueError(
            "crossover has no whole result to race for: its curves themselves compare all ways, at every n. "
            "Press Run for them, or begin a race in another lab (without the page: fieldlab bench crossover)"
        )

    def run(self, plan: BenchPlan, progress: BenchProgress = silent) -> Results:
        """Run a sweep for each curve; the curves share the budget equally."""
        return SweepBench(plan, progress).run()

    def show(self, found: Results, console: Console) -> None:
        """Print a table for each curve."""
        results.show_tables(found, console)


BENCHMARK = CrossoverBenchmark()


def record_of(snapshot: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the record of a lab's snapshot in the schema of `fieldlab bench --save`. command: how to repeat it."""
    plan = BenchPlan("crossover", (), (), snapshot["values"]["budget"])
    return as_record(results.results_of(snapshot), plan, command, BENCHMARK)
