"""The tests named in README.md and defects.md of this folder exist; app and compute use only monotonic clocks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def rows(name: str) -> list[tuple[str, str]]:
    """Return (number, cell of tests) of each row of a table in this folder."""
    return re.findall(r"^\| ([\dAB][\d, ]*) \|.*\| (`tests/.*) \|$", (HERE / name).read_text(), re.MULTILINE)


def test_every_fault_and_every_defect_names_an_existing_test():
    faults, defects = rows("README.md"), rows("defects.md")
    assert [int(number) for number, _ in faults] == list(range(1, 26))
    table = (HERE / "defects.md").read_text()
    assert len(defects) == table.count("\n| ") - 2 >= 40  # without the heads of both tables
    for _, cell in faults + defects:
        for named in re.findall(r"`(tests/[^`]+)`", cell):
            path, _, name = named.partition("::")
            tree = ast.walk(ast.parse((ROOT / path).read_text()))
            assert name in {one.name for one in tree if isinstance(one, ast.FunctionDef)}, named


def test_only_monotonic_clocks_are_used():
    """Fault 25: the time of day is only for display, through datetime; differences of it are errors."""
    wrong = []
    for path in [*(ROOT / "app").rglob("*.py"), *(ROOT / "compute").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if (node.value.id, node.attr) in {("time", "time"), ("time", "time_ns")}:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
            elif isinstance(node, ast.ImportFrom) and node.module == "time":
                wrong += [f"{path}:{node.lineno}" for one in node.names if one.name in {"time", "time_ns"}]
    assert not wrong
