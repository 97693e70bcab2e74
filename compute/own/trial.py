"""`fieldlab try` without its command line: compile, compare, find races, time, and draw conclusions.

Each way runs in a separate process (way_process.py). First all ways are checked, GPU ways on stand-ins if the machine
has no GPU. Then the right ones are timed by the crossover lab's harness in alternating rounds, each over all n, so that
disturbances of the machine affect all ways alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import nan
from pathlib import Path
from random import Random
from statistics import median

from compute.devices.backends import ON_SIMULATOR, ON_SOFTWARE
from compute.measure.sampling import in_turn
from compute.measure.statistics import Spread
from compute.own import tasks
from compute.own.faults import Fault
from compute.own.verdict import AskedWork, estimate_of, recorded_roofs, verdict_of
from compute.own.way_process import WayProcess, free_memory
from compute.ways.crossing import with_rounds
from compute.ways.declaring import OwnWay, read_text
from compute.ways.finding import Finding, TimeCurve, compare, sides
from compute.ways.roofline import Roof

ITERATIONS, UNWATCHED = "iteration by iteration", "races between CPU threads are not looked for"
UNWATCHED_WGSL = "races, and accesses outside of arrays, are not looked for in WGSL"
LONGEST = 86_400.0  # seconds allowed for a budget or a deadline
LONGEST_CHECK = 0.5  # fraction of the deadline that one input of a check is expected to use at most
LONGEST_CALL = 0.25  # fraction of the budget that one call may use; larger n are left out
SayLine = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """The options of a trial.

    sizes: smallest and largest n, None for the file's; dtypes: () for the file's; budget: seconds of timing in total;
    deadline: seconds without progress after which a way fails; check_seconds: for the checks of a way, without its
    first call; per_decade: number of timed n; timed, roofs: whether to time the ways and to measure the roofs; memory:
    bytes that a way may use, 0 for a share of the free memory.
    """

    path: Path
    sizes: tuple[int, int] | None = None
    dtypes: tuple[str, ...] = ()
    budget: float = 20.0
    deadline: float = 30.0
    check_seconds: float = 5.0
    per_decade: int = 3
    seed: int = 0
    timed: bool = True
    roofs: bool = True
    memory: int = 0

    def __post_init__(self) -> None:
        for name, value in (("budget", self.budget), ("deadline", self.deadline)):
            if not 0 < value <= LONGEST:
                raise ValueError(f"{name} must be more than 0 and at most {LONGEST:g} seconds, not {value}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be a whole number from 0 to {2**32 - 1}, not {self.seed}")
        if self.sizes and not 1 <= self.sizes[0] < self.sizes[1]:
            raise ValueError(f"sizes must rise from at least 1, not {self.sizes[0]} to {self.sizes[1]}")


@dataclass
class WayReport:
    """The result of one way.

    status: "right", "unchecked" (in part), "wrong", "failed" or "missing"; kind, text: of the fault, "" without one;
    places: of its checks, with the tested inputs as text; unmeasured: why it has no times; left: the check at
    which time ended; unwatched: why its CPU threads were not checked for races.
    """

    way: OwnWay
    status: str = "right"
    kind: str = ""
    text: str = ""
    places: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unmeasured: str = ""
    left: str = ""
    unwatched: str = ""
    series: dict[str, dict[int, Spread]] = field(default_factory=dict)  # by dtype and n
    rounds: dict[str, dict[int, tuple[float, ...]]] = field(default_factory=dict)  # samples in s, by dtype and n
    launch: dict[str, float] = field(default_factory=dict)  # s until an asynchronous call returns, by dtype
    first_call: float = nan

    def fail(self, fault: Fault) -> None:
        """Set status, kind and text from a fault."""
        wrong = fault.kind in ("differs", "race", "outside", "stuck")
        self.status = "wrong" if wrong else "missing" if fault.kind == "missing" else "failed"
        self.kind, self.text = fault.kind, fault.text

    @property
    def sentence(self) -> str:
        """Return the result as one sentence."""
        if self.text:
            return f"{self.way.name}: {self.text}."
        where = "; ".join(f"{place}: {'; '.join(asked)}" for place, asked in self.places.items())
        if not where:
            return f"{self.way.name}: not checked: {self.unmeasured}."
        if self.way.is_reference:
            return f"{self.way.name}: the reference ({where})."
        if self.left:
            return f"{self.way.name}: not fully checked: {self.left} ({where})."
        if self.unwatched:
            return f"{self.way.name}: agrees ({where}); {UNWATCHED}: {self.unwatched}."
        return f"{self.way.name}: right ({where})."


@dataclass
class TrialReport:
    """The result of a file. refused: why it could not be tried; verdict: sentences by dtype."""

    path: Path
    date: str
    ways: list[WayReport] = field(default_factory=list)
    sizes: tuple[int, int] = (0, 0)
    dtypes: tuple[str, ...] = ()
    refused: str = ""
    roofs: dict[str, Roof] = field(default_factory=dict)  # by kind of device and dtype
    findings: dict[str, Finding] = field(default_factory=dict)
    verdict: dict[str, list[str]] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Return whether every way passed all checks that this machine can run."""
        return not self.refused and all(way.status in ("right", "missing") for way in self.ways)

    @property
    def unfinished(self) -> bool:
        """Return whether no fault was found, but time ended before all checks were done."""
        statuses = {way.status for way in self.ways}
        return not self.refused and "unchecked" in statuses and not statuses & {"wrong", "failed"}


def try_file(options: Options, tell: SayLine = lambda _: None) -> TrialReport:
    """Try the file and return the report, which contains all errors. tell: receives the current step."""
    report = TrialReport(options.path, datetime.now(UTC).isoformat(timespec="seconds"))
    try:
        read_text(options.path)
        with ExitStack() as processes:
            KernelTrial(options, report, processes, tell).run()
    except Fault as fault:
        report.refused = fault.text
    except ValueError as error:  # FileRefused, invalid sizes or dtypes
        report.refused = str(error)
    return report


class KernelTrial:
    """One run of `fieldlab try`. Its processes are closed with `processes`."""

    def __init__(self, options: Options, report: TrialReport, processes: ExitStack, tell: SayLine) -> None:
        self._options, self._report, self._tell, self._processes = options, report, tell, processes
        self._memory = options.memory or free_memory()
        self._here: dict[str, WayProcess] = {}  # by way
        self._stand_ins: dict[str, WayProcess] = {}  # by place; reused for the next way unless one failed
        self._interpreter: WayProcess | None = None  # process with Numba's compiler disabled
        self._work: dict[str, dict[int, AskedWork]] = {}  # by dtype and n
        self._facts = tasks.FileFacts((1, 1), (), ())

    def run(self) -> None:
        """Check and time all ways. Raise Fault if the file cannot be loaded or its reference fails."""
        first = self._process(simulate=False, stand_in=False)
        self._facts = facts = first.open()
        self._here[facts.reference.name] = first
        sizes, dtypes = self._options.sizes or facts.sizes, self._options.dtypes or facts.dtypes
        if sizes[1] > facts.sizes[1]:
            raise ValueError(f"sizes must not exceed the file's, {facts.sizes[1]}, not be {sizes[1]}")
        if other := set(dtypes) - set(facts.dtypes):
            raise ValueError(f"dtypes must be of the file's, {', '.join(facts.dtypes)}, not {', '.join(sorted(other))}")
        self._report.sizes, self._report.dtypes = sizes, tuple(dtypes)
        ways = sorted(facts.ways, key=lambda way: not way.is_reference)
        self._report.ways = [WayReport(way) for way in ways]
        for one in self._report.ways:
            self._check(one, dtypes)
            if one.way.is_reference and one.text:
                raise Fault(one.kind, f"{one.sentence[:-1]}; without the reference nothing can be compared")
        if self._options.timed:
            for dtype in dtypes:
                self._time(dtype, sizes)
            self._measure_roofs(dtypes)
        for dtype in dtypes if self._options.timed else ():
            curves = [
                TimeCurve(one.way, one.series[dtype], frozenset(n for n, s in one.series[dtype].items() if s.noisy))
                for one in self._report.ways if one.series.get(dtype)
            ]  # fmt: skip
            finding = self._with_rounds(compare(*sides(curves)), dtype) if len(curves) > 1 else None
            if finding is not None:
                self._report.findings[dtype] = finding
            roofs = {kind: r for kind in ("cpu", "gpu") if (r := self._report.roofs.get(f"{kind} {dtype}"))}
            work = self._work.get(dtype, {})
            self._report.verdict[dtype] = verdict_of(curves, finding, roofs, work)
            if curves and all(curve.kind == "cpu" for curve in curves):
                self._report.verdict[dtype] += estimate_of(curves, work, dtype, recorded_roofs())

    def _with_rounds(self, finding: Finding, dtype: str) -> Finding:
        """Return the finding with an interval that includes the variation between rounds."""
        if finding.crossing is None:
            return finding
        rounds = {one.way.name: one.rounds[dtype] for one in self._report.ways if one.series.get(dtype)}
        slow, fast = (
            {n: rounds[side.leader(n).way.name][n] for n in side.series} for side in (finding.slow, finding.fast)
        )
        return replace(finding, crossing=with_rounds(finding.crossing, slow, fast))

    def _process(
        self, *, simulate: bool, stand_in: bool, bounded: bool = True, interpret: bool = False, software: bool = False
    ) -> WayProcess:
        """Start a process. bounded: limit its memory, which fails with CUDA: it reserves more than the machine has."""
        made = WayProcess(
            self._options.path.resolve(), stand_in=stand_in, simulate=simulate,
            memory=self._memory if bounded else 0, deadline=self._options.deadline, interpret=interpret,
            software=software,
        )  # fmt: skip
        self._processes.callback(made.close)
        return made

    def _check(self, one: WayReport, dtypes: Sequence[str]) -> None:
        """Check a way on its stand-in and on this machine, as available, and store the result."""
        backend = one.way.backend
        dtypes = tuple(dtype for dtype in dtypes if dtype in backend.dtypes)
        if not dtypes:
            one.status, one.unmeasured = "missing", f"{backend.label} computes in {', '.join(backend.dtypes)} only"
            return
        one.notes += [UNWATCHED_WGSL] if backend.stand_in == ON_SOFTWARE else []
        try:
            if backend.stand_in and not (backend.stand_in == ON_SOFTWARE and backend.ready):
                self._check_on_stand_in(one, dtypes)
            if not backend.ready:
                help_ = f"; {backend.install}" if backend.install else ""
                one.unmeasured = f"{backend.missing or backend.simulated}{help_}"
                if not one.places:
                    one.status = "missing"
                return
            if one.way.name not in self._here:
                bounded = backend.kind == "cpu"
                self._here[one.way.name] = self._process(simulate=False, stand_in=False, bounded=bounded)
                self._here[one.way.name].open()
            self._tell(f"checking {one.way.name}")
            self._ask(one, self._here[one.way.name], "here", dtypes, 10**9)
            if backend.kind == "cpu":  # it may have parallel loops of Numba
                self._watch_threads(one, dtypes[0])
        except Fault as fault:
            one.fail(fault)

    def _watch_threads(self, one: WayReport, dtype: str) -> None:
        """Look for races between iterations of parallel loops, in a process with Numba's compiler disabled."""
        self._tell(f"checking {one.way.name} {ITERATIONS}")
        try:
            if self._interpreter is None:
                self._interpreter = self._process(simulate=False, stand_in=False, interpret=True)
                self._interpreter.open()
            task = partial(tasks.watch_threads, one.way.name, dtype, self._options.seed, self._options.check_seconds)
            found: tasks.WatchedThreads = self._interpreter.ask(task)
        except Fault as fault:
            if fault.kind == "race":
                raise
            self._interpreter = None  # the process may have ended
            one.unwatched = fault.text
            return
        one.unwatched = found.unwatched
        if found.asked:
            one.places[ITERATIONS] = found.asked

    def _check_on_stand_in(self, one: WayReport, dtypes: Sequence[str]) -> None:
        place = one.way.backend.stand_in
        self._tell(f"checking {one.way.name} {place}")
        try:
            if place not in self._stand_ins:
                self._stand_ins[place] = self._process(
                    simulate=place == ON_SIMULATOR, stand_in=place != ON_SOFTWARE, software=place == ON_SOFTWARE
                )
                self._stand_ins[place].open()
            self._ask(one, self._stand_ins[place], place, dtypes, tasks.MOST_ON_STAND_IN)
        except Fault as fault:
            if gone := self._stand_ins.pop(place, None):  # a wrong way may have changed the process
                gone.close()
            if fault.kind != "missing" and not (fault.kind == "hangs" and one.way.backend.ready):
                raise  # an endless loop hangs on the device, too
            one.notes.append(f"not checked {place}: {fault.text}")

    def _ask(self, one: WayReport, process: WayProcess, place: str, dtypes: Sequence[str], most: int) -> None:
        asked: list[str] = []
        for dtype in dtypes:
            seconds = self._options.check_seconds / len(dtypes)
            longest = LONGEST_CHECK * self._options.deadline
            task = partial(tasks.check, one.way.name, dtype, self._options.seed, seconds, most, longest)
            found: tasks.CheckedWay = process.ask(task)
            asked += [f"{dtype}, {question}" if len(dtypes) > 1 else question for question in found.asked]
            one.notes += found.notes
            if found.left and place == one.way.backend.stand_in and one.way.backend.ready:
                one.notes.append(f"not fully checked {place}: {found.left}; checked on the device itself")
            elif found.left and not one.way.is_reference:
                one.status, one.left = "unchecked", found.left
        one.places[place] = tuple(asked)

    # -- times

    def _time(self, dtype: str, sizes: tuple[int, int]) -> None:
        """Time the right ways in rounds of shuffled order until each has used its budget."""
        timed = [
            one for one in self._report.ways
            if one.status == "right" and one.way.name in self._here and dtype in one.way.backend.dtypes
        ]  # fmt: skip
        share = self._options.budget / max(1, len(timed)) / len(self._options.dtypes or self._facts.dtypes)
        grid = _grid(sizes, self._options.per_decade)
        going: list[WayReport] = []
        for one in timed:
            longest = LONGEST_CALL * share
            task = partial(tasks.start_sweep, one.way.name, dtype, grid, share, longest, self._options.seed)
            with self._fault_told(one):
                self._here[one.way.name].ask(task)
                going.append(one)

        def turn(one: WayReport) -> bool:
            """Take the next round of a way; return whether more follow."""
            self._tell(f"timing {one.way.name}, {dtype}")
            over = True
            with self._fault_told(one):
                points, over = self._here[one.way.name].ask(tasks.next_round)
                self._take(one, dtype, points)
            return not over

        in_turn(going, turn, Random(self._options.seed))

    @contextmanager
    def _fault_told(self, one: WayReport) -> Iterator[None]:
        """Record a fault while a way is timed: other ways continue, and its earlier times are kept."""
        try:
            yield
        except Fault as fault:
            if any(one.series.values()):
                one.notes.append(f"timing ended early: {fault.text}")
            else:
                one.fail(fault)

    def _take(self, one: WayReport, dtype: str, points: Sequence[tasks.PointFacts]) -> None:
        one.rounds[dtype] = {point.n: point.seconds for point in points if point.seconds}
        one.series[dtype] = {n: Spread.of(seconds) for n, seconds in one.rounds[dtype].items()}
        for point in points:
            if point.work is not None:
                self._work.setdefault(dtype, {})[point.n] = point.work
        first = next((point for point in points if point.seconds), None)
        if first is not None:
            one.launch[dtype], one.first_call = median(first.launch), first.first_call
        for status in ("disagrees", "failed"):
            mine = [point for point in points if point.status == status]
            bad = next((point for point in mine if not point.reason.startswith("at n = ")), next(iter(mine), None))
            if bad is not None and status == "disagrees":
                one.fail(Fault("differs", f"it is wrong at n = {bad.n:,}: it {bad.reason}"))
                one.series.clear()
                return
            note = f"no times from n = {bad.n} on: {bad.reason}" if bad else ""
            if note and note not in one.notes:
                one.notes.append(note)

    def _measure_roofs(self, dtypes: Sequence[str]) -> None:
        if not self._options.roofs:
            return
        for kind in ("cpu", "gpu"):
            one = next((o for o in self._report.ways if any(o.series.values()) and o.way.kind == kind), None)
            for dtype in dtypes if one else ():
                assert one is not None  # noqa: S101 - checked in the line above
                if dtype not in one.way.backend.dtypes:
                    continue
                self._tell(f"measuring what the {kind.upper()} can do, {dtype}")
                with self._fault_told(one):
                    found = self._here[one.way.name].ask(partial(tasks.roof, one.way.name, dtype))
                    self._report.roofs[f"{kind} {dtype}"] = found


def _grid(sizes: tuple[int, int], per_decade: int) -> tuple[int, ...]:
    """Return n from the first to the last size, `per_decade` to a factor of ten, as in Workload.grid."""
    digits = {1: (1,), 2: (1, 3), 3: (1, 2, 5)}[per_decade]
    rounds = (digit * 10**power for power in range(len(str(sizes[1]))) for digit in digits)
    return tuple(sorted({*sizes, *(n for n in rounds if sizes[0] <= n <= sizes[1])}))
