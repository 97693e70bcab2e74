"""What the process of one way does when it is asked: open the file, check the way, time it. One process, one file.

A task is a function for a ChildProcess; what it raises is a Fault. The file runs here and nowhere else.
"""

from __future__ import annotations

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

import numpy as np

from compute.backends import Backend
from compute.export.child_process import Tell
from compute.labs.crossover.plan import Point, SweepPlan
from compute.labs.crossover.roofline import Roof, roof_of
from compute.labs.crossover.runner import WorkloadRunner
from compute.labs.crossover.sweep import Sweep, SweepProgress
from compute.labs.crossover.workload import Way
from compute.own import gpu_stand_in
from compute.own.comparing import Question, ResultComparison, awkward, questions
from compute.own.declaring import OwnFile, OwnWay, load
from compute.own.faults import Fault, fault_of
from compute.own.verdict import AskedWork
from compute.own.watch import AccessWatch, KernelLaunch, Order

ENOUGH = 3  # questions that are asked even if the time is over
FLUSHED = "denormal numbers count as 0 (CuPy compiles every kernel so)"
REPEATS, REPEATED_N = 20, 100_003  # runs of a device that really is parallel, and their n
MOST_ON_STAND_IN = 1031  # n: the last of several blocks is not full


@dataclass(frozen=True)
class FileFacts:
    """What a file declares, without its functions."""

    sizes: tuple[int, int]
    dtypes: tuple[str, ...]
    ways: tuple[OwnWay, ...]
    counts_flops: bool

    @property
    def reference(self) -> OwnWay:
        """The way that the others are compared with."""
        return next(way for way in self.ways if way.is_reference)


@dataclass(frozen=True)
class CheckedWay:
    """What was found of a way that is right so far. asked: about which inputs, in words; notes: what was left out;
    launches: of the last question in the given order.
    """

    asked: tuple[str, ...]
    notes: tuple[str, ...] = ()
    launches: tuple[KernelLaunch, ...] = ()


@dataclass(frozen=True)
class PointFacts:
    """What is known of a way at one n. seconds: of each sample, a call; work: what n asks for, None without times."""

    n: int
    status: str
    reason: str
    seconds: tuple[float, ...]
    launch: tuple[float, ...]
    first_call: float
    work: AskedWork | None = None


@dataclass
class _Open:
    """The file of this process. stand_in: backends in place of those of a GPU that is not there."""

    file: OwnFile
    stand_in: Mapping[str, Backend]
    sweep: Sweep | None = None
    going: Generator[SweepProgress, None, None] | None = None


_open: list[_Open] = []


def open_file(path: Path, stand_in: bool, memory: int, tell: Tell) -> FileFacts:
    """Run the file; everything else comes after it. memory: bytes that this process may take, 0 for any."""
    tell(0.0, f"importing {path.name}")
    _limit(memory)
    backends = on_stand_ins() if stand_in else {}
    if "cupy" not in sys.modules and not find_spec("cupy"):
        gpu_stand_in.install()  # so that the ways of the CPU are measured even if the file imports CuPy at its top
    with _told(path, "importing it"):
        file = load(path)
    _open[:] = [_Open(file, backends)]
    ways = tuple(own.without_call() for own in file.ways.values())
    return FileFacts(file.sizes, file.dtypes, ways, file.flops is not None)


def on_stand_ins() -> dict[str, Backend]:
    """Let this process run a GPU's kernels without one; the backends that stand for others, by name."""
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
    """What is raised in the block becomes a Fault."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - whatever a file of one's own raises, SystemExit too
        raise fault_of(error, path, doing) from None


def _way(name: str) -> OwnWay:
    opened = _open[-1]
    own = opened.file.ways[name]
    return replace(own, backend=opened.stand_in.get(own.backend.name, own.backend))


def check(name: str, dtype: str, seed: int, seconds: float, most: int, tell: Tell) -> CheckedWay:
    """Compare the way with the reference on awkward inputs. most: the largest n; seconds: after which no more is asked.

    Where it runs without a GPU, in each order of blocks and threads, watched; else several times. Raises Fault.
    """
    opened = _open[-1]
    checking = Checking(opened.file, _way(name), dtype, seed, bool(opened.stand_in))
    started = monotonic()
    for asked, question in enumerate(questions(opened.file.sizes, most, opened.file.denormals, opened.file.nan)):
        if asked >= ENOUGH and monotonic() - started > seconds:
            break
        tell(0.0, question.text)
        checking.ask(question)
    if not opened.stand_in:
        n = min(REPEATED_N, opened.file.sizes[1])
        if monotonic() - started < seconds:
            tell(0.0, f"repeating, n = {n}")
            checking.repeat(n, monotonic() + seconds)
    return checking.found


class Checking:
    """Asks a way about inputs, one question after the other."""

    def __init__(self, file: OwnFile, way: OwnWay, dtype: str, seed: int, stand_in: bool) -> None:
        self._file, self._way, self._dtype, self._seed = file, way, dtype, seed
        self._orders = tuple(Order) if stand_in else (Order.given,)
        self._comparison = ResultComparison()
        self._sizes: list[int] = []
        self._asked: list[str] = []
        self._notes: list[str] = []
        self._launches: tuple[KernelLaunch, ...] = ()
        self.streams = 0  # of a GPU that the last question used, beside the default one
        with _told(file.path, "the reference"):
            self._workload = file.workload(self._comparison, seed)

    @property
    def found(self) -> CheckedWay:
        """What is known so far."""
        sizes = [f"{n:,}" for n in self._sizes]
        asked = ([f"n = {', '.join(sizes)}"] if sizes else []) + self._asked
        return CheckedWay(tuple(asked), tuple(self._notes), self._launches)

    def ask(self, question: Question) -> None:
        """Raise Fault if the way is wrong."""
        rng = np.random.default_rng([self._seed, question.n])
        with np.errstate(all="ignore"):
            try:
                inputs = awkward(self._file.case_inputs(question.n, self._dtype, rng), question.kind, rng)
                truth = self._file.truth(inputs)
            except BaseException as error:  # noqa: BLE001 - of the file
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

    def repeat(self, n: int, until: float) -> None:
        """Call it several times on the same inputs: what changes from time to time is a race."""
        inputs = self._file.case_inputs(n, self._dtype, np.random.default_rng([self._seed, n]))
        with _told(self._file.path, f"the reference, n = {n}"):
            truth = self._file.truth(inputs)
        done, wrong, said = 0, 0, ""
        while done < REPEATS and (done < ENOUGH or monotonic() < until):
            done += 1
            difference = self._difference(n, f"n = {n}", inputs, truth)
            if not difference <= self._workload.tolerance[self._dtype]:
                wrong, said = wrong + 1, self._comparison.said
        if wrong == done:
            raise Fault("differs", f"it is wrong at n = {n}: {said}")
        if wrong:
            raise Fault("race", f"a race: it is wrong {wrong} of {done} times with the same inputs, n = {n}: {said}")
        self._asked.append(f"n = {n:,}, {done} times")

    def _compare(self, question: Question, inputs: Any, truth: Any, order: Order) -> None:
        with AccessWatch.watching(order, self._seed) as watch:
            difference = self._difference(question.n, question.text, inputs, truth)
        if watch.fault:
            kind, text = watch.fault
            raise Fault(kind, f"{text} ({question.text})")
        if not difference <= self._workload.tolerance[self._dtype]:
            if question.kind == "denormal" and self._flushes(question, inputs):
                self._note(FLUSHED)
                return
            if order is not Order.given:
                how = {Order.backwards: "backwards", Order.random: "in random order"}[order]
                said = f"it is right if blocks and threads run in their order, and wrong if they run {how}"
                raise Fault("race", f"{said} ({question.text}): {self._comparison.said}")
            raise Fault("differs", f"it is wrong at {question.text}: {self._comparison.said}")
        if order is Order.given:
            self._launches, self.streams = tuple(watch.launches), len(watch.streams)

    def _flushes(self, question: Question, inputs: Any) -> bool:
        """Whether the way takes denormal inputs for 0, and is right apart from that."""
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
    name: str, dtype: str, sizes: tuple[int, ...], budget: float, longest_call: float, seed: int, tell: Tell
) -> None:
    """Prepare to time the way at each n of `sizes`, for `budget` seconds of sampling."""
    tell(0.0, "preparing")
    opened = _open[-1]
    with _told(opened.file.path, "preparing"):
        of = opened.file.workload(ResultComparison(), seed)
    ways: tuple[Way, ...] = (_way(name),)
    plan = SweepPlan(of, ways, sizes, dtype, budget=budget, longest_call=longest_call, seed=seed)
    opened.sweep = Sweep(plan)
    opened.going = opened.sweep.measure()


def next_round(tell: Tell) -> tuple[tuple[PointFacts, ...], bool]:
    """Go on until every n has a further sample; what is known now, and whether that is all."""
    opened = _open[-1]
    assert opened.sweep is not None  # noqa: S101 - start_sweep comes first
    assert opened.going is not None  # noqa: S101
    over = True
    with _told(opened.file.path, "timing it"):
        for progress in opened.going:
            tell(progress.done, progress.doing)
            if progress.point is None and progress.rounds:
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


def roof(name: str, dtype: str, tell: Tell) -> Roof:
    """What the device of the way can do at most, measured now."""
    tell(0.0, "measuring the roofs")
    return roof_of(_way(name).backend.open_device(), dtype)
