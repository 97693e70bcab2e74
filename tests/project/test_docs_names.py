"""Every file and class named in the glossary and the architecture exists, in the stated place.

Rules are functions from a text to complaints; each is tested on a planted offence before it is applied to the
documents.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests.sources import ROOT, read

DOCUMENTS = ("glossary.md", "architecture.md")
QUOTED = re.compile(r"`([^`]+)`")
FILE = re.compile(r"[\w<>*./-]+\.(?:py|cu|cuh|js|css|md)|(?:app|assets|compute|docs|tests)(?:/[\w<>*.-]+)*/?")
CLASS = re.compile(r"([A-Z][a-z]\w*)(?:\.(\w+))?")  # optionally with a member; names in all capitals are excluded
LABS = [sorted(file.parent for file in ROOT.glob(files)) for files in ("compute/labs/*/lab.py", "app/labs/*/parts.py")]


def blocks(text: str) -> Iterator[str]:
    """Yield the parts of a text that name a folder once: a row of a table, and the prose of a section."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        lines = section.splitlines()
        rows = [line for line in lines if line.startswith("| ")]
        yield from rows
        yield "\n".join(line for line in lines if line not in rows)


def named_files(block: str) -> dict[str, list[Path]]:
    """Return the named files and folders with their paths, below the root or next to an existing one."""
    names = [name for name in QUOTED.findall(block) if FILE.fullmatch(name)]
    patterns = {name: re.sub(r"<\w+>", "*", name).rstrip("/") for name in names}
    found = {name: list(ROOT.glob(pattern)) for name, pattern in patterns.items()}
    folders = {path if path.is_dir() else path.parent for name, paths in found.items() if "/" in name for path in paths}
    for name, pattern in patterns.items():
        beside = [path for folder in sorted(folders) for path in folder.glob(pattern)]
        found[name] = found[name] or beside or of_every_lab(pattern)
    return found


def of_every_lab(name: str) -> list[Path]:
    """Return the files of that name in all labs or all views of labs; an empty list if one lacks it."""
    return [lab / name for labs in LABS if all((lab / name).is_file() for lab in labs) for lab in labs]


def missing_files(text: str) -> list[str]:
    """Return named files and folders that do not exist."""
    return [name for block in blocks(text) for name, paths in named_files(block).items() if not paths]


@cache
def definitions() -> dict[str, list[tuple[Path, set[str]]]]:
    """Return the project's classes and types by name: the file of each, and the names of its members."""
    found: dict[str, list[tuple[Path, set[str]]]] = {}
    for source in read("app", "compute"):
        for node in source.tree.body:
            body = node.body if isinstance(node, ast.ClassDef) else []
            members = {name for each in body for name in defined(each)}
            for name in defined(node):
                found.setdefault(name, []).append((ROOT / source.path, members))
    return found


def defined(node: ast.stmt) -> list[str]:
    """Return the names of classes, functions or values that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def missing_classes(text: str) -> list[str]:
    """Return the classes and members in backticks that no file defines."""
    said = [found for found in map(CLASS.fullmatch, QUOTED.findall(text)) if found]
    return [
        found[0]
        for found in said
        if not any(found[2] is None or found[2] in members for _, members in definitions().get(found[1], ()))
    ]


def misplaced_words(text: str) -> list[str]:
    """Return words of a glossary that look like class names, but name no class in the files of their row."""
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [
        word
        for row in rows
        for word in re.findall(r"\w+", row[0])
        if CLASS.fullmatch(word) and not any(lies_in(file, row[-1]) for file, _ in definitions().get(word, ()))
    ]


def lies_in(file: Path, where: str) -> bool:
    """Return whether the file is named by `where`, or is below a folder that it names."""
    return any(file.is_relative_to(place) for places in named_files(where).values() for place in places)


OFFENCES = [
    (missing_files, "Frames go through `compute/engine/gone.py`."),
    (missing_files, "It begins in `compute/lab/lab.py`.\n\n## Elsewhere\n\nand ends in `notebook.js`."),
    (missing_classes, "The `FrameGone` sends them."),
    (missing_classes, "A control calls `Session.gone`."),
    (misplaced_words, "| window, FrameGate | sends frames | `app/tab/session.py` |"),
]


@pytest.mark.parametrize(("rule", "text"), OFFENCES)
def test_rule_sees_a_planted_offence(rule, text):
    assert rule(text)


@pytest.mark.parametrize(
    ("rule", "name"), [*product((missing_files, missing_classes), DOCUMENTS), (misplaced_words, "glossary.md")]
)
def test_documents_keep(rule, name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert text.count("`") > 100
    assert rule(text) == []
