"""What is computed, and the ways to write it: a workload is a folder of workloads/, a way is a file in it.

A folder's __init__.py says what the workload is, as one `Workload`; nothing else registers it. A way is a `Program`: a
file that is shown beside its figures, found by its name, read without being run, and imported when it is wanted. A
`Case` is a workload at one n. workloads/__init__.py says what the functions of a folder and of a file take and return.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import product
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from compute.backends import Backend
from compute.labs.crossover import workloads as folders
from compute.labs.crossover.ecosystems import ecosystem_of
from compute.measure.records import FIRST_REVISION

if TYPE_CHECKING:
    from compute.labs.crossover.claims import Claim

LAB = "compute.labs.crossover"
DTYPES = ("float32", "float64")
TUTORIAL = "a tutorial on GPUs from Python"
UNNAMED = ("a CPU", "a GPU")  # machines that a source does not name
INCLUDED = {
    "device": "A time is that of a call, when many follow each other, on data that lie on the device: between two CUDA "
    "events on a GPU, wall time on the host and for JAX. Arrays that a way makes for itself are included.",
    "host": "A time is wall time from data in main memory to results in main memory. Pinned memory is got before.",
}  # by where a workload's arguments lie


@dataclass(frozen=True)
class Work:
    """What a workload asks of a machine.

    moved: bytes that have to cross the memory bus at least; flops: floating-point operations; memory: bytes
    for inputs, results and the temporaries of the greediest way.
    """

    moved: float
    flops: float
    memory: float

    @property
    def intensity(self) -> float:
        """Operations a byte: the abscissa of a roofline plot."""
        return self.flops / self.moved


@dataclass(frozen=True)
class Cited:
    """A figure that others gave, which is drawn apart from measured ones and enters no median.

    seconds that `what` took for n elements on `machine`, as `source` says; dtype: "" where it does not say.
    """

    what: str
    n: int
    dtype: str
    seconds: float
    machine: str
    source: str = TUTORIAL

    @property
    def name(self) -> str:
        """What stands beside its mark."""
        return self.what if self.machine in UNNAMED else f"{self.what}, {self.machine}"


def fitting(figures: Iterable[Cited], dtype: str, sizes: tuple[int, int]) -> list[Cited]:
    """Return those of `dtype`, or that do not say theirs, with n from sizes[0] to sizes[1]."""
    return [figure for figure in figures if figure.dtype in ("", dtype) and sizes[0] <= figure.n <= sizes[1]]


# -- programs


class Program:
    """One file `<ecosystem>[_<what is special>].py` of a package. Subclasses are dataclasses that hold the fields.

    package: its dotted name; backend: what it is written with; variant: what is special, "" if nothing.
    """

    package: str
    backend: Backend
    variant: str

    @property
    def name(self) -> str:
        """The file's name without .py."""
        return f"{self.backend.name}_{self.variant}" if self.variant else self.backend.name

    @property
    def label(self) -> str:
        """The name on the screen."""
        return f"{self.backend.label}, {self.variant.replace('_', ' ')}" if self.variant else self.backend.label

    @property
    def missing(self) -> str | None:
        """Why it cannot run on this machine; None if it can. The backend's `install` is the line that helps."""
        return self.backend.missing

    @property
    def path(self) -> Path:
        """The very file that runs."""
        return Path(str(files(self.package).joinpath(f"{self.name}.py")))

    @property
    def source(self) -> str:
        """Its text; read without importing it."""
        return self.path.read_text(encoding="utf-8")

    @property
    def summary(self) -> str:
        """The first line of the file's docstring."""
        return (ast.get_docstring(ast.parse(self.source)) or "").partition("\n")[0]

    @property
    def exhibit(self) -> str:
        """Why it is shown but not timed unless it is asked for, the file's EXHIBIT; empty if it has none."""
        return str(self._constant("EXHIBIT", ""))

    @property
    def revision(self) -> int:
        """The file's REVISION, 1 if it has none: raised when it becomes faster or slower (measure/records.py)."""
        return int(self._constant("REVISION", FIRST_REVISION))

    def _constant(self, name: str, default: Any) -> Any:
        """A literal that the file assigns to `name`; `default` if it does not."""
        for node in ast.parse(self.source).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return ast.literal_eval(node.value)
        return default

    def module(self) -> ModuleType:
        """Import the file, after the lab's own for its backend. Raises BackendUnavailable with the install line."""
        self.backend.require()
        if self.backend.has_kernels(LAB):
            self.backend.kernels(LAB)
        return import_module(f"{self.package}.{self.name}")

    def required(self, name: str) -> Callable[..., Any]:
        """Return the file's function `name`. Raises TypeError that names the file if it has none."""
        found = self.optional(name)
        if found is None:
            raise TypeError(f"{self.package}.{self.name} has no function {name}")
        return found

    def optional(self, name: str) -> Callable[..., Any] | None:
        """Return the file's function `name`, None if it has none."""
        return vars(self.module()).get(name)


def readme(package: str) -> str:
    """Return README.md of a package, in Markdown."""
    return files(package).joinpath("README.md").read_text(encoding="utf-8")


def error_line(error: Exception) -> str:
    """Return the kind and the text of what a program raised, on one line of at most 300 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def programs_in(package: str) -> list[tuple[Backend, str]]:
    """Return the (backend, variant) of every program of a package, by file name; other files are left out."""
    names = sorted(module.name for module in iter_modules(import_module(package).__path__))
    return [(e, name[len(e.name) + 1 :]) for name in names if (e := ecosystem_of(name)) is not None]


@dataclass(frozen=True)
class Way(Program):
    """One file of a workload; its name is unique there."""

    workload: str
    backend: Backend
    variant: str

    @property
    def package(self) -> str:  # type: ignore[override]  # derived here, a field of the others
        """The workload's folder."""
        return f"{folders.__name__}.{self.workload}"

    @property
    def kind(self) -> str:
        """Whose hue it has: "cpu" or "gpu"."""
        return "cpu" if self.backend.device == "host" else "gpu"

    def function(self) -> Callable[..., Any]:
        """Return what is timed."""
        return self.required(declared(self.package).call)

    def prepared(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of the timed calls: what the file's `prepare` makes of these, if it has one."""
        prepare = self.optional("prepare")
        return tuple(prepare(*arguments)) if prepare else arguments


# -- workloads


@dataclass(frozen=True, eq=False)
class Workload:
    """What one folder of workloads/ says of itself; workloads/__init__.py explains the functions.

    Args:
        package: the folder's dotted name.
        title: heading on the screen.
        chapter: place in a lecture.
        call: name of the function that every way has.
        on: where its arguments lie: "device" (where the way computes) or "host" (main memory).
        sizes: least and largest n worth drawing; any n from 1 to the largest is right.
        counted: what n counts.
        tolerance: by dtype, the largest `difference` that counts as agreement.
        inputs: (n, dtype, rng, **settings) -> arrays and plain numbers.
        outputs: (n, dtype, **settings) -> arrays like the results; none if an input is changed in place.
        reference: (*inputs) -> the right results, by another method where there is one.
        difference: (results, right results) -> how far they are apart.
        difference_in: what `difference` counts, in words; "" for the results' own unit.
        work: (n, dtype, **settings) -> the least work there is.
        settings: what may be chosen besides n and dtype: the values allowed by name, the default first.
        cited: figures of others, with their source.
        claims: what tutorials concluded.

    Raises:
        ValueError: if n has no range, a dtype has no tolerance, or a setting no value.

    """

    package: str
    title: str
    chapter: int
    call: str
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
        """n and what it counts, as an axis is called."""
        return f"n [{self.counted}]"

    @property
    def included(self) -> str:
        """What is in a time, in words."""
        return INCLUDED[self.on]

    def grid(self, least: int | None = None, most: int | None = None, per_decade: int = 3) -> tuple[int, ...]:
        """Return the n to draw: 1, 2 and 5 times each power of ten from least to most (by default `sizes`), and these.

        per_decade: 3; 2 for 1 and 3 times, 1 for powers of ten alone.
        """
        least, most = least or self.sizes[0], most or self.sizes[1]
        digits = {1: (1,), 2: (1, 3), 3: (1, 2, 5)}[per_decade]
        round_numbers = (digit * 10**power for power in range(len(str(most))) for digit in digits)
        return tuple(sorted({least, most, *(n for n in round_numbers if least <= n <= most)}))

    @property
    def about(self) -> str:
        """What it is and what it teaches: README.md, in Markdown."""
        return readme(self.package)

    def case(self, n: int, dtype: str = "float64", **settings: Any) -> Case:
        """Return it at one n; settings that are not given have their defaults."""
        return Case(self, n, dtype, {**{name: values[0] for name, values in self.settings.items()}, **settings})

    def choices(self) -> tuple[dict[str, Any], ...]:
        """Return every combination of its settings, the defaults first."""
        return tuple(dict(zip(self.settings, values, strict=True)) for values in product(*self.settings.values()))

    def ways(self) -> tuple[Way, ...]:
        """Return every way there is, present on this machine or not; by file name."""
        return _ways(self.name)

    def way(self, name: str) -> Way:
        """Return the way of that file name; ValueError names those there are."""
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
        """Return arrays for the results, filled with what no result is: a way that writes nothing shall be seen."""
        shapes = self.workload.outputs(self.n, self.dtype, **self.settings)
        return tuple(np.full(a.shape, np.nan if a.dtype.kind == "f" else -1, a.dtype) for a in shapes)

    def reference(self, inputs: tuple[Any, ...]) -> tuple[NDArray[Any], ...]:
        """Return the right results, in float64 where they are real, by another method than the ways use."""
        return self.workload.reference(*inputs)

    def work(self, way: Way | None = None) -> Work:
        """Return the least work there is; for a way that does other work, that."""
        other = way.optional("work") if way else None
        found: Work = (other or self.workload.work)(self.n, self.dtype, **self.settings)
        return found


@cache
def _ways(name: str) -> tuple[Way, ...]:
    return tuple(Way(name, backend, variant) for backend, variant in programs_in(f"{folders.__name__}.{name}"))


def declared(package: str) -> Workload:
    """Return the workload that a folder's __init__.py says. TypeError for one that says none."""
    said = vars(import_module(package)).get("WORKLOAD")
    if not isinstance(said, Workload):
        name = package.rpartition(".")[2]
        raise TypeError(f"workloads/{name}/__init__.py must define WORKLOAD, a Workload, not {said!r}")
    return said


def own_name(path: Path) -> str:
    """The name of a file of one's own as a workload, which no other has."""
    return f"own_{path.stem}"
