"""The project's own Python files as syntax trees, for the tests that guard its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """One file: its path below the root and its text."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, filename=str(self.path))

    @property
    def package(self) -> str:
        """The top folder: app, compute or tests."""
        return self.path.parts[0]

    def imports(self) -> Iterator[str]:
        """The dotted names it imports, wherever in the file; `from a import b` gives a.b."""
        for node in ast.walk(self.tree):
            yield from _imported(node)

    @property
    def module(self) -> str:
        """Its dotted name; a package has that of its folder."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    def imports_when_run(self) -> Iterator[str]:
        """The same without those under `if TYPE_CHECKING`, which no interpreter ever sees."""
        for node in _run(self.tree):
            yield from _imported(node)

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def public(self) -> Iterator[Definition]:
        """What a reader meets: public classes and functions of the module, and public methods of the classes."""
        yield from _public(self.tree.body)

    def at(self, node: ast.AST) -> str:
        """Where a node is, as path:line."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below, those that are for a type checker alone left out."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from _run(child)


def _public(body: list[ast.stmt]) -> Iterator[Definition]:
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        yield node
        if isinstance(node, ast.ClassDef):
            yield from _public(node.body)


@cache
def _source(path: Path) -> Source:
    """The file; several tests of a process share its tree."""
    return Source(path.relative_to(ROOT), path.read_text(encoding="utf-8"))


def read(*packages: str) -> list[Source]:
    """Every Python file below these folders of the project, sorted by path."""
    paths = sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))
    return [_source(path) for path in paths]


def lines(node: Function) -> int:
    """How many lines a function has, decorators left out."""
    return (node.end_lineno or node.lineno) - node.lineno + 1
