"""The traps: pairs of a wrong and a right program in one file of traps/, listed in TRAPS."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from compute.cli.arguments import named
from compute.devices.backends import Backend
from compute.measure.agreement import error_line
from compute.ways.ecosystems import ecosystem_of
from compute.ways.workload import ShownProgram, programs_in

FOLDER = "compute.labs.crossover.traps"


@dataclass(frozen=True)
class TrapProgram(ShownProgram):
    """One of the two programs; its variant is "wrong" or "right"."""

    package: str
    backend: Backend
    variant: str

    def run(self, n: int | None = None) -> dict[str, float]:
        """Return the program's results by the keys of the trap's `seen`. n: size, by default the program's own.

        Raise BackendUnavailable if its library is missing.
        """
        run = self.function()
        found: dict[str, float] = run() if n is None else run(n)
        return found

    def attempt(self) -> dict[str, float] | str:
        """Return the results, or a sentence that says why the program cannot run."""
        if self.missing:
            return f"{self.missing}; {self.backend.install}" if self.backend.install else self.missing
        try:
            return {key: float(value) for key, value in self.run().items()}
        except Exception as error:  # noqa: BLE001 the other program's result must be shown in any case
            return error_line(error)


@dataclass(frozen=True)
class Trap:
    """The description of one file of traps/.

    file: its name without .py, <ecosystem>_<name>; title: heading; seen: meaning and unit of each number of a run.
    """

    file: str
    title: str
    seen: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of the trap."""
        backend = ecosystem_of(self.file)
        if backend is None:
            raise ValueError(f"the name of traps/{self.file}.py begins with no known library")
        return self.file[len(backend.name) + 1 :]

    @property
    def package(self) -> str:
        """The file's dotted name."""
        return f"{FOLDER}.{self.file}"

    @property
    def about(self) -> str:
        """What happens, why, and the remedy: the docstring of the file, in Markdown."""
        spec = find_spec(self.package)
        if spec is None or spec.origin is None:
            raise ValueError(f"the trap {self.name!r} has no file traps/{self.file}.py")
        return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""

    @property
    def wrong(self) -> TrapProgram:
        """The wrong program."""
        return self._program("wrong")

    @property
    def right(self) -> TrapProgram:
        """The right program."""
        return self._program("right")

    def tried(self) -> str:
        """Run both programs; return {"name", "wrong", "right"} as JSON: the numbers of each, or why there are none."""
        return json.dumps({"name": self.name, "wrong": self.wrong.attempt(), "right": self.right.attempt()})

    def _program(self, which: str) -> TrapProgram:
        for backend, variant in programs_in(self.package):
            if variant == which:
                return TrapProgram(self.package, backend, variant)
        raise ValueError(f"the trap {self.name!r} has no program <ecosystem>_{which}")


TRAPS = (  # in the order of a lecture
    Trap("cpu_numba_first_call", "Timing the first call", {"milliseconds": "apparent time of one call, ms"}),
    Trap(
        "gpu_cupy_no_synchronise",
        "A missing synchronise",
        {"milliseconds": "apparent time of the product, ms"},
    ),
    Trap(
        "cpu_numpy_zeros",
        "Timing zeros",
        {"gigabytes_per_second": "apparent speed of reading memory, GB/s"},
    ),
    Trap(
        "gpu_cupy_out_of_bounds",
        "Out of bounds",
        {"element": "what a[n + 1] of the numbers 0 to n - 1 gave; nan for an IndexError"},
    ),
    Trap("gpu_numba_in_place_race", "The race in place", {"wrong_cells": "cells that differ from NumPy's result"}),
    Trap(
        "gpu_cupy_float64_literals",
        "float64 literals in a float32 kernel",
        {"microseconds": "time of the kernel, µs", "result": "the first element of the result"},
    ),
    Trap(
        "gpu_cupy_complex_power",
        "z ** 2 of complex numbers",
        {"microseconds": "time of 50 steps, µs", "error": "largest difference from float64 by hand"},
    ),
)


def traps() -> tuple[Trap, ...]:
    """Return all traps in the order of a lecture."""
    return TRAPS


def trap(name: str) -> Trap:
    """Return the trap called `name`. Raise ValueError, with the known names, for an unknown one."""
    return named("trap", name, {each.name: each for each in traps()})
