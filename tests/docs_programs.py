"""Run the commands and Python programs of one document, in the current folder: `python -m tests.docs_programs`.

stdin: JSON [[kind, text], …] with kind "command" (the arguments of `fieldlab`) or "python" (a file's name).
stdout: JSON [[exit code, output], …]. One process runs all of them, as each start imports for two seconds.

A program that prints the time of a first call, which compiles, fails: `Timing.step_seconds` and its repr raise here.
"""

from __future__ import annotations

import io
import json
import runpy
import shlex
import sys
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from compute.__main__ import main
from compute.measure.timing import Timing

_seconds: Any = Timing.__dict__["step_seconds"].fget
_words = Timing.__repr__


def step_seconds(timing: Timing) -> float:
    """Return the seconds of a step; fail if the call compiled."""
    refuse_first_call(timing)
    return float(_seconds(timing))


def words(timing: Timing) -> str:
    """Return the text of a timing; fail if the call compiled."""
    refuse_first_call(timing)
    return _words(timing)


def refuse_first_call(timing: Timing) -> None:
    """Fail if `timing` is that of a first call."""
    if timing.first_call:
        raise AssertionError("the time of a first call is shown, which holds compilation")


def command(text: str) -> int:
    """Run a command of fieldlab; patterns such as *.json name files."""
    words = [
        name for word in shlex.split(text) for name in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
    ]
    return main(words)


def python(name: str) -> int:
    """Run a program; a warning is an error."""
    shown: Any = Timing
    shown.step_seconds, shown.__repr__ = property(step_seconds), words
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(name, run_name="__main__")
    finally:
        shown.step_seconds, shown.__repr__ = property(_seconds), _words
    return 0


def run(kind: str, text: str) -> tuple[int, str]:
    """Return the exit code and the complete output."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            code = {"command": command, "python": python}[kind](text)
        except Exception:  # noqa: BLE001 - any error of a program in a document
            traceback.print_exc()
            code = 1
    return code, printed.getvalue()


if __name__ == "__main__":
    json.dump([run(kind, text) for kind, text in json.load(sys.stdin)], sys.stdout)
