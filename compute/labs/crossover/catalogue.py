"""The workloads and the ways to write each: a workload is a folder, a way is a file in it. Nothing else registers them.

workloads/__init__.py says what such a folder and such a file hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import product
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.backends import Backend
from compute.labs.crossover import workloads as folders
from compute.labs.crossover.ecosystems import ecosystem_of
from compute.labs.crossover.program import Program, readme
from compute.labs.crossover.work import Work

DTYPES = ("float32", "float64")


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
        """What is timed."""
        found: Callable[..., Any] = getattr(self.module(), workload(self.workload).call)
        return found


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

    def inputs(self, seed: int) -> tuple[Any, ...]:
        """Host arrays and plain numbers; the same for the same seed and n."""
        rng = np.random.default_rng([seed, self.n])
        found: tuple[Any, ...] = self.workload.folder.inputs(self.n, self.dtype, rng, **self.settings)
        return found

    @property
    def settings_text(self) -> str:
        """The settings as text, the same for the same choice; empty if the workload has none."""
        return ", ".join(f"{name} = {value}" for name, value in sorted(self.settings.items()))

    def outputs(self) -> tuple[NDArray[Any], ...]:
        """Arrays for the results, filled with what no result is: a way that writes nothing shall be seen."""
        shapes = self.workload.folder.outputs(self.n, self.dtype, **self.settings)
        return tuple(np.full(a.shape, np.nan if a.dtype.kind == "f" else -1, a.dtype) for a in shapes)

    def reference(self, inputs: tuple[Any, ...]) -> tuple[NDArray[Any], ...]:
        """The right results, in float64 where they are real, by another method than the ways use."""
        found: tuple[NDArray[Any], ...] = self.workload.folder.reference(*inputs)
        return found

    @property
    def tolerance(self) -> float:
        """The largest difference that counts as agreement."""
        return float(self.workload.folder.TOLERANCE[self.dtype])

    def work(self, way: Way | None = None) -> Work:
        """The least work there is; for a way that does other work, that."""
        other = getattr(way.module(), "work", None) if way else None
        found: Work = (other or self.workload.folder.work)(self.n, self.dtype, **self.settings)
        return found


@dataclass(frozen=True)
class Workload:
    """One folder of workloads/."""

    name: str

    @property
    def folder(self) -> ModuleType:
        """Its __init__.py."""
        return import_module(self.package)

    @property
    def package(self) -> str:
        """The folder's dotted name."""
        return f"{folders.__name__}.{self.name}"

    @property
    def title(self) -> str:
        """Its heading on the screen."""
        return str(self.folder.TITLE)

    @property
    def call(self) -> str:
        """The name of the function that every way has."""
        return str(self.folder.CALL)

    @property
    def sizes(self) -> tuple[int, int]:
        """The least and the largest n worth drawing; any n from 1 to the largest is right."""
        least, most = self.folder.SIZES
        return int(least), int(most)

    @property
    def axis(self) -> str:
        """n and what it counts, as an axis is called."""
        return f"n [{self.folder.COUNTED}]"

    def grid(self, least: int | None = None, most: int | None = None, per_decade: int = 3) -> tuple[int, ...]:
        """The n to draw: 1, 2 and 5 times each power of ten from least to most (by default `sizes`), and these two.

        per_decade: 3; 2 for 1 and 3 times, 1 for powers of ten alone.
        """
        least, most = least or self.sizes[0], most or self.sizes[1]
        digits = {1: (1,), 2: (1, 3), 3: (1, 2, 5)}[per_decade]
        round_numbers = (digit * 10**power for power in range(len(str(most))) for digit in digits)
        return tuple(sorted({least, most, *(n for n in round_numbers if least <= n <= most)}))

    @property
    def settings(self) -> Mapping[str, tuple[Any, ...]]:
        """What may be chosen besides n and dtype: the values allowed, the default first."""
        found: Mapping[str, tuple[Any, ...]] = self.folder.SETTINGS
        return found

    @property
    def differs(self) -> Callable[[Any, Any], float]:
        """The difference of (results, right results)."""
        found: Callable[[Any, Any], float] = self.folder.difference
        return found

    @property
    def about(self) -> str:
        """What it is and what it teaches: README.md, in Markdown."""
        return readme(self.package)

    def case(self, n: int, dtype: str = "float64", **settings: Any) -> Case:
        """It at one n; settings that are not given have their defaults."""
        return Case(self, n, dtype, {**{name: values[0] for name, values in self.settings.items()}, **settings})

    def choices(self) -> tuple[dict[str, Any], ...]:
        """Every combination of its settings, the defaults first."""
        return tuple(dict(zip(self.settings, values, strict=True)) for values in product(*self.settings.values()))

    def ways(self) -> tuple[Way, ...]:
        """Every way there is, present on this machine or not; by file name."""
        return _ways(self)

    def way(self, name: str) -> Way:
        """The way of that file name; ValueError names those there are."""
        for way in self.ways():
            if way.name == name:
                return way
        raise ValueError(f"{self.name} has no way {name!r}; it has {', '.join(way.name for way in self.ways())}")


@cache
def _ways(of: Workload) -> tuple[Way, ...]:
    names = sorted(module.name for module in iter_modules(of.folder.__path__))
    found = [(name, ecosystem_of(name)) for name in names]
    return tuple(Way(of.name, e, name[len(e.name) + 1 :]) for name, e in found if e is not None)


@cache
def workloads() -> tuple[Workload, ...]:
    """Every workload, in the order of a lecture."""
    found = [Workload(module.name) for module in iter_modules(folders.__path__) if module.ispkg]
    return tuple(sorted(found, key=lambda w: (w.folder.CHAPTER, w.name)))


def workload(name: str) -> Workload:
    """The workload called `name`; ValueError names the ones there are."""
    for candidate in workloads():
        if candidate.name == name:
            return candidate
    raise ValueError(f"workload must be one of {', '.join(w.name for w in workloads())}, not {name!r}")
