"""The project's own Python files as syntax trees, for tests of its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Source:
    """One file: its path relative to the root, and its text."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the file."""
        return ast.parse(self.text, filename=str(self.path))

    @property
    def package(self) -> str:
        """The top folder: app, compute or tests."""
        return self.path.parts[0]

    def imports(self) -> Iterator[str]:
        """Yield the dotted names of all imports in the file; `from a import b` yields a.b."""
        for node in ast.walk(self.tree):
            yield from _imported(node)

    @property
    def module(self) -> str:
        """The dotted name of the module; for an `__init__.py`, the name of its folder."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    def imports_when_run(self) -> Iterator[str]:
        """Yield the same names, except those under `if TYPE_CHECKING`, which are never executed."""
        for node in _run(self.tree):
            yield from _imported(node)

    def at(self, node: ast.AST) -> str:
        """Return the location of a node, as path:line."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node, except those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from _run(child)


@cache
def _source(path: Path) -> Source:
    """Return the file; several tests of a process share its tree."""
    return Source(path.relative_to(ROOT), path.read_text(encoding="utf-8"))


def read(*packages: str) -> list[Source]:
    """Return every Python file below these folders of the project, sorted by path; none that was generated."""
    found = sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))
    paths = [path for path in found if "__pycache__" not in path.parts]
    return [_source(path) for path in paths]
