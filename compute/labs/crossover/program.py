"""A file that is shown beside its figures: found by its name, read without being run, imported when it is wanted."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.resources import files
from types import ModuleType

from compute.backends import Backend

LAB = "compute.labs.crossover"


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
    def source(self) -> str:
        """The text of the very file that runs; read without importing it."""
        return files(self.package).joinpath(f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def summary(self) -> str:
        """The first line of the file's docstring."""
        return (ast.get_docstring(ast.parse(self.source)) or "").partition("\n")[0]

    @property
    def exhibit(self) -> str:
        """Why it is shown but not timed unless it is asked for, the file's EXHIBIT; empty if it has none."""
        for node in ast.parse(self.source).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXHIBIT":
                return str(ast.literal_eval(node.value))
        return ""

    def module(self) -> ModuleType:
        """The file, imported after the lab's own for its library. Raises BackendUnavailable with the install line."""
        self.backend.kernels(LAB)
        return import_module(f"{self.package}.{self.name}")


def readme(package: str) -> str:
    """README.md of a package, in Markdown."""
    return files(package).joinpath("README.md").read_text(encoding="utf-8")
