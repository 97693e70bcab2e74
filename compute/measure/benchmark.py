"""How a lab is checked and timed: one `Benchmark` a lab, for `fieldlab bench`, the live readout and the engine.

A lab defines BENCHMARK, an instance of a subclass, in benchmark.py of its folder, or in its own module. All others use
`LabBenchmark`: it times `advance` at the default values on every backend of the lab and compares the state with that of
cpu_numpy in float64.
"""

from __future__ import annotations

import sys
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

from compute.devices.backends import REFERENCE, Backend
from compute.devices.devices import Device
from compute.measure import report
from compute.measure.agreement import disagreement, largest_difference, relative_l2
from compute.measure.case import BenchmarkFixture, BenchPlan, Checked, Implementation, Option, Results
from compute.measure.course import Course
from compute.measure.rates import Rate
from compute.measure.rules import FieldRules
from compute.measure.run import BenchProgress, BenchRun, silent
from compute.measure.sampling import MOST_STEPS
from compute.measure.target import BenchmarkTarget, StateTarget
from compute.measure.timing import Timing

if TYPE_CHECKING:
    from compute.lab.lab import Lab

SEED = 20  # of the state that results are compared from
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}  # relative L2 after CHECK_STEPS steps, for labs without a Benchmark
CHECK_STEPS = 10


class Benchmark(report.ReportedBenchmark, ABC):
    """How a lab is checked and timed.

    package: the package of the kernels; options: command-line options of the lab; raced: further work for races, by
    title: values of the lab. reached: the parameter that defines when a whole result is reached, and its values that a
    race offers; time_unit: of the simulated time of a step (`step_time`).
    """

    package: str
    dtypes: tuple[str, ...] = ("float32", "float64")
    options: tuple[Option, ...] = ()
    raced: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    reached: ClassVar[tuple[str, tuple[float, ...]]] = ("", ())
    time_unit: ClassVar[str] = ""

    @abstractmethod
    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> Sequence[Any]:
        """Return the TimedCases to time.

        chosen: values by option, () for options that were not given; gpu: whether a GPU is used.
        """

    def fitted(
        self,
        cases: Sequence[Any],
        chosen: Mapping[str, Sequence[Any]],  # noqa: ARG002
        gpu: bool,  # noqa: ARG002
        budget: float,  # noqa: ARG002
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the cases in sizes that are predicted to fit the budget, and notes on each change and its reason.

        Chosen values are never changed.
        """
        return cases, ()

    @abstractmethod
    def run(self, plan: BenchPlan, progress: BenchProgress = silent) -> Results:
        """Check and time all cases of the plan."""

    def show(self, results: Results, console: Console) -> None:
        """Print the results as tables."""
        report.show(results, self, console)

    def course_words(self, values: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return a text for the whole result raced for at these values; raise ValueError if there is no such race."""
        raise ValueError(f"{self.package.rpartition('.')[2]} has no whole result to race for")

    def raced_values(self, values: Mapping[str, Any], backends: Sequence[Backend]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the values at which these backends race for a whole result, if a lab's choice depends on them."""
        return values

    def refusal(self, backend: Backend, values: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return why a backend has no kernel for the whole result at these values; "" if it has one."""
        return ""

    def step_time(self, values: Mapping[str, Any]) -> float:  # noqa: ARG002
        """Return the simulated time of a step, in time_unit; 0 if a step simulates no time."""
        return 0.0

    def target(self, lab: Any) -> BenchmarkTarget:
        """Return `lab` as a target that the engine measures; closing the target closes the lab."""
        return StateTarget(lab)


class CaseBenchmark(Benchmark):
    """A lab that is timed case by case, all kernels of all backends side by side.

    wrong: why a variant is wrong by design, by its name; lesser: the work that a variant omits and all others do, in
    the plural, by its name: such a variant has no speed-up over them; check_steps: after which results are compared;
    most_steps: of one sample; measure: of the differences from the reference.
    """

    wrong: ClassVar[Mapping[str, str]] = {}
    lesser: ClassVar[Mapping[str, str]] = {}
    check_steps: int = 1
    most_steps: int = MOST_STEPS
    measure: str = "relative L2"

    @abstractmethod
    def variants(self, backend: Backend, case: Any) -> Mapping[str, Any]:
        """Return the kernels of a backend for a case, by name."""

    def others(self, case: Any) -> Sequence[Implementation]:  # noqa: ARG002
        """Return implementations by libraries outside the project, checked and timed like those of the backends."""
        return ()

    @abstractmethod
    def reference(self, case: Any) -> Any:
        """Return the reference result, which has a `name`; cases of equal `shared` get the same reference."""

    @abstractmethod
    def fixture(self, device: Device, case: Any, right: Any) -> BenchmarkFixture:
        """Return the arrays of a backend and the runner of its kernels. right: the result of `reference`."""

    def headline(self, cases: Sequence[Any]) -> Sequence[Any]:
        """Return the cases that get a small budget first, in that order; the others follow in the order of the plan."""
        return cases

    def disagreement(self, difference: float, tolerance: float) -> str:
        """Return how a result differs by more than `tolerance`; "" if it agrees."""
        return disagreement(difference, tolerance, self.measure)

    def run(self, plan: BenchPlan, progress: BenchProgress = silent) -> Results:
        """Check and time every case."""
        return BenchRun(self, plan, progress).run()

    def course(self, values: Mapping[str, Any], made_by: Backend, picture: tuple[int, int]) -> Course:  # noqa: ARG002
        """Return the whole result that all lanes of the lab race for at these values; only labs that end have one.

        made_by: the backend that computes the reference of the lanes; picture: maximum (height, width) of the pictures.
        Raise ValueError if these values allow no such race.
        """
        raise ValueError(f"{self.package.rpartition('.')[2]} has no whole result to race for")


def benchmark_of(lab: type[Lab]) -> Benchmark:
    """Return BENCHMARK of the benchmark.py in the lab's folder, or of the module of its class, or the default."""
    name = f"{lab.PACKAGE}.benchmark"
    if not lab.PACKAGE or find_spec(name) is None:
        name = lab.__module__
        if "BENCHMARK" not in vars(sys.modules[name]):
            return LabBenchmark(lab)
    found = vars(import_module(name)).get("BENCHMARK")
    if not isinstance(found, Benchmark):
        raise TypeError(f"BENCHMARK in {name} must be a Benchmark, not {type(found).__name__}")
    return found


# -- the default


@dataclass(frozen=True)
class LabCase:
    """A lab at its default values."""

    lab: type[Lab]
    dtype: str
    plain = False  # the least number of bytes a step must move is unknown without a Benchmark
    cells = 1  # the number of cells that a step updates is unknown before the first step

    @property
    def tolerance(self) -> float:
        """Relative L2 difference from the reference up to which a result counts as right."""
        return TOLERANCE[self.dtype]

    @property
    def needed_bytes(self) -> int:
        """Device memory in bytes, as the lab predicts it."""
        defaults = {name: self.lab.param[name].default for name in self.lab.param if name != "name"}
        return self.lab.predicted_bytes(**(defaults | self.values(REFERENCE, self.dtype)))

    @property
    def title(self) -> str:
        """Title of the lab and the dtype."""
        return f"{self.lab.TITLE}  {self.dtype}"

    @property
    def shared(self) -> str:
        """The lab's name: both dtypes share one reference."""
        return self.lab.LAB

    @property
    def pace(self) -> str:
        """The dtype: a time of one dtype does not predict that of another."""
        return self.dtype

    def values(self, backend: str, dtype: str) -> dict[str, Any]:
        """Return parameters of the lab for a backend."""
        return {"backend": backend} | ({"dtype": dtype} if "dtype" in self.lab.param else {})

    def facts(self) -> dict[str, Any]:
        """Return the values that a record stores of the case."""
        sides = {name: int(self.lab.param[name].default) if name in self.lab.param else 1 for name in ("ny", "nx")}
        return {**sides, "dtype": self.dtype}


@dataclass(frozen=True)
class StateReference:
    """The expected state after a benchmark's `check_steps`. name: how it was computed."""

    name: str
    array: NDArray[Any]


class LabFixture(BenchmarkFixture):
    """A lab on a device, measured through its BenchmarkTarget."""

    def __init__(self, device: Device, case: LabCase, right: StateReference) -> None:
        self.device, self._case, self._right = device, case, right
        self._target: BenchmarkTarget | None = None

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Run a step from the start state; 0 seconds predicted, since the step may include compilation."""
        benchmark, values = benchmark_of(self._case.lab), self._case.values(way.backend.name, self._case.dtype)
        self._target = benchmark.target(self._case.lab(**values))
        self._target.begin(SEED)
        return self._target.advance(1), 0.0

    def check(self, way: Implementation) -> Checked:  # noqa: ARG002 a backend has one kernel here
        """Run CHECK_STEPS steps from the start state and compare the result with the reference."""
        assert self._target is not None  # noqa: S101 made by `first`
        got, timing = stepped(self._target, CHECK_STEPS)
        return Checked(relative_l2([got], [self._right.array]), largest_difference([got], [self._right.array]), timing)

    def run(self, way: Implementation, steps: int) -> Timing:  # noqa: ARG002
        """Time `steps` steps."""
        assert self._target is not None  # noqa: S101 made by `first`
        return self._target.advance(steps)


class LabBenchmark(CaseBenchmark):
    """The default of any lab: `advance` at the default values, the state compared with that of cpu_numpy."""

    rate = Rate("Gcell/s", "cells", "step", "copy", "bytes", lambda _dtype: nan)
    included = "A time is that of the kernels of the lab's steps, as its own stopwatch has it."
    check_steps = CHECK_STEPS

    def __init__(self, lab: type[Lab]) -> None:
        self.lab, self.package = lab, lab.PACKAGE
        self.dtypes = tuple(lab.param["dtype"].objects) if "dtype" in lab.param else ("float64",)
        names = tuple(name for name in lab.param if name not in ("name", "backend", "variant", "device_index"))
        self.rules = FieldRules(self.rate, names, names, TOLERANCE, CHECK_STEPS, lab.LAB, start="the same state")

    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> Sequence[LabCase]:  # noqa: ARG002
        """Return the lab once for each dtype."""
        return [LabCase(self.lab, dtype) for dtype in dtypes]

    def variants(self, backend: Backend, case: LabCase) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the backend's default kernel."""
        return {"": None}

    def reference(self, case: LabCase) -> StateReference:
        """Return the state of cpu_numpy in float64."""
        target = self.target(self.lab(**case.values(REFERENCE, "float64")))
        array, _ = stepped(target, CHECK_STEPS)
        target.close()
        return StateReference(f"{REFERENCE} float64, {CHECK_STEPS} steps", array)

    def fixture(self, device: Device, case: LabCase, right: StateReference) -> LabFixture:
        """Return the lab on that device."""
        return LabFixture(device, case, right)


def stepped(target: BenchmarkTarget, steps: int) -> tuple[NDArray[Any], Timing]:
    """Return the result after `steps` steps from the state of SEED, and the timing of the last of them."""
    target.begin(SEED)
    timing = target.advance(steps)
    return np.array(target.result()), timing
