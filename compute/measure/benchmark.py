"""How a lab is checked and timed: one `Benchmark` a lab, for `fieldlab bench`, the live readout and the engine.

A lab says it by BENCHMARK in its folder's benchmark.py, an object of a subclass; or, in a module of its own, by
overriding `Lab.benchmark`. One that says nothing gets `LabBenchmark`: its `advance` is timed at its default values on
every backend that it has, and its state is compared with that of cpu_numpy in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from compute.backends import Backend
from compute.devices import Device
from compute.measure import report
from compute.measure.agreement import largest_difference, relative_l2
from compute.measure.case import BenchmarkFixture, BenchPlan, Checked, Implementation, Option, Results, Row
from compute.measure.course import Course
from compute.measure.rates import Rate
from compute.measure.records import FIRST_REVISION
from compute.measure.rules import ComparisonRules, FieldRules
from compute.measure.run import BenchProgress, BenchRun, silent
from compute.measure.sampling import MOST_STEPS
from compute.measure.target import BenchmarkTarget, StateTarget
from compute.measure.timing import Timing

if TYPE_CHECKING:
    from compute.lab import Lab

SEED = 20  # of the state that results are compared from
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}  # relative L2 after CHECK_STEPS steps of a lab that does not say it
CHECK_STEPS = 10


class Benchmark(ABC):
    """What is timed of a lab, and how that is said.

    package: where the kernels lie; rate: what the work is counted in; included: what is in a time; parameters: further
    values for the record; options: the lab's own, of the command line; rules: of the live comparison, None where there
    is none. raced: further work that a race may be about, by what it is called: values of the lab. reached: the
    parameter that says when a whole result is reached, and values of it that a race offers; time_unit: of the simulated
    time that passes in a step (`step_time`).
    """

    package: str
    rate: Rate
    included: str
    dtypes: tuple[str, ...] = ("float32", "float64")
    parameters: ClassVar[Mapping[str, Any]] = {}
    options: tuple[Option, ...] = ()
    rules: ComparisonRules | None = None
    raced: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    reached: ClassVar[tuple[str, tuple[float, ...]]] = ("", ())
    time_unit: ClassVar[str] = ""

    @abstractmethod
    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> Sequence[Any]:
        """Return what to time, each a TimedCase.

        chosen: values by option, () where none were given; gpu: whether there is one.
        """

    def fitted(
        self,
        cases: Sequence[Any],
        chosen: Mapping[str, Sequence[Any]],  # noqa: ARG002
        gpu: bool,  # noqa: ARG002
        budget: float,  # noqa: ARG002
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the cases in sizes that are predicted to fit the budget, and in words what was changed, and why.

        What was chosen is never changed.
        """
        return cases, ()

    def counted_share(self, row: Row) -> float:
        """Return the part of what `rate.need` counts that this way really takes: moves, or executes."""
        return self.rate.share(row.backend, row.variant, row.case.dtype, row.steps)

    def revision(self, row: Row) -> int:
        """Return the revision of the kernel that the row was measured with."""
        return self.rules.revisions.get((row.backend, row.variant), FIRST_REVISION) if self.rules else FIRST_REVISION

    @abstractmethod
    def run(self, plan: BenchPlan, progress: BenchProgress = silent) -> Results:
        """Check and time what is planned."""

    def show(self, results: Results, console: Console) -> None:
        """Print the results as tables."""
        report.show(results, self, console)

    def course_words(self, values: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return in words the whole result that is raced for at these values; ValueError where there can be none."""
        raise ValueError(f"{self.package.rpartition('.')[2]} has no whole result to race for")

    def step_time(self, values: Mapping[str, Any]) -> float:  # noqa: ARG002
        """Return the simulated time of a step, in time_unit; 0 where none passes."""
        return 0.0

    def target(self, lab: Any) -> BenchmarkTarget:
        """Return a lab of this kind as the engine measures it; it is closed with the target."""
        return StateTarget(lab)


class CaseBenchmark(Benchmark):
    """A lab that is timed case by case, all kernels of all backends side by side.

    wrong: why a variant is wrong by design, by its name; lesser: what a variant leaves out that all others compute, in
    the plural, by its name: it has no speed-up over them; check_steps: after which results are compared; most_steps: of
    one sample.
    """

    wrong: ClassVar[Mapping[str, str]] = {}
    lesser: ClassVar[Mapping[str, str]] = {}
    check_steps: int = 1
    most_steps: int = MOST_STEPS

    @abstractmethod
    def variants(self, backend: Backend, case: Any) -> Mapping[str, Any]:
        """Return the kernels of a backend for a case, by name."""

    @abstractmethod
    def reference(self, case: Any) -> Any:
        """Return the right result, which has a `name`; cases of the same `shared` get the same one."""

    @abstractmethod
    def fixture(self, device: Device, case: Any, right: Any) -> BenchmarkFixture:
        """Return what holds the arrays of a backend and runs its kernels. right: what `reference` returned."""

    def headline(self, cases: Sequence[Any]) -> Sequence[Any]:
        """Return the cases that a small budget is spent on first, in that order; the others follow as planned."""
        return cases

    def differs(self, difference: float, tolerance: float) -> str:
        """Say a disagreement in words."""
        return f"differs by {difference:.1e} (relative L2); the tolerance is {tolerance:.0e}"

    def run(self, plan: BenchPlan, progress: BenchProgress = silent) -> Results:
        """Check and time every case."""
        return BenchRun(self, plan, progress).run()

    def course(self, values: Mapping[str, Any], made_by: Backend, picture: tuple[int, int]) -> Course:  # noqa: ARG002
        """Return the whole result that lanes race for at these values, all of the lab's; of a lab that ends.

        made_by: the backend that makes what the lanes are compared with; picture: (height, width) of its pictures at
        most. ValueError where there can be no such race.
        """
        raise ValueError(f"{self.package.rpartition('.')[2]} has no whole result to race for")


def benchmark_of(lab: type[Lab]) -> Benchmark:
    """Return BENCHMARK of the benchmark.py in the lab's folder, or the default."""
    name = f"{lab.PACKAGE}.benchmark"
    if find_spec(name) is None:
        return LabBenchmark(lab)
    found = import_module(name).BENCHMARK
    if not isinstance(found, Benchmark):
        raise TypeError(f"BENCHMARK in {name} must be a Benchmark, not {type(found).__name__}")
    return found


# -- the default


@dataclass(frozen=True)
class LabCase:
    """A lab at its default values."""

    lab: type[Lab]
    dtype: str
    plain = False  # how much a step must move is known of no lab that does not say it
    cells = 1  # what it updates in a step is known when it has made one

    @property
    def tolerance(self) -> float:
        """Relative L2 difference from the reference up to which a result counts as right."""
        return TOLERANCE[self.dtype]

    @property
    def needed_bytes(self) -> int:
        """What the lab says of itself."""
        defaults = {name: self.lab.param[name].default for name in self.lab.param if name != "name"}
        return self.lab.predicted_bytes(**(defaults | self.values("cpu_numpy", self.dtype)))

    @property
    def title(self) -> str:
        """The lab in words."""
        return f"{self.lab.TITLE}  {self.dtype}"

    @property
    def shared(self) -> str:
        """One reference serves both dtypes."""
        return self.lab.LAB

    @property
    def pace(self) -> str:
        """A time of one dtype tells nothing of another."""
        return self.dtype

    def values(self, backend: str, dtype: str) -> dict[str, Any]:
        """Return parameters of the lab."""
        return {"backend": backend} | ({"dtype": dtype} if "dtype" in self.lab.param else {})

    def facts(self) -> dict[str, Any]:
        """Return what a record says of the case."""
        sides = {name: int(self.lab.param[name].default) if name in self.lab.param else 1 for name in ("ny", "nx")}
        return {**sides, "dtype": self.dtype}


@dataclass(frozen=True)
class StateReference:
    """The right result of `steps` steps from SEED's state."""

    name: str
    array: NDArray[Any]


class LabFixture(BenchmarkFixture):
    """A lab on a device, as the engine measures it."""

    def __init__(self, device: Device, case: LabCase, right: StateReference) -> None:
        self.device, self._case, self._right = device, case, right
        self._target: BenchmarkTarget | None = None

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Do a step from the start; it may compile, so it tells nothing about the next."""
        benchmark, values = self._case.lab.benchmark(), self._case.values(way.backend.name, self._case.dtype)
        self._target = benchmark.target(self._case.lab(**values))
        self._target.begin(SEED)
        return self._target.advance(1), 0.0

    def check(self, way: Implementation) -> Checked:  # noqa: ARG002 a backend has one kernel here
        """Do CHECK_STEPS steps from the start and compare."""
        assert self._target is not None  # noqa: S101 made by `first`
        got, timing = stepped(self._target, CHECK_STEPS)
        return Checked(relative_l2([got], [self._right.array]), largest_difference([got], [self._right.array]), timing)

    def run(self, way: Implementation, steps: int) -> Timing:  # noqa: ARG002
        """Do `steps` steps."""
        assert self._target is not None  # noqa: S101 made by `first`
        return self._target.advance(steps)


class LabBenchmark(CaseBenchmark):
    """Any lab: `advance` at the default values, the state compared with cpu_numpy's."""

    rate = Rate("Gcell/s", "cells", "step", "copy", "bytes", lambda _dtype: nan)
    included = "A time is that of the kernels of the lab's steps, as its own stopwatch has it."
    check_steps = CHECK_STEPS

    def __init__(self, lab: type[Lab]) -> None:
        self.lab, self.package = lab, lab.PACKAGE
        self.dtypes = tuple(lab.param["dtype"].objects) if "dtype" in lab.param else ("float64",)
        names = tuple(name for name in lab.param if name not in ("name", "backend", "variant", "device_index"))
        self.rules = FieldRules(self.rate, names, names, TOLERANCE, CHECK_STEPS, lab.LAB, start="the same state")

    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> Sequence[LabCase]:  # noqa: ARG002
        """Return the lab in each dtype."""
        return [LabCase(self.lab, dtype) for dtype in dtypes]

    def variants(self, backend: Backend, case: LabCase) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the backend's default."""
        return {"": None}

    def reference(self, case: LabCase) -> StateReference:
        """Return the state of cpu_numpy in float64."""
        target = self.target(self.lab(**case.values("cpu_numpy", "float64")))
        array, _ = stepped(target, CHECK_STEPS)
        target.close()
        return StateReference(f"cpu_numpy float64, {CHECK_STEPS} steps", array)

    def fixture(self, device: Device, case: LabCase, right: StateReference) -> LabFixture:
        """Return the lab on that device."""
        return LabFixture(device, case, right)


def stepped(target: BenchmarkTarget, steps: int) -> tuple[NDArray[Any], Timing]:
    """Return the result after `steps` steps from the state of SEED, and the timing of the last of them."""
    target.begin(SEED)
    timing = target.advance(steps)
    return np.array(target.result()), timing
