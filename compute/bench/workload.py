"""What `fieldlab bench` and the live comparison ask of a lab: its folder's benchmark.py, found by that name.

A bench needs, as names of that module:

RATE (Rate), DTYPES, WRONG (reasons of variants wrong by design), INCLUDED (what is in a time), PARAMETERS (further
values for the record), CHECK_STEPS, MOST_STEPS (of one sample), OPTIONS (the lab's own, of the command line),
`cases(chosen, dtypes, gpu)` (what to time; chosen: values by option, () where none were given; gpu: whether there
is one), `variants(backend, case)` (kernels by name), `reference(case)` (the right result; shared by cases of the same
`shared`), `Rig(device, case, right)`, and `differs(difference, tolerance)`, which says a disagreement in words.

A lab whose ways are not timed case by case brings `run(plan, progress)`, which returns Results, and
`show(results, console)` for its tables; it needs neither variants nor Rig then.

The live comparison needs what compute.comparison.rules.Rules describes, as `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from compute.backends import Backend
from compute.devices import Device
from compute.timings import Timing


@dataclass(frozen=True)
class Option:
    """An option `--name` of `fieldlab bench` that belongs to a lab; its value is a list.

    parse: of the text of one entry, ValueError says what is wrong with it; help: for the command line.
    """

    name: str
    parse: Callable[[str], Any]
    help: str


class Case(Protocol):
    """One thing to time in several ways."""

    title: str  # heading of its table
    dtype: str
    tolerance: float  # up to this difference a result counts as right
    shared: Hashable  # cases of equal `shared` have the same right result
    pace: Hashable  # a time of one case predicts the time of another of equal `pace`, by their `cells`
    cells: int
    needed_bytes: int  # device memory
    plain: bool  # whether its work is what the roof is about, so that it has a share of it

    def facts(self) -> dict[str, Any]:
        """For the record: ny, nx, dtype, and what else tells it from the others."""


@dataclass(frozen=True)
class Way:
    """One kernel of one backend."""

    backend: Backend
    variant: str
    kernel: Any

    @property
    def name(self) -> str:
        """Backend and variant."""
        return f"{self.backend.name} {self.variant}"


class Checked(NamedTuple):
    """How far a result is from the right one, at most and by the lab's measure, and what computing it took."""

    difference: float
    largest: float
    timing: Timing


class Rig(Protocol):
    """The arrays of one backend for one case, shared by its variants."""

    device: Device

    def first(self, way: Way) -> tuple[Timing, float]:
        """The first call of this way, and the seconds a step will take as far as it tells that; 0 if not."""

    def check(self, way: Way) -> Checked:
        """Compute the result and compare it with the right one."""

    def run(self, way: Way, steps: int) -> Timing:
        """Time `steps` steps."""


def workload_of(lab: str) -> ModuleType:
    """What there is to time in a lab; ValueError if it has nothing, or there is no such lab."""
    if has_workload(lab):
        return import_module(_module(lab))
    raise ValueError(f"there is nothing to bench in a lab called {lab!r}; there is in: {', '.join(labs())}")


def has_workload(lab: str) -> bool:
    """Whether there is something to time in a lab of this name."""
    return lab.isidentifier() and _exists(f"compute.labs.{lab}") and _exists(_module(lab))


def labs() -> tuple[str, ...]:
    """The labs that have something to time."""
    from pkgutil import iter_modules

    import compute.labs

    return tuple(module.name for module in iter_modules(compute.labs.__path__) if has_workload(module.name))


def _module(lab: str) -> str:
    return f"compute.labs.{lab}.benchmark"


def _exists(name: str) -> bool:
    return find_spec(name) is not None
