"""Break randomly chosen places in the code, one at a time, and count how many of them the tests detect.

    python -m tests.mutations FOLDER --group engine=compute/engine --group page=app/page,app/tab --count 15

FOLDER is a copy of the project that may be broken; each process works on a separate copy. A place is a comparison, an
operator, a number, a condition, a return value or a call, outside of type annotations, texts and logging; all places of
a group are equally likely. The test files run are those that import the broken module, those in the folder that mirrors
its folder, and those that import its importers; files whose paths share words with the broken file's come first; --most
at most, none in a browser or of a GPU; `-m "not gpu and not extended"` runs those of `make test`. A test that also
fails in the unbroken copy does not count. Prints one JSON line per place; --again FILE judges only places whose tests
passed there, with more or other tests; with --browser by tests in a browser alone, the nearest and those of the whole
page.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

MOST = 10  # test files run per place, by default
NEAREST = 3  # of the tests in a browser, each of which takes a minute
WHOLE_PAGE = ("tests/browser/test_diffusion.py", "tests/browser/test_reconnect.py")
HANGS, LIMIT = 150, 2000  # s for a test, which then fails, and for all tests of a place: that it hangs is detected, too
OTHER: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
TELLING = re.compile(r"\b(log|logging|logger|warnings)\.")


@dataclass(frozen=True)
class Place:
    """A change to a file: the characters from `start` to `end` become `text`."""

    group: str
    path: str
    line: int
    start: int
    end: int
    text: str
    was: str


def broken(node: ast.AST) -> ast.expr | ast.stmt | None:
    """Return the replacement of `node` in the broken file, None if the node is left unchanged."""
    new: ast.expr | ast.stmt | None = None
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in OTHER:
            new = ast.Compare(left, [OTHER[type(op)]()], [right])
        case ast.BinOp(left, op, right) if type(op) in OTHER and not isinstance(left, ast.Constant | ast.JoinedStr):
            new = ast.BinOp(left, OTHER[type(op)](), right)
        case ast.BoolOp(op, values):
            new = ast.BoolOp(OTHER[type(op)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            new = operand
        case ast.Constant(bool() as value):
            new = ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            new = ast.Constant(value + 1)
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            new = ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()):
            new = ast.Pass()
    return new


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every executed node: no annotations, no subscripts in them, no text within a format string."""
    for name, field in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        for node in field if isinstance(field, list) else [field]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            yield from nodes(node)


def places(folder: Path, group: str, paths: str) -> list[Place]:
    """Return all places of the group's files."""
    found = []
    for path in paths.split(","):
        files = sorted((folder / path).rglob("*.py")) if (folder / path).is_dir() else [folder / path]
        files = [file for file in files if "gpu" not in file.name]  # most of them do not run without a GPU
        for file in files:
            source = file.read_text(encoding="utf-8")
            starts = [0]
            for line in source.encode().splitlines(keepends=True):
                starts.append(starts[-1] + len(line))
            for node in nodes(ast.parse(source)):
                new = broken(node)
                if new is None or TELLING.search(ast.unparse(node)) or not isinstance(node, ast.expr | ast.stmt):
                    continue
                start = starts[node.lineno - 1] + node.col_offset
                end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                text = ast.unparse(ast.fix_missing_locations(new))
                text = text if isinstance(new, ast.stmt) else f"({text})"
                name = str(file.relative_to(folder))
                found.append(Place(group, name, node.lineno, start, end, text, ast.unparse(node)))
    return found


def imports(folder: Path) -> dict[str, set[str]]:
    """Return the modules of the project that each Python file imports, by the file's path."""
    modules = {module_name(path.relative_to(folder)) for path in folder.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = path.relative_to(folder).parts[: -node.level] if node.level else ()
                module = ".".join(filter(None, (*above, node.module)))
                names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
        found[str(path.relative_to(folder))] = names & modules
    return found


def module_name(path: Path) -> str:
    """Return the module name: compute/lab/lab.py -> compute.lab.lab; a package's __init__.py is the package."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def marked_files(folder: Path, marked: str) -> set[str]:
    """Return the test files with tests that pytest's option -m `marked` selects."""
    pytest = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", marked)
    environment = os.environ | {"PYTHONPATH": str(folder.resolve())}
    listed = subprocess.run(pytest, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    return {line.partition("::")[0] for line in listed.splitlines() if "::" in line}


def chosen_tests(path: str, imported: dict[str, set[str]], most: int = MOST) -> list[str]:
    """Return the test files in `imported` for a broken `path`, the nearest first, `most` at most."""
    known, wanted, farness = [], {module_name(Path(path))}, _farness(path)
    for distance in range(3):
        near = sorted((file for file, names in imported.items() if names & wanted), key=farness)
        known += [file for file in near if Path(file).name.startswith("test_")]
        wanted |= {module_name(Path(file)) for file in near if not Path(file).name.startswith("test_")}
        if not distance:
            mirror = Path("tests", path).parent
            known += sorted((file for file in imported if Path(file).parent == mirror), key=farness)
    # Kernels are loaded by file name, and an engine or an export runs in a separate process: no import leads there.
    farness = _farness(path, {"app", "compute", "labs"})
    known += sorted((file for file in imported if farness(file)[0]), key=farness)
    return [file for file in dict.fromkeys(known) if re.match(r"tests/(?!browser/)(.*/)?test_", file)][:most]


def chosen_in_a_browser(path: str, imported: dict[str, set[str]]) -> list[str]:
    """Return the tests in a browser for a broken `path`: NEAREST at most by name, then those of the whole page."""
    farness = _farness(path, {"app", "compute"})
    near = (file for file in imported if file.startswith("tests/browser/test_") and farness(file)[0])
    whole_page = (file for file in WHOLE_PAGE if file in imported)
    return list(dict.fromkeys((*sorted(near, key=farness)[:NEAREST], *whole_page)))


def _farness(path: str, common: Set[str] = frozenset()) -> Callable[[str], tuple[int, str]]:
    """Return the sort key of tests for a broken `path`: first those that share most words with it."""
    words = set(re.split(r"[/._]", path.removesuffix(".py"))) - common
    return lambda file: (-len(words & set(re.split(r"[/._]", file.removesuffix(".py")))), file)


class Copy:
    """A copy of the project in which one process breaks and restores files."""

    def __init__(self, folder: Path, number: int, marked: str) -> None:
        self.options = *f"-x -q -n 0 -p no:cacheprovider --no-header -o timeout={HANGS} -m".split(), marked
        self.root = folder.with_name(f"{folder.name}.{number}")
        shutil.rmtree(self.root, ignore_errors=True)  # a killed run left its file broken
        shutil.copytree(folder, self.root, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".gpu*"))
        self.environment = os.environ | {
            "PYTHONPATH": str(self.root), "NUMBA_CACHE_DIR": f"{self.root}.numba", "PYTHONDONTWRITEBYTECODE": "",
        }  # fmt: skip

    def run(self, tests: list[str]) -> tuple[str, str]:
        """Return "passed", "failed" or "hangs", and the first failed test; "" if pytest could not begin."""
        pytest = (sys.executable, "-m", "pytest", *self.options)
        ended = subprocess.run(
            ["timeout", "--kill-after", "5", str(LIMIT), *pytest, *tests], cwd=self.root, env=self.environment,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if ended.returncode in (0, 5):
            return "passed", ""
        if ended.returncode in (124, 137):
            return "hangs", ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\S+?(?:\[.*?\])?)?)(?: - |$)", ended.stdout, re.MULTILINE)
        return "failed", failed[1] if failed else ""

    def judge(self, place: Place, tests: list[str]) -> tuple[str, str]:
        """Return whether the broken place was detected, and by which test."""
        file = self.root / place.path
        spared: list[str] = []  # tests that also fail in the unbroken copy
        source = file.read_bytes()
        while True:
            file.write_bytes(source[: place.start] + place.text.encode() + source[place.end :])
            try:
                said, by = self.run([*tests, *(f"--deselect={test}" for test in spared)])
            finally:
                file.write_bytes(source)
            if said != "failed":
                return said, by
            if self.run([by] if by else [*tests, "--collect-only"])[0] == "passed":
                return "noticed", by
            if not by or by in spared:
                raise RuntimeError(f"pytest fails in the unbroken copy: {by or tests}")
            spared.append(by)


def main() -> None:
    """Break the places, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--group", action="append", required=True, help="name=path,path")
    parser.add_argument("--count", type=int, default=15)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", type=Path, metavar="FILE", help="printed before with the same options")
    parser.add_argument("--most", type=int, default=MOST, help=f"test files run for a place (default {MOST})")
    parser.add_argument("-m", "--mark", default="not gpu", help="tests run, by their marks (default %(default)r)")
    parser.add_argument("--browser", action="store_true", help="tests in a browser, and no others")
    options = parser.parse_args()
    generator, marked = random.Random(options.seed), marked_files(options.folder, options.mark)
    imported = {
        file: names for file, names in imports(options.folder).items()
        if file in marked or not Path(file).name.startswith("test_")
    }  # fmt: skip
    taken = []
    for group in options.group:
        name, _, paths = group.partition("=")
        taken += generator.sample(places(options.folder, name, paths), options.count)
    generator.shuffle(taken)  # so that a part of them is a fair sample, too
    if options.again:
        lines = map(json.loads, options.again.read_text(encoding="utf-8").splitlines())
        passed = {(line["place"], line["was"]) for line in lines if line["said"] == "passed"}
        taken = [place for place in taken if (f"{place.path}:{place.line}", place.was[:90]) in passed]
    choose = chosen_in_a_browser if options.browser else partial(chosen_tests, most=options.most)
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(options.jobs):
        copies.put(Copy(options.folder, number, options.mark))

    def judged(place: Place) -> None:
        """Judge a place in a free copy."""
        copy, begun = copies.get(), time.monotonic()
        tests = choose(place.path, imported)
        said, by = copy.judge(place, tests) if tests else ("untested", "")
        copies.put(copy)
        line = {
            "group": place.group, "place": f"{place.path}:{place.line}", "was": place.was[:90], "is": place.text[:90],
            "said": said, "by": by, "files": len(tests), "seconds": round(time.monotonic() - begun),
        }  # fmt: skip
        print(json.dumps(line, ensure_ascii=False), flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(judged, taken))


if __name__ == "__main__":
    main()
