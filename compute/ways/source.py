"""The ways of a Python file, read without executing it: the libraries that it imports may be absent.

A way is a function with `@way("name", …)` at the top level of a file. Several ways share a file; `excerpt` returns the
lines that one of them needs: its function, and the imports, constants and functions that it uses, directly or through
others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from compute.measure.records import FIRST_REVISION

DECORATOR = "way"


@dataclass(frozen=True)
class DeclaredWay:
    """One function with `@way`. function, prepare, work: names in its file, "" if the decorator names none.

    summary: first line of the function's docstring; exhibit, revision: as in `compute.ways.declaring.way`.
    """

    name: str
    module: str
    path: Path
    function: str
    summary: str
    prepare: str = ""
    work: str = ""
    exhibit: str = ""
    revision: int = FIRST_REVISION


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file. numbers: the number in the file of each line, 0 for an empty line between two parts."""

    text: str
    numbers: tuple[int, ...]


@lru_cache(maxsize=64)
def declared_ways(package: str) -> dict[str, DeclaredWay]:
    """Return the ways of a module, or of all modules of a package, by name. Raise ValueError for a duplicate name."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no package {package}")
    modules = [package]
    if spec.submodule_search_locations is not None:
        modules += [f"{package}.{each.name}" for each in iter_modules(import_module(package).__path__)]
    found: dict[str, DeclaredWay] = {}
    for module in modules:
        origin = getattr(find_spec(module), "origin", None)
        for one in ways_of(Path(origin), module) if origin else ():
            if one.name in found:
                both = f"in {found[one.name].path.name} and {one.path.name}"
                raise ValueError(f"{package} has two ways {one.name!r}, {both}")
            found[one.name] = one
    return dict(sorted(found.items()))


def ways_of(path: Path, module: str = "") -> Iterator[DeclaredWay]:
    """Yield the ways of a file in their order. Raise SyntaxError for a file that is no Python."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if (name := _way_name(mark)) and isinstance(mark, ast.Call):
                    given = {word.arg: word.value for word in mark.keywords}
                    names = {key: _name(given.get(key)) for key in ("prepare", "work")}
                    exhibit, revision = _literal(given.get("exhibit")), _literal(given.get("revision"))
                    summary = (ast.get_docstring(node) or "").partition("\n")[0]
                    yield DeclaredWay(
                        name, module, path, node.name, summary, **names,
                        exhibit=str(exhibit or ""), revision=int(revision or FIRST_REVISION),
                    )  # fmt: skip


def _way_name(mark: ast.expr) -> str:
    """Return the name that a decorator `way("name")` or `module.way("name")` declares, else ""."""
    if not isinstance(mark, ast.Call) or not mark.args or ast.unparse(mark.func).rpartition(".")[2] != DECORATOR:
        return ""
    return str(_literal(mark.args[0]) or "")


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


@lru_cache(maxsize=256)
def excerpt(text: str, function: str) -> Excerpt:
    """Return the lines that a top-level function of a Python file needs; all lines if there is no such function."""
    lines = text.splitlines()
    try:
        needed = _needed(ast.parse(text).body, function) if function else []
    except (SyntaxError, ValueError, RecursionError):
        needed = []
    if not needed:
        return Excerpt(text, tuple(range(1, len(lines) + 1)))
    numbers: list[int] = []
    for node in needed:
        marks = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(mark.lineno for mark in marks)])
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        above = next((k for k in range(first - 1) if lines[first - 2 - k].strip()), 0)
        numbers += [0] * (above if numbers else 0)
        numbers += range(first, (node.end_lineno or first) + 1)
    return Excerpt("".join(f"{lines[n - 1] if n else ''}\n" for n in numbers), tuple(numbers))


def _needed(body: list[ast.stmt], function: str) -> list[ast.stmt]:
    """Return the top-level statements that define `function` and all names that it uses, in their order."""
    defined: dict[str, list[int]] = {}
    for place, node in enumerate(body):
        for name in _defined(node):
            defined.setdefault(name, []).append(place)
    if not any(isinstance(body[place], ast.FunctionDef) for place in defined.get(function, ())):
        return []
    places, waiting = set(defined[function]), list(defined[function])
    while waiting:
        for used in ast.walk(body[waiting.pop()]):
            if isinstance(used, ast.Name):
                new = [place for place in defined.get(used.id, ()) if place not in places]
                places.update(new)
                waiting += new
    return [body[place] for place in sorted(places)]


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a top-level statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
