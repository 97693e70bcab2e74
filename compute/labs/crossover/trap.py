"""The traps: pairs of a wrong and a right program, found in the folders of traps/, whose __init__.py describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from compute.backends import Backend
from compute.labs.crossover import traps as folders
from compute.labs.crossover.ecosystems import ecosystem_of
from compute.labs.crossover.program import Program, readme


@dataclass(frozen=True)
class Side(Program):
    """One of the two programs; its variant is "wrong" or "right"."""

    package: str
    backend: Backend
    variant: str

    def run(self, n: int | None = None) -> dict[str, float]:
        """What it sees, by the keys of the trap's `seen`; its own n if none is given.

        Raises BackendUnavailable where its library is missing.
        """
        call = self.module().run
        found: dict[str, float] = call() if n is None else call(n)
        return found


@dataclass(frozen=True)
class Trap:
    """One folder of traps/."""

    name: str

    @property
    def folder(self) -> ModuleType:
        """Its __init__.py."""
        return import_module(f"{folders.__name__}.{self.name}")

    @property
    def title(self) -> str:
        """Its heading."""
        return str(self.folder.TITLE)

    @property
    def seen(self) -> Mapping[str, str]:
        """What each number of a run is, with its unit."""
        found: Mapping[str, str] = self.folder.SEEN
        return found

    @property
    def about(self) -> str:
        """What happens, why, and what to do instead, in Markdown."""
        return readme(f"{folders.__name__}.{self.name}")

    @property
    def wrong(self) -> Side:
        """The program that is wrong."""
        return self._side("wrong")

    @property
    def right(self) -> Side:
        """The program that is right."""
        return self._side("right")

    def _side(self, which: str) -> Side:
        for module in iter_modules(self.folder.__path__):
            ecosystem = ecosystem_of(module.name)
            if ecosystem is not None and module.name == f"{ecosystem.name}_{which}":
                return Side(self.folder.__name__, ecosystem, which)
        raise ValueError(f"the trap {self.name!r} has no program <ecosystem>_{which}.py")


@cache
def traps() -> tuple[Trap, ...]:
    """All traps, in the order of a lecture."""
    found = [Trap(module.name) for module in iter_modules(folders.__path__) if module.ispkg]
    return tuple(sorted(found, key=lambda trap: (trap.folder.CHAPTER, trap.name)))


def find(name: str) -> Trap:
    """The trap called `name`; ValueError names the ones there are."""
    for candidate in traps():
        if candidate.name == name:
            return candidate
    raise ValueError(f"trap must be one of {', '.join(t.name for t in traps())}, not {name!r}")
