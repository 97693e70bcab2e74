"""The texts of the exercises: the ten of this folder, then those of a teacher's folders, of which nothing runs here.

An exercise NAME of a folder consists of two files. `NAME.py.txt` is what a student gets: a Python file whose docstring
has the title in its first line, with a gap between `# -- your code` and `# -- end`, and a function `solve`.
`NAME.check.py` has the hidden part, which only `fieldlab learn check` runs, on the student's computer:

    def inputs(n, rng):            the arrays of size n, float32 or int32
    def reference(*arrays):        the expected result, or None after changing its inputs
    LARGE = 130, 400               optional: range of the largest hidden n
    ON = "device"                  optional: memory of the arrays that `solve` receives, "device" or "host"
    def demand(launches, streams, n):    optional: the unmet demand as text, or ""

The folders are those of `fieldlab learn --exercises FOLDER` and `fieldlab serve --exercises FOLDER`, or of the
environment variable FIELDLAB_EXERCISES.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

HERE = Path(__file__).parent
VARIABLE = "FIELDLAB_EXERCISES"
RESULTS = "FIELDLAB_RESULTS"  # environment variable: a file of results, which the page shows
TEXT, CHECK = ".py.txt", ".check.py"
BEGIN, END = "# -- your code", "# -- end"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
MOST, LONGEST, LONGEST_TITLE = 100, 2**16, 100  # exercises in a folder; characters of a text, and of a title


@dataclass(frozen=True)
class ExerciseText:
    """An exercise as a student sees it. folder: of its files."""

    name: str
    title: str
    _: KW_ONLY
    folder: Path = HERE

    @property
    def text(self) -> str:
        """Return the text of the file with its gap."""
        return (self.folder / f"{self.name}{TEXT}").read_text(encoding="utf-8")


def name_folders(folders: Iterable[Path]) -> None:
    """Make the exercises in `folders` known to this process and its child processes, after folders named earlier.

    Raise ValueError for a missing folder, an invalid exercise, and a name that exists already.
    """
    named = [*named_folders(), *(folder.resolve() for folder in folders)]
    for folder in named:
        if os.pathsep in str(folder):
            raise ValueError(f"the path of the folder {folder} must not contain {os.pathsep!r}")
    named = list(dict.fromkeys(named))
    known = {path.name.removesuffix(TEXT) for path in HERE.glob(f"*{TEXT}")}
    for one in (one for folder in named for one in texts_in(folder)):
        if one.name in known:
            raise ValueError(f"{one.folder / one.name}{TEXT}: an exercise of this name exists already")
        known.add(one.name)
    if named:
        os.environ[VARIABLE] = os.pathsep.join(map(str, named))


def named_folders() -> list[Path]:
    """Return the folders of the environment variable."""
    return [Path(path).resolve() for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]


def texts_in(folder: Path) -> list[ExerciseText]:
    """Return the exercises in a teacher's folder by name. Raise ValueError for an invalid one, or none."""
    if not folder.is_dir():
        raise ValueError(f"the folder of exercises {folder} does not exist")
    paths = sorted(folder.glob(f"*{TEXT}"))
    if not 0 < len(paths) <= MOST:
        raise ValueError(f"the folder {folder} must have 1 to {MOST} exercises, files *{TEXT}, not {len(paths)}")
    return [_read(path) for path in paths]


def _read(path: Path) -> ExerciseText:
    name = path.name.removesuffix(TEXT)
    if not NAME.fullmatch(name):
        raise ValueError(f"{path}: its name must have lower-case letters, digits and _ only, at most 40")
    if not path.with_name(f"{name}{CHECK}").is_file():
        raise ValueError(f"{path}: {name}{CHECK} must be in the same folder; see docs/own_kernel.md")
    if path.stat().st_size > LONGEST:
        raise ValueError(f"{path} must have at most {LONGEST} bytes, not {path.stat().st_size}")
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        title = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path} must be Python: {error}") from error
    if not 0 < len(title) <= LONGEST_TITLE:
        raise ValueError(f"{path}: the first line of its docstring must be a title of 1 to {LONGEST_TITLE} characters")
    if (text.count(BEGIN), text.count(END)) != (1, 1) or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{path} must have one gap, from {BEGIN!r} to {END!r}")
    return ExerciseText(name, title.rstrip("."), folder=path.parent)
