"""`fieldlab bench diffusion`: its cases, the rules of the live comparison, and the reference results.

Up to REFERENCE_CELLS the result after CHECK_STEPS steps is compared with cpu_numpy in float64, from the same field of
smooth modes and noise. Larger grids, for which that reference would take minutes, start from a sum of eigenmodes of the
discrete Laplacian, whose state after n steps is known exactly: mode k is multiplied by g_k ** n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import pi
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from compute.devices.backends import Backend
from compute.devices.devices import Device
from compute.devices.gpu_devices import Cuda
from compute.labs.diffusion import cpu_numba, cpu_numpy, gpu_cupy, gpu_wgpu, scaling
from compute.labs.diffusion.scheme import EDGES, launches
from compute.measure.benchmark import CaseBenchmark
from compute.measure.case import BenchmarkFixture, BenchPlan, Checked, Implementation, Option, Results
from compute.measure.rates import Rate
from compute.measure.records import Recorded
from compute.measure.rules import FieldRules
from compute.measure.run import BenchProgress, silent
from compute.measure.target import FieldTarget
from compute.measure.timing import Timing

R = 0.2  # D dt / dx^2, the lab's default
CHECK_STEPS = 25  # no multiple of 12 or 16, so that launches of many steps also test their remainder
REFERENCE_CELLS = 2048**2  # cpu_numpy takes a few seconds for the check at this size
BLOCK = 2**18  # cells per block of the comparison: 2 MiB of float64 fit in a cache, ten times faster than memory

Field = NDArray[Any]

LARGEST_SIZE = 32768  # cells per side: 4 GiB of float32
SIZES = (512, 2000)  # cells per side, by default
RECORDED_FIRST = "float32"  # a small budget is spent on this dtype first
GPU_SIZES = (*SIZES, 8192, 16384)  # cells per side, by default with a GPU
TOLERANCE = {"float32": 1e-6, "float64": 1e-13}  # relative L2; correct kernels have 5e-8 and 1e-15
WRONG = {"racing": "the tutorial's kernel updates in place while neighbouring blocks still read"}


def _cuda_launches(steps: int, dtype: str) -> int:
    return len(launches(steps, (*(tiling.steps for tiling in gpu_cupy.TILINGS[dtype]), 1)))


PASSES: dict[str, Callable[[int, str], int]] = {  # of the variant T-step, by backend, steps and dtype
    "cpu_numba": lambda steps, dtype: len(cpu_numba.passes(steps)),  # noqa: ARG005
    "gpu_cupy": _cuda_launches,
    "gpu_wgpu": lambda steps, dtype: len(launches(steps, (*(strips.steps for strips in gpu_wgpu.SIZES), 1))),  # noqa: ARG005
}


def passes_a_step(name: str, variant: str, dtype: str, steps: int) -> float:
    """Return the passes through memory per step: fewer than one if a pass computes several steps."""
    if variant != "T-step" or steps < 1:
        return 1.0
    return PASSES[name](steps, dtype) / steps


RATE = Rate(
    "Gcell/s", "cells", "step", "copy", "bytes", lambda dtype: 2.0 * np.dtype(dtype).itemsize,
    "not in a cache: the roof was disturbed, or a pass makes more steps than are counted", passes_a_step,
)  # fmt: skip
INCLUDED = (
    "A time is that of the steps: between two events of a GPU, wall time on the host; where it is launch-bound, that "
    "of launching them. Copies, colour and start-up are not in it. GB/s counts one read and one write a cell and "
    "pass through memory, of which T-step makes fewer than steps, and NumPy more than are counted; grids that fit in a "
    "cache can exceed 100 % of the copy bandwidth."
)
CITED = (
    Recorded(
        "diffusion", "NVIDIA A40", "", "gpu_numba", "racing", 2000, 2000, "float64", "periodic", 2.72e-4, 4e6 / 2.72e-4,
        cited="A GPU tutorial: Numba-CUDA, 2.72 s for 10 000 steps; its kernel races",
    ),
)  # fmt: skip


class FieldReference(Protocol):
    """A start field, and the correct result CHECK_STEPS steps later."""

    name: str

    def start(self, dtype: str) -> Field:
        """Return the (size, size) start field."""

    def rows(self, first: int, last: int) -> NDArray[np.float64]:
        """Return rows `first` to `last` (exclusive) of the correct result."""


def field_reference(size: int, edges: str) -> FieldReference:
    """Return the reference that is affordable at this size."""
    return SteppedReference(size, edges) if size**2 <= REFERENCE_CELLS else ExactModes(size, edges)


def field_error(right: FieldReference, got: Field) -> tuple[float, float]:
    """Return the (relative L2, largest absolute) difference of `got` from the reference; inf if `got` is not finite."""
    squares, difference, largest = 0.0, 0.0, 0.0
    block = max(1, BLOCK // got.shape[1])
    for first in range(0, got.shape[0], block):
        want = right.rows(first, min(first + block, got.shape[0]))
        delta = want - got[first : first + block]
        squares += float(np.vdot(want, want))
        difference += float(np.vdot(delta, delta))
        largest = max(largest, float(np.abs(delta).max()))
    if not np.isfinite(difference):
        return float("inf"), float("inf")
    return float(np.sqrt(difference / squares)), largest


class ExactModes:
    """A sum of eigenmodes and its exact evolution; of rank 4, so that no full-size reference is stored."""

    name = f"exact modes, {CHECK_STEPS} steps"

    def __init__(self, size: int, edges: str) -> None:
        numbers = [(1, 2), (3, 1), (size // 50 + 1, size // 31 + 1), (size // 17 + 1, 1)]
        weights = np.array((1.0, 0.5, 0.5, 0.25))
        self._y = np.stack([eigenvector(size, p, edges) for p, _ in numbers], axis=1) * weights
        self._x = np.stack([eigenvector(size, q, edges) for _, q in numbers])
        self._gain = np.array([eigenvalue(size, p, q, edges) for p, q in numbers]) ** CHECK_STEPS

    def start(self, dtype: str) -> Field:
        """Return the modes, computed in blocks so that float32 does not need float64's memory."""
        out = np.empty((self._y.shape[0], self._x.shape[1]), dtype)
        block = max(1, BLOCK // out.shape[1])
        for first in range(0, out.shape[0], block):
            out[first : first + block] = self._y[first : first + block] @ self._x
        return out

    def rows(self, first: int, last: int) -> NDArray[np.float64]:
        """Return rows of the modes after CHECK_STEPS steps."""
        return (self._y[first:last] * self._gain) @ self._x


class SteppedReference:
    """cpu_numpy in float64 from modes and noise; the start is exact in float32, so that both dtypes share it."""

    name = f"cpu_numpy float64, {CHECK_STEPS} steps"

    def __init__(self, size: int, edges: str) -> None:
        noise = np.random.default_rng(size).random((size, size))
        self._start = (ExactModes(size, edges).start("float64") + noise).astype(np.float32)
        scratch = self._start.astype(np.float64)
        self._result = np.empty_like(scratch)
        cpu_numpy.step(scratch, self._result, R, edges, CHECK_STEPS)

    def start(self, dtype: str) -> Field:
        """Return the start field as `dtype`."""
        return self._start.astype(dtype)

    def rows(self, first: int, last: int) -> NDArray[np.float64]:
        """Return rows of the result."""
        return self._result[first:last]


def eigenvector(size: int, number: int, edges: str) -> NDArray[np.float64]:
    """Return (size,) eigenvector `number` >= 1 of the second difference; whole periods are removed before pi enters."""
    cell = np.arange(size)
    if edges == "zero-flux":
        return np.cos(pi / (2 * size) * (number * (2 * cell + 1) % (4 * size)))
    if edges == "zero-dirichlet":
        return np.sin(pi / (size + 1) * (number * (cell + 1) % (2 * size + 2)))
    return np.cos(2 * pi / size * (number * cell % size))


def eigenvalue(size: int, p: int, q: int, edges: str) -> float:
    """Return the factor by which one step multiplies mode (p, q): 1 - 4 R (sin^2(a / 2) + sin^2(b / 2))."""
    unit = {"zero-flux": pi / size, "zero-dirichlet": pi / (size + 1), "periodic": 2 * pi / size}[edges]
    return float(1 - 4 * R * (np.sin(p * unit / 2) ** 2 + np.sin(q * unit / 2) ** 2))


# -- cases and fixtures


def growth(values: Mapping[str, Any]) -> float:
    """Return the largest factor by which a step multiplies a mode, and thus an error in it: |1 - 8 r| beyond r = 1/4.

    A step multiplies mode (a, b) by 1 - 4 r (sin²(a/2) + sin²(b/2)), from 1 for the mean to 1 - 8 r for the
    checkerboard.
    """
    return max(1.0, abs(1.0 - 8.0 * float(values["r"])))


RULES = FieldRules(
    rate=RATE,
    lab="diffusion",
    cited=CITED,
    timed=("ny", "nx", "dtype", "edges"),
    checked=("ny", "nx", "dtype", "edges", "r", "unstable"),
    tolerance=TOLERANCE,
    check_steps=CHECK_STEPS,
    growth=growth,
    timed_with={"r": R},
    apart={"preset": "noise"},  # start of comparisons: without denormals, independent of the live field
    at_once={
        ("cpu_numba", "T-step"): cpu_numba.MOST_STEPS,
        ("gpu_cupy", "T-step"): gpu_cupy.MOST_STEPS,
        ("gpu_wgpu", "T-step"): gpu_wgpu.MOST_STEPS,
    },
)


@dataclass(frozen=True)
class GridCase:
    """One grid to time: `size` x `size` cells."""

    size: int
    dtype: str
    edges: str

    @property
    def plain(self) -> bool:
        """True: all grids move their cells."""
        return True

    @property
    def title(self) -> str:
        """The grid as text."""
        return f"{self.size} x {self.size}  {self.dtype}  {self.edges}"

    @property
    def cells(self) -> int:
        """Cells updated by one step."""
        return self.size**2

    @property
    def needed_bytes(self) -> int:
        """Bytes of two arrays, and a download or a kernel's scratch."""
        return 3 * self.cells * np.dtype(self.dtype).itemsize

    @property
    def tolerance(self) -> float:
        """The largest relative L2 difference from the reference that counts as agreement."""
        return TOLERANCE[self.dtype]

    @property
    def lifetime(self) -> int:
        """Steps before a field is reloaded: its longest wave has then faded to about exp(-8)."""
        return 2 * (self.size + 1) ** 2

    @property
    def shared(self) -> tuple[int, str]:
        """Key of the reference, which both dtypes share."""
        return self.size, self.edges

    @property
    def pace(self) -> str:
        """Key of cases with a similar time per cell, which hardly depends on the size."""
        return self.dtype

    def facts(self) -> dict[str, Any]:
        """Return the fields of the record."""
        return {"ny": self.size, "nx": self.size, "dtype": self.dtype, "edges": self.edges}


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= scaling.LARGEST):
        most = f"{LARGEST_SIZE} ({scaling.LARGEST} with --devices)"
        raise ValueError(f"{text!r} is not a whole number of cells from 1 to {most}")
    return int(text)


def _devices(text: str) -> int:
    found = Cuda.count()
    if not found:
        raise ValueError(f"it needs a GPU; {Cuda.missing()}")
    if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= found):
        raise ValueError(f"{text!r} is not a number of GPUs from 1 to {found}, which is how many CuPy finds")
    return int(text)


def _edges(text: str) -> str:
    if text not in EDGES:
        raise ValueError(f"must be some of {', '.join(EDGES)}, not {text!r}")
    return text


class FieldFixture(BenchmarkFixture):
    """The pair of arrays of one backend on one grid."""

    def __init__(self, device: Device, case: GridCase, right: FieldReference) -> None:
        self.device, self._case, self._right = device, case, right
        self._start = right.start(case.dtype)
        self._u = device.upload(self._start)
        self._out = device.allocate(self._start.shape, self._start.dtype)
        self._age = 0

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Run one step from the start; it may compile, so its time does not predict later steps."""
        self._load()
        return self.run(way, 1), 0.0

    def check(self, way: Implementation) -> Checked:
        """Continue to CHECK_STEPS steps and compare with the reference."""
        timing = self.run(way, CHECK_STEPS - 1)
        return Checked(*field_error(self._right, self.device.download(self._u)), timing)

    def run(self, way: Implementation, steps: int) -> Timing:
        """Advance by `steps` and time it on the device; reload first if the field has faded."""
        if self._age > self._case.lifetime:
            self._load()
        stopwatch = self.device.stopwatch()
        with self.device.lock, stopwatch:
            way.kernel(self._u, self._out, R, self._case.edges, steps)
        seconds = stopwatch.seconds()
        self._u, self._out = self._out, self._u
        self._age += steps
        return Timing(way.backend.name, way.variant, steps, self._case.cells, stopwatch.launch, seconds)

    def _load(self) -> None:
        self.device.write(self._start, self._u)
        self._age = 0


def _scales(cases: Sequence[Any]) -> bool:
    """Return whether the cases are cases of scaling over GPUs."""
    return bool(cases) and all(isinstance(case, scaling.ScalingCase) for case in cases)


class DiffusionBenchmark(CaseBenchmark):
    """Grids of several sizes, with every kernel of every backend."""

    package = "compute.labs.diffusion"
    rate = RATE
    wrong: ClassVar[Mapping[str, str]] = WRONG
    included = INCLUDED
    parameters: ClassVar[Mapping[str, Any]] = {"r": R}
    time_unit = "Δx²/D"
    check_steps = CHECK_STEPS
    options = (
        Option("sizes", _size, "cells a side, for example 512,2000 (default: the lab's own)"),
        Option("edges", _edges, "some of the lab's edge conditions (default: the first)"),
        Option("devices", _devices, "numbers of GPUs, for example 1,2,4: their strong and weak scaling"),
    )
    rules = RULES

    def cases(
        self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool
    ) -> list[GridCase] | list[scaling.ScalingCase]:
        """Return every size, edge condition and dtype, small grids first; with `devices`, the cases of scaling."""
        sizes = chosen["sizes"] or (GPU_SIZES if gpu else SIZES)
        edges = chosen["edges"] or EDGES[:1]
        if chosen.get("devices"):
            return scaling.scaling_cases(chosen["devices"], chosen["sizes"], dtypes, edges)
        if max(sizes) > LARGEST_SIZE:
            raise ValueError(f"--sizes: without --devices a side has from 1 to {LARGEST_SIZE} cells, not {max(sizes)}")
        return [GridCase(size, dtype, edge) for size in sorted(sizes) for edge in edges for dtype in dtypes]

    def fitted(
        self,
        cases: Sequence[Any],
        chosen: Mapping[str, Sequence[Any]],
        gpu: bool,
        budget: float,  # noqa: ARG002
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the cases; without a GPU the larger grids are left out, where the check alone would take minutes."""
        if gpu or chosen["sizes"]:
            return cases, ()
        large = [size for size in GPU_SIZES if size not in SIZES]
        words = " and ".join(f"{size} x {size}" for size in large)
        return cases, (
            f"{words} are left out without a GPU, where the check by NumPy takes minutes; --sizes includes them",
        )

    def headline(self, cases: Sequence[Any]) -> Sequence[Any]:
        """Return the grids in float32: the two smallest, which determine the pace, then the others, largest first."""
        grids = [case for case in cases if isinstance(case, GridCase) and case.dtype == RECORDED_FIRST]
        sizes = sorted({case.size for case in grids})
        order = {size: place for place, size in enumerate([*sizes[:2], *reversed(sizes[2:])])}
        return sorted(grids, key=lambda case: order[case.size])

    def variants(self, backend: Backend, case: GridCase) -> Mapping[str, Any]:  # noqa: ARG002 the same for every grid
        """Return the backend's step functions by name."""
        return backend.kernels(self.package).VARIANTS

    def reference(self, case: GridCase) -> FieldReference:
        """Return the reference that is affordable at this size."""
        return field_reference(case.size, case.edges)

    def fixture(self, device: Device, case: GridCase, right: FieldReference) -> FieldFixture:
        """Return a pair of arrays on that grid."""
        return FieldFixture(device, case, right)

    def step_time(self, values: Mapping[str, Any]) -> float:
        """Return Δt = r Δx²/D."""
        return float(values["r"])

    def run(self, plan: BenchPlan, progress: BenchProgress = silent) -> Results:
        """Check and time every case."""
        if _scales(plan.cases):
            return scaling.ScalingRun(plan.cases, plan.budget, progress).run()
        return super().run(plan, progress)

    def show(self, results: Results, console: Console) -> None:
        """Print the results as tables."""
        if _scales([row.case for row in results.rows]):
            scaling.show(results, console)
        else:
            super().show(results, console)

    def target(self, lab: Any) -> FieldTarget:
        """Return the target of the live comparison, which starts from noise."""
        return FieldTarget(lab)


BENCHMARK = DiffusionBenchmark()
