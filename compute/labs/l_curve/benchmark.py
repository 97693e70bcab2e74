"""The benchmark of `fieldlab bench l_curve`: the tutorial's problem by one bidiagonalisation and by LSMR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from compute.devices.backends import Backend, backend
from compute.devices.devices import Device
from compute.labs.l_curve.comparison import RATE as LIVE_RATE
from compute.labs.l_curve.comparison import RULES, CurveTarget
from compute.labs.l_curve.course import CurveCase, LaneCurve, course_of, words_of
from compute.labs.l_curve.fixtures import (
    ACCURACY,
    COUNTS,
    FASTEST,
    PACKAGE,
    AllAtOnce,
    CurveFixture,
    CurveReference,
    InTheLab,
    OneByOne,
    ProductFixture,
    StepFixture,
)
from compute.labs.l_curve.gpu_onepass import pays_for
from compute.labs.l_curve.problems import PROBLEMS
from compute.measure.benchmark import CaseBenchmark
from compute.measure.case import BenchmarkFixture, Option, Row
from compute.measure.course import Course

N = 15_000  # of the tutorial
CPU_SIZES = (3000, 2000, 1500, 1000, 700)  # without a GPU: the largest size that fits the budget
CPU_N, CPU_SECONDS = CPU_SIZES[0], 120.0  # seconds of the first pass over all curves of that n on two busy cores
GROWTH = 2.5  # the time of a curve grows with this power of n: n² non-zeros, and more steps
FITTING = 0.6  # of the budget for the first pass
LARGEST_N = 40_000  # 1.6e8 non-zeros
ROOM = 4000  # maximum columns of V for the reference, in float64
DTYPES = ("float32", "float64")
KINDS = ("product", "step", *(f"curve, {count} λ" for count in COUNTS))
MOST_STEPS = 40  # maximum per sample; each step needs room
ALL, TWICE = "all λ at once", "two products"  # of a backend's VARIANTS
BASELINES = {"cpu_numpy": "baseline", "gpu_cupy": "gpu_baseline"}  # modules with the LSMR solvers
RATE = replace(LIVE_RATE, step="run")
INCLUDED = (
    "A run is one product, one step (two products, V made orthogonal against half of a curve's steps) or one curve. "
    "Product and step: between two CUDA events on a GPU, wall time on the host. Curve: wall time from b on the host to "
    "norms on the host, the matrix uploaded before; LSMR's holds its stacking. GB/s counts a value and a two-byte "
    "column for each time that a non-zero is read; a column of four bytes counts as two."
)
TOLERANCE = {
    "product": {"float32": 1e-5, "float64": 1e-13},
    "step": {"float32": 1e-3, "float64": 1e-10},
    "curve": dict.fromkeys(DTYPES, 0.03),  # LSMR's own tolerances leave 2 % at the smallest λ
}


@dataclass(frozen=True)
class LCurveCase:
    """One of KINDS at one n."""

    kind: str
    n: int
    dtype: str

    @property
    def plain(self) -> bool:
        """Whether all ways do the same work; for a curve they do not."""
        return not self.kind.startswith("curve")

    @property
    def title(self) -> str:
        """Description of the case."""
        return f"{self.kind}  n = {self.n}  {self.dtype}"

    @property
    def entries(self) -> int:
        """Number of non-zeros."""
        return PROBLEMS["random_sparse"].entries(self.n, density=0.1)

    @property
    def cells(self) -> int:
        """Non-zeros used per run, approximate for a curve."""
        return self.entries * (1 if self.kind == "product" else 2)

    @property
    def needed_bytes(self) -> int:
        """Bytes of the matrix and its transpose, twice during their layout, and of V."""
        real = np.dtype(self.dtype).itemsize
        return 4 * self.entries * (real + 4) + ROOM * self.n * real

    @property
    def tolerance(self) -> float:
        """Largest error that counts as correct; `parameters` defines the error of each kind."""
        return TOLERANCE[self.kind.partition(",")[0]][self.dtype]

    @property
    def shared(self) -> int:
        """The key of the reference, which all cases of a size share."""
        return self.n

    @property
    def pace(self) -> str:
        """The part of the case that determines the pace besides the size: more λ or float64 take at least as long."""
        return self.kind.partition(",")[0]

    @property
    def count(self) -> int:
        """Number of λ of a curve."""
        return int(self.kind.split()[1])

    def facts(self) -> dict[str, Any]:
        """Return the values for the record."""
        return {"ny": self.n, "nx": self.n, "dtype": self.dtype, "scene": self.kind, "entries": self.entries}


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 100 <= int(text) <= LARGEST_N):
        raise ValueError(f"{text!r} is not a whole number of unknowns from 100 to {LARGEST_N}")
    return int(text)


def _kind(text: str) -> str:
    found = [kind for kind in KINDS if kind.replace(", ", "-").removesuffix(" λ") == text]
    if not found:
        raise ValueError(f"must be some of {', '.join(KIND_NAMES)}, not {text!r}")
    return found[0]


KIND_NAMES = tuple(kind.replace(", ", "-").removesuffix(" λ") for kind in KINDS)


def _in_one_pass(by: Backend, case: LCurveCase) -> bool:
    """Return whether `steps` of that backend reads A once for both products."""
    if by.missing or TWICE not in by.kernels(PACKAGE).VARIANTS:
        return False
    return case.n <= 2**16 and pays_for((case.n, case.n), case.entries, case.dtype, 0)


def _baselines(backend: Backend) -> Mapping[str, OneByOne]:
    if backend.name not in BASELINES:
        return {}
    solvers = import_module(f"{PACKAGE}.{BASELINES[backend.name]}").SOLVERS
    return {f"LSMR, {name}": OneByOne(solver) for name, solver in solvers.items()}


class LCurveBenchmark(CaseBenchmark):
    """Products, steps and whole curves of the tutorial's problem."""

    package = PACKAGE
    rate = RATE
    included = INCLUDED
    parameters: ClassVar[Mapping[str, Any]] = {
        "problem": "random_sparse, density 0.1, seed 1234",
        "accuracy": f"{ACCURACY:g}: that of the tutorial's own norms at its smallest λ",
        "agreement": "product: relative L2; step: alpha and beta; curve: both norms, the largest relative error at any "
        "λ",
    }
    most_steps = MOST_STEPS
    measure = "relative"
    reached = "tolerance", tuple(10.0**-n for n in range(1, 13))
    options = (
        Option("sizes", _size, f"unknowns n of the tutorial's problem (default: {N} with a GPU, {CPU_N} without)"),
        Option("parts", _kind, f"some of {', '.join(KIND_NAMES)} (default: all)"),
    )
    rules = RULES

    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> list[LCurveCase]:
        """Return every size, type and kind; cases of one matrix are adjacent."""
        sizes = chosen["sizes"] or ((N,) if gpu else (CPU_N,))
        kinds = chosen["parts"] or KINDS
        return [LCurveCase(kind, n, dtype) for n in sorted(sizes) for dtype in dtypes for kind in kinds]

    def fitted(
        self, cases: Sequence[Any], chosen: Mapping[str, Sequence[Any]], gpu: bool, budget: float
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return smaller problems if there is no GPU and the budget is small."""
        if gpu or chosen["sizes"]:
            return cases, ()
        fits = [n for n in CPU_SIZES if CPU_SECONDS * (n / CPU_N) ** GROWTH <= FITTING * budget]
        n = fits[0] if fits else CPU_SIZES[-1]
        seconds = CPU_SECONDS * (N / CPU_N) ** GROWTH
        note = (
            f"n = {n} without a GPU: curves of n = {N} are predicted to take about {seconds / 60:.0f} min in all here; "
            f"a larger --budget has n = {CPU_N}, --sizes any n"
        )
        return [replace(case, n=n) for case in cases], (note,)

    def headline(self, cases: Sequence[LCurveCase]) -> Sequence[LCurveCase]:
        """Return the whole curves in float32."""
        return [case for case in cases if case.dtype == DTYPES[0] and not case.plain]

    def variants(self, backend: Backend, case: LCurveCase) -> Mapping[str, Any]:
        """Return the backend's implementations of a product, a step or a curve."""
        kernels = backend.kernels(PACKAGE)
        if case.kind == "product":
            return {"product": kernels.multiply}
        steps: Mapping[str, Any] = kernels.VARIANTS
        if TWICE in steps and not _in_one_pass(backend, case):  # otherwise both would be two products
            steps = {ALL: steps[ALL]}
        if case.kind == "step":
            return steps
        ways = {name: AllAtOnce(kernel) for name, kernel in steps.items()}
        return {**ways, "as in the lab": InTheLab(kernels.steps), **_baselines(backend)}

    def reference(self, case: LCurveCase) -> CurveReference:
        """Return the reference curve."""
        found = CurveReference(case.n)
        if any(not backend(name).missing for name in FASTEST):
            _ = found.steps  # computed here, outside the time of any case
        return found

    def fixture(
        self, device: Device, case: LCurveCase | CurveCase, right: CurveReference | LaneCurve
    ) -> BenchmarkFixture:
        """Return the fixture that computes the case, or runs in a race."""
        if isinstance(case, CurveCase) or isinstance(right, LaneCurve):
            return CurveFixture(device, case.dtype, right, 0)
        match case.kind:
            case "product":
                return ProductFixture(device, case.dtype, right)
            case "step":
                return StepFixture(device, case.dtype, right)
        return CurveFixture(device, case.dtype, right, case.count)

    def counted_share(self, row: Row) -> float:
        """Return 1/2 for a step that reads A once for both products, else 1."""
        once = row.case.kind == "step" and row.variant == ALL and _in_one_pass(backend(row.backend), row.case)
        return 0.5 if once else 1.0

    def course(self, values: Mapping[str, Any], made_by: Backend, picture: tuple[int, int]) -> Course:  # noqa: ARG002
        """Return the race for the problem's whole curve."""
        return course_of(values, made_by)

    def course_words(self, values: Mapping[str, Any]) -> str:
        """Return a description of the curve."""
        return words_of(values)

    def target(self, lab: Any) -> CurveTarget:
        """Return the target that computes whole curves with the lab."""
        return CurveTarget(lab)


BENCHMARK = LCurveBenchmark()
