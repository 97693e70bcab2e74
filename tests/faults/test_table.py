"""README.md beside this names tests that are there, for each fault one at least; and no clock of ours can be set."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ROWS = re.findall(r"^\| (\d+) \|.*\| (`tests/.*) \|$", Path(__file__).with_name("README.md").read_text(), re.MULTILINE)


def test_every_fault_has_a_test_that_is_there():
    assert [int(number) for number, _ in ROWS] == list(range(1, 26))
    for _, cell in ROWS:
        for named in re.findall(r"`(tests/[^`]+)`", cell):
            path, _, name = named.partition("::")
            tree = ast.walk(ast.parse((ROOT / path).read_text()))
            assert name in {one.name for one in tree if isinstance(one, ast.FunctionDef)}, named


def test_time_is_taken_from_clocks_that_nobody_sets():
    """25: seconds of the day are for people to read, and are written by datetime; a difference of them is a fault."""
    wrong = []
    for path in [*(ROOT / "app").rglob("*.py"), *(ROOT / "compute").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if (node.value.id, node.attr) in {("time", "time"), ("time", "time_ns")}:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
            elif isinstance(node, ast.ImportFrom) and node.module == "time":
                wrong += [f"{path}:{node.lineno}" for one in node.names if one.name in {"time", "time_ns"}]
    assert not wrong
