"""The traps: pairs of a wrong and a right program. Each folder of traps/ is a trap; no registration is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from compute.cli.arguments import named
from compute.devices.backends import Backend
from compute.labs.crossover import traps as folders
from compute.ways.workload import Program, error_line, programs_in, readme


@dataclass(frozen=True)
class TrapProgram(Program):
    """One of the two programs; its variant is "wrong" or "right"."""

    package: str
    backend: Backend
    variant: str

    def run(self, n: int | None = None) -> dict[str, float]:
        """Return the program's results by the keys of the trap's `seen`. n: size, by default the program's own.

        Raise BackendUnavailable if its library is missing.
        """
        run = self.required("run")
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
    """The description of one folder of traps/.

    package: the folder's dotted name; title: its heading; chapter: its place in a lecture; seen: meaning and unit of
    each number that a run returns.
    """

    package: str
    title: str
    chapter: int
    seen: Mapping[str, str]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.package.rpartition(".")[2]

    @property
    def about(self) -> str:
        """What happens, why, and the remedy: README.md, in Markdown."""
        return readme(self.package)

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
        raise ValueError(f"the trap {self.name!r} has no program <ecosystem>_{which}.py")


@cache
def traps() -> tuple[Trap, ...]:
    """Return all traps in the order of a lecture. Raise TypeError for a folder without a TRAP."""
    found: list[Any] = []
    for module in iter_modules(folders.__path__):
        if module.ispkg:
            found.append(vars(import_module(f"{folders.__name__}.{module.name}")).get("TRAP"))
            if not isinstance(found[-1], Trap):
                raise TypeError(f"traps/{module.name}/__init__.py must define TRAP, a Trap, not {found[-1]!r}")
    return tuple(sorted(found, key=lambda trap: (trap.chapter, trap.name)))


def trap(name: str) -> Trap:
    """Return the trap called `name`. Raise ValueError, with the known names, for an unknown one."""
    return named("trap", name, {each.name: each for each in traps()})
