"""Workloads and the ways to write them.

A built-in workload is a folder of workloads/ with a function that `@workload(…)` declares; no registration is needed. A
way is a `ShownProgram`: a function with `@way(…)` that is displayed next to its times, read without being executed, and
imported on first use. A `Case` is a workload at one n. workloads/__init__.py documents the functions of a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import Backend
from compute.ways.ecosystems import ecosystem_of
from compute.ways.source import DeclaredWay, declared_ways, excerpt

LAB = "compute.labs.crossover"  # its package has a kernel that evicts the caches, for each backend
BUILT_IN = "compute.labs.crossover.workloads"  # the package of the built-in workloads
DTYPES = ("float32", "float64")
TUTORIAL = "a tutorial on GPUs from Python"
UNNAMED = ("a CPU", "a GPU")  # placeholders for machines that a source does not name
INCLUDED = {
    "device": "A time is that of a call, when many follow each other, on data that lie on the device: between two CUDA "
    "events on a GPU, wall time on the host and for JAX. Arrays that a way makes for itself are included.",
    "host": "A time is wall time from data in main memory to results in main memory. Pinned memory is got before.",
}  # by the location of a workload's arguments


@dataclass(frozen=True)
class Work:
    """The operations, memory traffic and memory of a workload.

    moved: least bytes that cross the memory bus; flops: floating-point operations; memory: bytes for inputs, results
    and the temporaries of the way that needs most.
    """

    moved: float
    flops: float
    memory: float

    @property
    def intensity(self) -> float:
        """Operations per byte: the abscissa of a roofline plot."""
        return self.flops / self.moved


@dataclass(frozen=True)
class Cited:
    """A published figure, drawn separately from measured ones and included in no median.

    seconds: time of `what` for n elements on `machine`, according to `source`; dtype: "" if unknown.
    """

    what: str
    n: int
    dtype: str
    seconds: float
    machine: str
    source: str = TUTORIAL

    @property
    def name(self) -> str:
        """The label of its mark."""
        return self.what if self.machine in UNNAMED else f"{self.what}, {self.machine}"


class ClaimTest(Protocol):
    """Judges measured curves by a claim; the lab that draws the curves defines the tests."""

    @property
    def dtype(self) -> str:
        """The dtype of the times."""

    def judge(self, curves: Any) -> Any:
        """Return the verdict, or None if the required times were not measured."""


@dataclass(frozen=True)
class Claim:
    """A tutorial's conclusion, the figures it is based on, and the test for it."""

    claim: str
    cited: str
    test: ClaimTest


def fitting(figures: Iterable[Cited], dtype: str, sizes: tuple[int, int]) -> list[Cited]:
    """Return the figures of `dtype` or of unknown dtype, with n from sizes[0] to sizes[1]."""
    return [figure for figure in figures if figure.dtype in ("", dtype) and sizes[0] <= figure.n <= sizes[1]]


# -- programs


class ShownProgram:
    """A function with `@way("<ecosystem>[_<variant>]")`. Subclasses are dataclasses with the fields.

    package: dotted name of its file or folder; backend: its ecosystem; variant: the rest of the name, "" if none.
    """

    package: str
    backend: Backend
    variant: str

    @property
    def name(self) -> str:
        """The name that the decorator declares."""
        return f"{self.backend.name}_{self.variant}" if self.variant else self.backend.name

    @property
    def label(self) -> str:
        """The name on the screen."""
        return f"{self.backend.label}, {self.variant.replace('_', ' ')}" if self.variant else self.backend.label

    @property
    def missing(self) -> str | None:
        """Why it cannot run on this machine; else None. The backend's `install` is the command that would help."""
        return self.backend.missing

    @property
    def declared(self) -> DeclaredWay:
        """The declaration, read without executing its file. Raise ValueError if the package has none of this name."""
        known = declared_ways(self.package)
        if self.name not in known:
            raise ValueError(f"{self.package} has no way {self.name!r}; it has {', '.join(known)}")
        return known[self.name]

    @property
    def path(self) -> Path:
        """The file that runs."""
        return self.declared.path

    @property
    def source(self) -> str:
        """The part of the file that the function needs, read without importing it."""
        return excerpt(self.path.read_text(encoding="utf-8"), self.declared.function).text

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return self.declared.summary

    @property
    def exhibit(self) -> str:
        """Why it is displayed but timed only on request; empty by default."""
        return self.declared.exhibit

    @property
    def revision(self) -> int:
        """Number of the version, raised when the way becomes faster or slower (measure/records.py)."""
        return self.declared.revision

    def module(self) -> ModuleType:
        """Import the file, after the lab's kernels of its backend. Raise BackendUnavailable if a library is missing."""
        self.backend.require()
        if self.backend.has_kernels(LAB):
            self.backend.kernels(LAB)
        return import_module(self.declared.module)

    def function(self) -> Callable[..., Any]:
        """Return the function of the file."""
        found: Callable[..., Any] = vars(self.module())[self.declared.function]
        return found

    def optional(self, name: str) -> Callable[..., Any] | None:
        """Return the function of the file called `name`, or None if `name` is empty."""
        return vars(self.module())[name] if name else None


def readme(package: str) -> str:
    """Return the README.md of a package, in Markdown."""
    return files(package).joinpath("README.md").read_text(encoding="utf-8")


def programs_in(package: str) -> list[tuple[Backend, str]]:
    """Return (backend, variant) of every way of a package, by name. Raise ValueError for an unknown library."""
    found = []
    for name in declared_ways(package):
        backend = ecosystem_of(name)
        if backend is None:
            raise ValueError(f"the way {name!r} of {package} begins with no known library")
        found.append((backend, name[len(backend.name) + 1 :]))
    return found


@dataclass(frozen=True)
class Way(ShownProgram):
    """One way to compute a workload; its name is unique in the workload."""

    workload: str
    backend: Backend
    variant: str

    @property
    def package(self) -> str:  # type: ignore[override]  # derived here, a field of the others
        """The workload's folder."""
        return f"{BUILT_IN}.{self.workload}"

    @property
    def kind(self) -> str:
        """The device, "cpu" or "gpu", which selects the hue."""
        return self.backend.kind

    def prepared(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of the timed calls: `prepare` of the declaration, if any, applied to `arguments`."""
        prepare = self.optional(self.declared.prepare)
        return tuple(prepare(*arguments)) if prepare else arguments

    def work(self, n: int, dtype: str, **settings: Any) -> Work | None:
        """Return the work of this way if its declaration has one, else None: that of the workload."""
        count = self.optional(self.declared.work)
        return count(n, dtype, **settings) if count else None


# -- workloads


@dataclass(frozen=True, eq=False)
class Workload:
    """The description of one folder of workloads/; workloads/__init__.py documents the functions.

    Args:
        package: the folder's dotted name.
        title: heading on the screen.
        chapter: place in a lecture.
        on: location of its arguments: "device" (the way's device) or "host" (main memory).
        sizes: least and largest n worth drawing; any n from 1 to the largest is valid.
        counted: the unit of n.
        tolerance: by dtype, the largest `difference` that counts as agreement.
        inputs: (n, dtype, rng, **settings) -> arrays and plain numbers.
        outputs: (n, dtype, **settings) -> arrays like the results; none if an input is changed in place.
        reference: (*inputs) -> the correct results, by an independent method if possible.
        difference: (results, reference results) -> their distance.
        difference_in: the unit of `difference` as text; "" for that of the results.
        work: (n, dtype, **settings) -> the least work.
        settings: options in addition to n and dtype: the allowed values by name, the default first.
        cited: published figures with their source.
        claims: conclusions of tutorials.

    Raises:
        ValueError: if n has no range, a dtype has no tolerance, or a setting no value.

    """

    package: str
    title: str
    chapter: int
    on: Literal["device", "host"]
    sizes: tuple[int, int]
    counted: str
    tolerance: Mapping[str, float]
    inputs: Callable[..., tuple[Any, ...]]
    outputs: Callable[..., tuple[NDArray[Any], ...]]
    reference: Callable[..., tuple[NDArray[Any], ...]]
    difference: Callable[[Any, Any], float]
    work: Callable[..., Work]
    settings: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    cited: tuple[Cited, ...] = ()
    claims: tuple[Claim, ...] = ()
    difference_in: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.sizes[0] < self.sizes[1]:
            raise ValueError(f"sizes of {self.name} must rise from at least 1, not {self.sizes}")
        if set(self.tolerance) != set(DTYPES):
            raise ValueError(f"tolerance of {self.name} must be given for {', '.join(DTYPES)}, not {self.tolerance}")
        if empty := [name for name, allowed in self.settings.items() if not allowed]:
            raise ValueError(f"{empty[0]} of {self.name} must have a value")

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.package.rpartition(".")[2]

    @property
    def axis(self) -> str:
        """The label of the axis of n, with its unit."""
        return f"n [{self.counted}]"

    @property
    def included(self) -> str:
        """Text that says what a time includes."""
        return INCLUDED[self.on]

    def grid(self, least: int | None = None, most: int | None = None, per_decade: int = 3) -> tuple[int, ...]:
        """Return the n to draw: 1, 2 and 5 times each power of ten from least to most, and least and most themselves.

        least, most: by default `sizes`; per_decade: 3; 2 for 1 and 3 times, 1 for powers of ten only.
        """
        least, most = least or self.sizes[0], most or self.sizes[1]
        digits = {1: (1,), 2: (1, 3), 3: (1, 2, 5)}[per_decade]
        round_numbers = (digit * 10**power for power in range(len(str(most))) for digit in digits)
        return tuple(sorted({least, most, *(n for n in round_numbers if least <= n <= most)}))

    @property
    def about(self) -> str:
        """Description and lesson of the workload: README.md, in Markdown."""
        return readme(self.package)

    def case(self, n: int, dtype: str = "float64", **settings: Any) -> Case:
        """Return the workload at one n; omitted settings have their defaults."""
        return Case(self, n, dtype, {**{name: values[0] for name, values in self.settings.items()}, **settings})

    def choices(self) -> tuple[dict[str, Any], ...]:
        """Return every combination of the settings, the defaults first."""
        return tuple(dict(zip(self.settings, values, strict=True)) for values in product(*self.settings.values()))

    def ways(self) -> tuple[Way, ...]:
        """Return every way by name, whether or not it can run on this machine."""
        return _ways(self.name)

    def way(self, name: str) -> Way:
        """Return the way called `name`. Raise ValueError, with the known names, for an unknown one."""
        for way in self.ways():
            if way.name == name:
                return way
        raise ValueError(f"{self.name} has no way {name!r}; it has {', '.join(way.name for way in self.ways())}")


@dataclass(frozen=True)
class Case:
    """A workload at one n, dtype and choice of settings. Errors name the value and its bound."""

    workload: Workload
    n: int
    dtype: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        most = self.workload.sizes[1]
        if not 1 <= self.n <= most:
            raise ValueError(f"n must be from 1 to {most} for {self.workload.name}, not {self.n}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        for name, value in self.settings.items():
            allowed = self.workload.settings.get(name, ())
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed} for {self.workload.name}, not {value!r}")

    @property
    def settings_text(self) -> str:
        """The settings as text, the same for the same choice; empty if the workload has none."""
        return ", ".join(f"{name} = {value}" for name, value in sorted(self.settings.items()))

    @property
    def tolerance(self) -> float:
        """The largest difference that counts as agreement."""
        return self.workload.tolerance[self.dtype]

    def inputs(self, seed: int) -> tuple[Any, ...]:
        """Return host arrays and plain numbers; the same for the same seed and n."""
        rng = np.random.default_rng([seed, self.n])
        return self.workload.inputs(self.n, self.dtype, rng, **self.settings)

    def outputs(self) -> tuple[NDArray[Any], ...]:
        """Return arrays for the results, filled with nan or -1, which no result is, to detect missing writes."""
        shapes = self.workload.outputs(self.n, self.dtype, **self.settings)
        return tuple(np.full(a.shape, np.nan if a.dtype.kind == "f" else -1, a.dtype) for a in shapes)

    def reference(self, inputs: tuple[Any, ...]) -> tuple[NDArray[Any], ...]:
        """Return the reference results, in float64 if they are real, by a method that no way uses."""
        return self.workload.reference(*inputs)

    def work(self, way: Way | None = None) -> Work:
        """Return the least work of the workload, or that of the way if its declaration has one."""
        own = way.work(self.n, self.dtype, **self.settings) if way else None
        return own or self.workload.work(self.n, self.dtype, **self.settings)


@cache
def _ways(name: str) -> tuple[Way, ...]:
    return tuple(Way(name, backend, variant) for backend, variant in programs_in(f"{BUILT_IN}.{name}"))


def own_name(path: Path) -> str:
    """Return the workload name of a user's file, which no built-in workload has."""
    return f"own_{path.stem}"
