"""`fieldlab bench equations`: heat and Gray–Scott on grids of several sizes, and the rules of the live comparison.

The work is counted in values: cells times fields. A step of a system with one pass reads and writes each value at least
once. The result after CHECK_STEPS steps is compared with cpu_numpy in float64, from the initial values of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from compute.devices.backends import REFERENCE, Backend
from compute.devices.devices import Device
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.numba_steps_form import MOST_STEPS
from compute.labs.equations.lab import Equations
from compute.labs.equations.libraries import LIBRARIES, LibraryTarget, refusal
from compute.labs.equations.presets import presets
from compute.labs.equations.programs import SLOTS, full_text, program_of
from compute.measure.agreement import largest_difference, relative_l2
from compute.measure.benchmark import CaseBenchmark, StateReference
from compute.measure.case import BenchmarkFixture, Checked, Implementation, Option
from compute.measure.rates import Rate
from compute.measure.rules import FieldRules, LabValues
from compute.measure.target import StateTarget
from compute.measure.timing import Timing
from compute.measure.verdict import Variant

CHECK_STEPS = 10  # no multiple of 4 or 8, so that launches of many steps also test their remainder
LAUNCH_STEPS = 8  # of T-step on a GPU: 8 for one field, 4 for two


@dataclass(frozen=True)
class SeveralSteps:
    """T-step of a backend. at_once: its steps; sizes: None if it is impossible; passes: of two fields, by steps."""

    at_once: int
    sizes: Callable[[Program, str], object]
    passes: Callable[[int], int] = lambda steps: steps // (LAUNCH_STEPS // 2) + steps % (LAUNCH_STEPS // 2)


SEVERAL_STEPS = {
    "cpu_numba": SeveralSteps(
        MOST_STEPS, lambda program, dtype: program.cache_tiling(dtype), lambda steps: -(-steps // MOST_STEPS)
    ),
    "gpu_cupy": SeveralSteps(LAUNCH_STEPS, lambda program, dtype: program.steps_tiling(dtype)),
    "gpu_wgpu": SeveralSteps(LAUNCH_STEPS, lambda program, _dtype: program.steps_strips()),
}
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}  # relative L2; correct kernels have 3e-7 and 1e-15
TEXTS = ("heat", "gray_scott")  # presets
SIZES, GPU_SIZES = (512, 2000), (512, 2000, 4096)  # cells per side, by default
LARGEST_SIZE = 8192  # cells per side: the check by NumPy takes minutes


def passes_a_step(name: str, variant: str, dtype: str, steps: int) -> float:  # noqa: ARG001 the same for all
    """Return the passes through memory per step: those of two fields, a GPU computes more steps of one field."""
    several = SEVERAL_STEPS.get(name)
    if several is None or variant != "T-step" or steps < 1:
        return 1.0
    return several.passes(steps) / steps


RATE = Rate(
    "Gvalue/s", "values", "step", "copy", "bytes", lambda dtype: 2.0 * np.dtype(dtype).itemsize,
    "not in a cache: the roof was disturbed, or a pass makes more steps than are counted", passes_a_step,
)  # fmt: skip
INCLUDED = (
    "A time is that of the steps: between two events of a GPU, wall time on the host; where it is launch-bound, that "
    "of launching them. Copies, colour and start-up are not in it. A value is a cell of a field. GB/s counts one read "
    "and one write a value and step; walls, auxiliary arrays and further passes move more, T-step less."
)


class EquationRules(FieldRules):
    """Rules for fields of a typed system: the work is its number of values."""

    def own(self, variant: Variant, values: LabValues) -> dict[str, Any]:
        """Return a field as the second picture, since an expression would be compiled and not be looked at."""
        return super().own(variant, values) | {"show": program_of(full_text(values["text"])).system.fields[0]}

    def cells(self, values: LabValues) -> int:
        """Return cells times fields."""
        return super().cells(values) * len(program_of(full_text(values["text"])).system.fields)


RULES = EquationRules(
    rate=RATE,
    lab="equations",
    timed=("text", "ny", "nx", "dtype"),
    checked=("text", "ny", "nx", "dtype", *SLOTS, "time_step"),
    tolerance=TOLERANCE,
    check_steps=CHECK_STEPS,
    start="the initial values",
    included=INCLUDED,
    at_once={(name, "T-step"): several.at_once for name, several in SEVERAL_STEPS.items()},
)


@dataclass(frozen=True)
class EquationCase:
    """One preset on `size` x `size` cells. against: names of LIBRARIES that compute it, too."""

    name: str
    size: int
    dtype: str
    numbers: tuple[tuple[str, float], ...] = ()  # of the text, by name
    against: tuple[str, ...] = ()
    plain: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """The preset, its changed numbers, the grid and the number type."""
        numbers = "".join(f"  {name} = {value:g}" for name, value in self.numbers)
        return f"{presets()[self.name].title}{numbers}  {self.size} x {self.size}  {self.dtype}"

    @property
    def cells(self) -> int:
        """The values that a step updates."""
        return self.size**2 * len(program_of(presets()[self.name].text).system.fields)

    @property
    def needed_bytes(self) -> int:
        """Device memory as the lab predicts it."""
        return Equations.predicted_bytes(text=self.name, ny=self.size, nx=self.size, dtype=self.dtype)

    @property
    def tolerance(self) -> float:
        """The largest relative L2 difference from the reference that counts as agreement."""
        return TOLERANCE[self.dtype]

    @property
    def shared(self) -> tuple[object, ...]:
        """Key of the reference, which both number types share."""
        return self.name, self.size, self.numbers

    @property
    def pace(self) -> tuple[str, str]:
        """Key of cases with a similar time per value."""
        return self.name, self.dtype

    def lab(self, backend: str, dtype: str, variant: str = "") -> Equations:
        """Return the lab of the case."""
        size, slots = self.size, {each.name: each.slot for each in Equations.named_numbers({"text": self.name})}
        numbers = {slots[name]: value for name, value in self.numbers}
        return Equations(text=self.name, backend=backend, variant=variant, ny=size, nx=size, dtype=dtype, **numbers)

    def facts(self) -> dict[str, Any]:
        """Return the fields of the record."""
        numbers = {"numbers": dict(self.numbers)} if self.numbers else {}
        return {"ny": self.size, "nx": self.size, "dtype": self.dtype, "text": self.name, **numbers}


class EquationFixture(BenchmarkFixture):
    """The lab of a case on one backend."""

    def __init__(self, device: Device, case: EquationCase, right: StateReference) -> None:
        self.device, self._case, self._right = device, case, right
        self._target: StateTarget | LibraryTarget | None = None
        self._variant = ""

    def _of(self, way: Implementation) -> StateTarget | LibraryTarget:
        """Return the lab with the kernel of this way, or its start in a library."""
        if self._target is None and way.backend.name in LIBRARIES:
            lab = self._case.lab(REFERENCE, self._case.dtype)
            self._target = LibraryTarget(way, lab)
            lab.close()
        elif self._target is None:
            self._target = StateTarget(self._case.lab(way.backend.name, self._case.dtype, way.variant))
        elif isinstance(self._target, StateTarget) and self._variant != way.variant:
            self._target.lab.update(variant=way.variant)
        self._variant = way.variant
        return self._target

    def first(self, way: Implementation) -> tuple[Timing, float]:
        """Run a step from the start; it may compile, so its time does not predict later steps."""
        target = self._of(way)
        target.begin(0)
        return target.advance(1), 0.0

    def check(self, way: Implementation) -> Checked:
        """Run CHECK_STEPS steps from the start and compare with the reference."""
        target = self._of(way)
        target.begin(0)
        timing = target.advance(CHECK_STEPS)
        got = [target.result()]
        return Checked(relative_l2(got, [self._right.array]), largest_difference(got, [self._right.array]), timing)

    def run(self, way: Implementation, steps: int) -> Timing:
        """Time `steps` steps."""
        return self._of(way).advance(steps)


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= LARGEST_SIZE):
        raise ValueError(f"{text!r} is not a whole number of cells from 1 to {LARGEST_SIZE}")
    return int(text)


def _text(text: str) -> str:
    if text not in presets():
        raise ValueError(f"must be some of {', '.join(presets())}, not {text!r}")
    return text


def _number(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise ValueError(f"{text!r} must be NAME=NUMBER, for example F=0.03") from None


def _require_numbers(text: str, numbers: Sequence[tuple[str, float]]) -> None:
    """Raise ValueError for a number that is given twice, that the preset does not have, or out of its range."""
    slots, names = {each.name: each for each in Equations.named_numbers({"text": text})}, [name for name, _ in numbers]
    for name, value in numbers:
        if name not in slots:
            raise ValueError(f"--set: {text} has no number {name!r}; it has {', '.join(slots) or 'none'}")
        if names.count(name) > 1:
            raise ValueError(f"--set: {name} is given twice")
        slots[name].require(value)


def _refused(text: str) -> str:
    """Return why no library computes the preset `text`; "" if they do."""
    return refusal(program_of(presets()[text].text))


def _library(text: str) -> str:
    found = LIBRARIES.get(text)
    if found is None:
        raise ValueError(f"must be some of {', '.join(LIBRARIES)}, not {text!r}")
    if found.backend.missing:
        raise ValueError(f"{found.backend.missing}; {found.backend.install}")
    return text


class EquationsBenchmark(CaseBenchmark):
    """Two presets on grids of several sizes, with every kernel of every backend."""

    package = "compute.labs.equations"
    rate = RATE
    included = INCLUDED
    check_steps = CHECK_STEPS
    time_unit = "of the text"
    options = (
        Option("sizes", _size, "cells a side, for example 512,2000 (default: the lab's own)"),
        Option("texts", _text, f"names of presets (default: {','.join(TEXTS)})"),
        Option("set", _number, "numbers of the texts, for example F=0.03,k=0.06 (default: those of the texts)"),
        Option("against", _library, f"other libraries, in the same table: some of {','.join(LIBRARIES)}"),
    )
    rules = RULES

    def cases(self, chosen: Mapping[str, Sequence[Any]], dtypes: Sequence[str], gpu: bool) -> list[EquationCase]:
        """Return every preset, size and number type, small grids first."""
        sizes = chosen["sizes"] or (GPU_SIZES if gpu else SIZES)
        texts, numbers = chosen["texts"] or TEXTS, tuple(chosen.get("set", ()))
        for text in texts:
            _require_numbers(text, numbers)
        against = {text: () if _refused(text) else tuple(chosen.get("against", ())) for text in texts}
        return [
            EquationCase(text, size, dtype, numbers, against[text])
            for size in sorted(sizes) for text in texts for dtype in dtypes
        ]  # fmt: skip

    def fitted(
        self,
        cases: Sequence[Any],
        chosen: Mapping[str, Sequence[Any]],
        gpu: bool,  # noqa: ARG002
        budget: float,  # noqa: ARG002
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the cases, and a note on every preset that the chosen libraries do not compute."""
        libraries = " and ".join(chosen.get("against", ()))
        texts = dict.fromkeys(case.name for case in cases if libraries and _refused(case.name))
        return cases, tuple(f"{text} is not compared with {libraries}: {_refused(text)}" for text in texts)

    def others(self, case: EquationCase) -> list[Implementation]:
        """Return the libraries that compute the case in its number type."""
        chosen = [LIBRARIES[name] for name in case.against]
        return [library for library in chosen if case.dtype in library.backend.dtypes]

    def headline(self, cases: Sequence[Any]) -> Sequence[Any]:
        """Return the cases in float32."""
        return [case for case in cases if case.dtype == "float32"]

    def variants(self, backend: Backend, case: EquationCase) -> Mapping[str, Any]:
        """Return the backend's step functions by name; T-step only if it computes several steps at once."""
        known: Mapping[str, Any] = backend.kernels(self.package).VARIANTS
        program, several = program_of(presets()[case.name].text), SEVERAL_STEPS.get(backend.name)
        possible = several is not None and several.sizes(program, case.dtype) is not None
        return {name: kernel for name, kernel in known.items() if possible or name != "T-step"}

    def reference(self, case: EquationCase) -> StateReference:
        """Return the fields of cpu_numpy in float64."""
        target = StateTarget(case.lab(REFERENCE, "float64"))
        target.advance(CHECK_STEPS)
        array = target.result()
        target.close()
        return StateReference(f"{REFERENCE} float64, {CHECK_STEPS} steps", array)

    def fixture(self, device: Device, case: EquationCase, right: StateReference) -> EquationFixture:
        """Return the lab on that device."""
        return EquationFixture(device, case, right)

    def step_time(self, values: Mapping[str, Any]) -> float:
        """Return the given time step; 0 if it is automatic, as it then changes."""
        given = values.get("time_step")
        own = program_of(full_text(str(values["text"]))).system.dt
        return float(given if given is not None else own or 0.0)


BENCHMARK = EquationsBenchmark()
