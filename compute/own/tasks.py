"""Tasks of a way's process: load the file, check the way, time it. A process loads one file.

A task is a function for a ChildProcess and raises Fault. The user's file is executed only in such a process.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path
from time import monotonic
from typing import Any

import numba
import numpy as np

from compute.devices.backends import Backend
from compute.measure.agreement import error_line
from compute.measure.sampling import CUBIC, expected_seconds
from compute.own import cpu_threads, gpu_stand_in
from compute.own.faults import Fault, fault_of
from compute.own.verdict import AskedWork
from compute.own.watch import AccessWatch, KernelLaunch, Order
from compute.process.tasks import Report
from compute.ways.comparing import Question, ResultComparison, awkward, questions
from compute.ways.declaring import OwnFile, OwnWay, load
from compute.ways.plan import Point, SweepPlan
from compute.ways.roofline import Roof, roof_of
from compute.ways.runner import WorkloadRunner
from compute.ways.sweep import Sweep, SweepProgress
from compute.ways.workload import Way

ENOUGH = 5  # inputs tested even if the time is over: n = 1 to 33, with 1 and 33 = 1 mod 32
FLUSHED = "denormal numbers count as 0 (CuPy compiles every kernel so)"
FLUSHED_WGSL = "denormal numbers count as 0, as WGSL allows"
REPEATS, REPEATED_N = 20, 100_003  # runs on a truly parallel device; their n before the largest
FEWEST_REPEATS = 3  # of the largest n, even if the time is over
PATIENCE = 4.0  # factor on the allowed seconds for these
WATCHED_SIZES = (33, 97, 257)  # n at which parallel loops run iteration by iteration
PIECES = 16  # chunks of a loop per thread
PARALLEL = ("parallel", "threading", "concurrent")  # words in sources that may start CPU threads
MOST_ON_STAND_IN = 1031  # n: several blocks, the last of which is not full


@dataclass(frozen=True)
class FileFacts:
    """The declarations of a file, without its functions."""

    sizes: tuple[int, int]
    dtypes: tuple[str, ...]
    ways: tuple[OwnWay, ...]

    @property
    def reference(self) -> OwnWay:
        """Return the way that the others are compared with."""
        return next(way for way in self.ways if way.is_reference)


@dataclass(frozen=True)
class CheckedWay:
    """The checks that a way has passed. asked: tested inputs, as text; notes: inputs left out.

    launches: of the last input, in the given order; left: the check at which time ended, "" if all were done.
    """

    asked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    launches: tuple[KernelLaunch, ...] = ()
    left: str = ""


@dataclass(frozen=True)
class WatchedThreads:
    """The result for a way's parallel loops. asked: tested n, as text; unwatched: why they were not checked."""

    asked: tuple[str, ...] = ()
    unwatched: str = ""


@dataclass(frozen=True)
class PointFacts:
    """The times of a way at one n. seconds: per call, of each sample; work: minimum work, None without times."""

    n: int
    status: str
    reason: str
    seconds: tuple[float, ...]
    launch: tuple[float, ...]
    first_call: float
    work: AskedWork | None = None


@dataclass
class _Open:
    """The file of this process. stand_in: backends that replace those of an absent GPU, by name."""

    file: OwnFile
    stand_in: Mapping[str, Backend]
    sweep: Sweep | None = None
    going: Generator[SweepProgress, None, None] | None = None


_open: list[_Open] = []


def open_file(path: Path, stand_in: bool, memory: int, interpret: bool, report: Report) -> FileFacts:
    """Load the file; the first task of a process. memory: bytes that the process may use, 0 for no limit."""
    report(0.0, f"importing {path.name}")
    _limit(memory)
    if interpret:
        cpu_threads.install()
    backends = on_stand_ins() if stand_in else {}
    if "cupy" not in sys.modules and not find_spec("cupy"):
        gpu_stand_in.install()  # so that CPU ways can be measured even if the file imports CuPy at its top
    with _told(path, "importing it"):
        file = load(path, gpu_stand_in.compile_source)
    _open[:] = [_Open(file, backends)]
    ways = tuple(own.without_call() for own in file.ways.values())
    return FileFacts(file.sizes, file.dtypes, ways)


def on_stand_ins() -> dict[str, Backend]:
    """Install the stand-ins for GPUs in this process; return their backends by name."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        from compute.own import gpu_simulator

        gpu_simulator.install()
    gpu_stand_in.install()
    return {gpu_stand_in.STAND_IN.name: gpu_stand_in.STAND_IN}


def _limit(memory: int) -> None:
    if memory and sys.platform == "linux":
        import resource

        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


@contextmanager
def _told(path: Path, doing: str) -> Iterator[None]:
    """Convert errors raised in the block to Fault."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - any error of a user's file, including SystemExit
        raise fault_of(error, path, doing) from None


def _way(name: str) -> OwnWay:
    opened = _open[-1]
    own = opened.file.ways[name]
    return replace(own, backend=opened.stand_in.get(own.backend.name, own.backend))


def check(name: str, dtype: str, seed: int, seconds: float, most: int, longest: float, report: Report) -> CheckedWay:
    """Compare the way with the reference on difficult inputs. Raise Fault.

    most: the largest n; seconds: time after which no further input is tested, counted after the first call, which may
    compile; longest: seconds that one input may be expected to take, extrapolated from earlier inputs. Without a GPU,
    each order of blocks and threads is tested on the stand-in; otherwise the largest n is repeated.
    """
    opened = _open[-1]
    checking = Checking(opened.file, _way(name), dtype, seed, bool(opened.stand_in))
    planned = list(questions(opened.file.sizes, most, opened.file.denormals, opened.file.nan))
    started, durations = monotonic(), dict[int, float]()
    for asked, question in enumerate(planned):
        if asked >= ENOUGH and monotonic() - started > seconds:
            return replace(checking.found, left=f"time ended before {question.text}")
        if asked >= ENOUGH and (expected := expected_seconds(durations, question.n)) > longest:
            return replace(checking.found, left=f"{question.text} would take about {expected:.0f} s")
        report(0.0, question.text)
        began = monotonic()
        checking.ask(question)
        durations[question.n] = monotonic() - began
        if not asked:
            started = monotonic()
    if opened.stand_in:
        return checking.found
    largest = min(most, opened.file.sizes[1])
    took, repeated = 0.0, 0
    for n in dict.fromkeys((min(REPEATED_N, largest), largest)):
        report(0.0, f"repeating, n = {n}")
        if repeated and took * n / repeated > PATIENCE * seconds:
            return replace(checking.found, left=f"time ended after n = {repeated:,}; n = {n:,} would take too long")
        took = checking.repeat(n, started + seconds, monotonic() + PATIENCE * seconds, report)
        repeated = n
    return checking.found


def watch_threads(name: str, dtype: str, seed: int, seconds: float, report: Report) -> WatchedThreads:
    """Look for races between the iterations of the way's parallel loops, which run as plain Python. Raise Fault."""
    opened = _open[-1]
    own, file = _way(name), opened.file
    comparison, asked, loops = ResultComparison(), list[int](), 0
    tolerance = file.workload(comparison, seed).tolerance[dtype]
    sizes = [n for n in WATCHED_SIZES if file.sizes[0] <= n <= file.sizes[1]] or [file.sizes[0]]
    for n in sizes:
        report(0.0, f"iteration by iteration, n = {n}")
        inputs = file.case_inputs(n, dtype, np.random.default_rng([seed, n]))
        first: tuple[Any, ...] | None = None
        for order in Order:
            started = monotonic()
            try:
                watch, results = _interpreted(file, own, inputs, order, seed)
            except Exception as error:  # noqa: BLE001 - code for Numba may be invalid as plain Python
                return WatchedThreads((), f"it does not run as plain Python ({error_line(error)})")
            if watch.race:
                raise Fault("race", f"{watch.race.text} (n = {n})")
            loops += watch.loops
            first = results if first is None else first
            if watch.loops and not comparison(results, first) <= tolerance:
                raise Fault("race", f"its result depends on the order of its iterations (n = {n}): {comparison.said}")
        asked.append(n)
        larger = next((one for one in sizes if one > n), n)
        if len(Order) * (monotonic() - started) * (larger / n) ** CUBIC > seconds:
            break
    if not loops:
        source = cpu_threads.reachable_source(own.function())
        threads = next((word for word in PARALLEL if word in source), "")
        return WatchedThreads((), f"no prange loop ran, though its source says {threads!r}" if threads else "")
    return WatchedThreads((f"n = {', '.join(map(str, asked))}",))


def _interpreted(
    file: OwnFile, own: OwnWay, inputs: tuple[Any, ...], order: Order, seed: int
) -> tuple[cpu_threads.ThreadWatch, tuple[Any, ...]]:
    """Run one call and return its recorded accesses and its results."""
    names = list(inspect.signature(own.function()).parameters)
    module = sys.modules.get(f"own_{file.path.stem}")
    for chunked in (False, True):
        watch = cpu_threads.ThreadWatch(order, seed, chunked)
        outputs = () if file.in_place else tuple(np.empty(a.shape, a.dtype) for a in file.truth(inputs))
        arguments = own.prepared(tuple(np.array(v) if isinstance(v, np.ndarray) else v for v in (*inputs, *outputs)))
        given = tuple(
            watch.watched(value, names[place] if place < len(names) else f"argument {place + 1}")
            if isinstance(value, np.ndarray) else value
            for place, value in enumerate(arguments)
        )  # fmt: skip
        try:
            with np.errstate(all="ignore"), watch.watching(), cpu_threads.creators_watched(watch, module):
                returned = own.function()(*given)
        except cpu_threads.NeedsChunks:
            continue
        if returned is None:
            found = arguments[len(inputs) :] or tuple(v for v in arguments if isinstance(v, np.ndarray))
        else:
            found = returned if isinstance(returned, tuple) else (returned,)
        return watch, tuple(np.array(one) for one in found)
    raise RuntimeError("the thread number is requested outside of a loop")


@contextmanager
def _cut_into_pieces(n: int, number: int) -> Iterator[None]:
    """Vary how Numba's scheduler cuts parallel loops: one chunk per thread, or many chunks of changing size."""
    before = numba.get_parallel_chunksize()
    numba.set_parallel_chunksize(0 if number % 2 else max(1, n // (numba.config.NUMBA_NUM_THREADS * PIECES) + number))
    try:
        yield
    finally:
        numba.set_parallel_chunksize(before)


class Checking:
    """Compare a way with the reference, one input after the other."""

    def __init__(self, file: OwnFile, way: OwnWay, dtype: str, seed: int, stand_in: bool) -> None:
        self._file, self._way, self._dtype, self._seed = file, way, dtype, seed
        self._orders = tuple(Order) if stand_in else (Order.given,)
        self._comparison = ResultComparison()
        self._sizes: list[int] = []
        self._asked: list[str] = []
        self._notes: list[str] = []
        self._launches: tuple[KernelLaunch, ...] = ()
        self.streams = 0  # of a GPU, used in the last input, without the default stream
        with _told(file.path, "the reference"):
            self._workload = file.workload(self._comparison, seed)

    @property
    def found(self) -> CheckedWay:
        """Return the checks passed so far."""
        sizes = [f"{n:,}" for n in self._sizes]
        asked = ([f"n = {', '.join(sizes)}"] if sizes else []) + self._asked
        return CheckedWay(tuple(asked), tuple(self._notes), self._launches)

    def ask(self, question: Question) -> None:
        """Compare the way with the reference at one input. Raise Fault if the results differ."""
        rng = np.random.default_rng([self._seed, question.n])
        with np.errstate(all="ignore"):
            try:
                inputs = awkward(self._file.case_inputs(question.n, self._dtype, rng), question.kind, rng)
                truth = self._file.truth(inputs)
            except BaseException as error:  # noqa: BLE001 - any error of the user's file
                if question.kind == "random" and question.n >= self._file.sizes[0]:
                    raise fault_of(error, self._file.path, f"the reference, {question.text}") from None
                self._notes.append(f"not asked: {question.text}, which the reference cannot do")
                return
            if question.kind == "denormal" and not all(
                np.isfinite(one).all() for one in truth if one.dtype.kind == "f"
            ):
                self._notes.append(f"not asked: {question.text}, where the reference is not finite")
                return
            for order in self._orders:
                self._compare(question, inputs, truth, order)
        if question.kind == "random":
            self._sizes.append(question.n)
        else:
            self._asked.append(question.text)

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def repeat(self, n: int, until: float, at_most: float, report: Report) -> float:
        """Run the way several times on the same inputs and return the seconds per run; changing results are a race.

        until: time after which FEWEST_REPEATS runs are enough; at_most: time after which no further run starts. Numba's
        loops are cut into chunks of another size in each run.
        """
        inputs = self._file.case_inputs(n, self._dtype, np.random.default_rng([self._seed, n]))
        with _told(self._file.path, f"the reference, n = {n}"):
            truth = self._file.truth(inputs)
        done, wrong, said, started = 0, 0, "", monotonic()
        while done < REPEATS and (monotonic() < until or (done < FEWEST_REPEATS and monotonic() < at_most)):
            done += 1
            report(0.0, f"repeating, n = {n}")
            with _cut_into_pieces(n, done):
                difference = self._difference(n, f"n = {n}", inputs, truth)
            if not difference <= self._workload.tolerance[self._dtype]:
                wrong, said = wrong + 1, self._comparison.said
        if wrong and wrong == done:
            raise Fault("differs", f"it is wrong at n = {n:,}: {said}")
        if wrong:
            raise Fault("race", f"a race: it is wrong {wrong} of {done} times with the same inputs, n = {n:,}: {said}")
        self._asked.append(f"n = {n:,}, {done} time{'s' * (done != 1)}")
        return (monotonic() - started) / max(done, 1)

    def _compare(self, question: Question, inputs: Any, truth: Any, order: Order) -> None:
        with AccessWatch.watching(order, self._seed) as watch:
            difference = self._difference(question.n, question.text, inputs, truth)
        if watch.fault:
            kind, text = watch.fault
            raise Fault(kind, f"{text} ({question.text})")
        if not difference <= self._workload.tolerance[self._dtype]:
            if question.kind == "denormal" and self._flushes(question, inputs):
                self._note(FLUSHED_WGSL if self._way.backend.device == "webgpu" else FLUSHED)
                return
            if order is not Order.given:
                how = {Order.backwards: "backwards", Order.random: "in random order"}[order]
                said = f"it is right if blocks and threads run in their order, and wrong if they run {how}"
                raise Fault("race", f"{said} ({question.text}): {self._comparison.said}")
            raise Fault("differs", f"it is wrong at {question.text}: {self._comparison.said}")
        if order is Order.given:
            self._launches, self.streams = tuple(watch.launches), len(watch.streams)

    def _flushes(self, question: Question, inputs: Any) -> bool:
        """Return whether the way treats denormal inputs as 0 and is right otherwise."""
        said = self._comparison.said
        truth = self._file.truth(awkward(inputs, "zero", np.random.default_rng(0)))
        difference = self._difference(question.n, question.text, inputs, truth)
        self._comparison.said = said
        return difference <= self._workload.tolerance[self._dtype]

    def _difference(self, n: int, doing: str, inputs: Any, truth: Any) -> float:
        with (
            _told(self._file.path, doing),
            WorkloadRunner(self._way, self._workload.case(n, self._dtype), inputs) as runner,
        ):
            return runner.check(truth).difference


# -- times


def start_sweep(
    name: str, dtype: str, sizes: tuple[int, ...], budget: float, longest_call: float, seed: int, report: Report
) -> None:
    """Prepare to time the way at each n of `sizes`, with `budget` seconds of sampling."""
    report(0.0, "preparing")
    opened = _open[-1]
    with _told(opened.file.path, "preparing"):
        of = opened.file.workload(ResultComparison(), seed)
    ways: tuple[Way, ...] = (_way(name),)
    plan = SweepPlan(of, ways, sizes, dtype, budget=budget, longest_call=longest_call, seed=seed)
    opened.sweep = Sweep(plan)
    opened.going = opened.sweep.measure()


def next_round(report: Report) -> tuple[tuple[PointFacts, ...], bool]:
    """Measure one more sample for every n; return the results so far, and whether the sweep is over."""
    opened = _open[-1]
    assert opened.sweep is not None  # noqa: S101 - start_sweep comes first
    assert opened.going is not None  # noqa: S101
    over = True
    with _told(opened.file.path, "timing it"):
        for progress in opened.going:
            report(progress.done, progress.doing)
            if progress.between_rounds:
                over = False
                break
    plan, counted = opened.sweep.plan, opened.file.flops is not None
    return tuple(_facts(point, plan, counted) for point in opened.sweep.points.values()), over


def _facts(point: Point, plan: SweepPlan, counted: bool) -> PointFacts:
    measured = point.status == "measured"
    seconds = tuple(t.step_seconds for t in point.timings) if measured else ()
    launch = tuple(t.launch / t.steps for t in point.timings) if measured else ()
    first = point.first_call if isfinite(point.first_call) else 0.0
    asked = plan.case(point.n).work() if measured else None
    work = AskedWork(asked.moved, asked.flops if counted else nan) if asked else None
    return PointFacts(point.n, point.status, point.reason, seconds, launch, first, work)


def roof(name: str, dtype: str, report: Report) -> Roof:
    """Measure the roofs of the way's device."""
    report(0.0, "measuring the roofs")
    return roof_of(_way(name).backend.open_device(), dtype)
