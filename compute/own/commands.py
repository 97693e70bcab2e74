"""The command `fieldlab try FILE`. Exit codes: 0 right; 1 a way is wrong or failed; 2 the file cannot be tried."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from compute.files import whole
from compute.labs.crossover.workload import DTYPES
from compute.own.report import as_html, as_json, lines
from compute.own.trial import Options, Report, try_file

WRONG, BAD_INPUT = 1, 2
LOOK = 0.5  # s between two looks at a watched file
WATCHED = ("*.py", "*.cu", "*.cuh", "*.h")  # beside the file


def add_try(commands: Any) -> None:
    """Add `try` to the commands."""
    parser = commands.add_parser(
        "try", help="is my kernel right, and from which n on does a GPU pay? FILE is run: only files that you trust"
    )
    parser.add_argument("file", type=Path, help="a Python file with a workload and ways: docs/own_kernel.md")
    parser.add_argument("--sizes", type=_sizes, metavar="LEAST:MOST", help="n to time (default: the file's)")
    parser.add_argument("--dtypes", type=_dtypes, default=(), help=f"of {', '.join(DTYPES)} (default: the file's)")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of timing in all (default 20)")
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds until a way is given up (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default 0)")
    parser.add_argument("--check", action="store_true", help="only whether it is right: no times")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs no network")
    parser.add_argument("--watch", action="store_true", help="do it again whenever the file is saved")
    parser.set_defaults(run=run_try)


def _sizes(text: str) -> tuple[int, int]:
    least, _, most = text.partition(":")
    try:
        return int(float(least)), int(float(most))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be two numbers with a colon, as 100:1e6, not {text!r}") from error


def _dtypes(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def run_try(chosen: argparse.Namespace, _command: str) -> int:
    """Try the file once, or whenever it is saved; return the exit code."""
    options = Options(
        chosen.file, chosen.sizes, chosen.dtypes, budget=chosen.budget, deadline=chosen.deadline, seed=chosen.seed,
        timed=not chosen.check,
    )  # fmt: skip
    code = _once(options, chosen)
    while chosen.watch:
        _wait_for_change(chosen.file)
        code = _once(options, chosen)
    return code


def _once(options: Options, chosen: argparse.Namespace) -> int:
    with _progress(sys.stderr) as console:
        report = try_file(options, console)
    show(report, as_json_text=chosen.json)
    if chosen.html:
        source = options.path.read_text(encoding="utf-8", errors="replace") if options.path.is_file() else ""
        with whole(chosen.html) as out:
            out.write(as_html(report, source))
    if report.refused:
        return BAD_INPUT
    return 0 if report.right else WRONG


def show(report: Report, *, as_json_text: bool) -> None:
    """Print the report."""
    if as_json_text:
        sys.stdout.write(json.dumps(as_json(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        return
    console = Console(soft_wrap=True, highlight=False)
    for line in lines(report):
        console.print(Text(line))


class _progress:  # noqa: N801 - used as a function
    """Shows what is being done on one line, where that is a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._shown = out, out.isatty()

    def __enter__(self) -> Callable[[str], None]:
        return self._tell

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def _tell(self, text: str) -> None:
        if self._shown:
            self._out.write(f"\r\x1b[K{text} …")
            self._out.flush()


def _wait_for_change(path: Path) -> None:
    """Return when the file, or a source beside it, has been saved."""
    before = _saved(path)
    while _saved(path) == before:
        time.sleep(LOOK)


def _saved(path: Path) -> dict[str, int]:
    found = {}
    for pattern in WATCHED:
        for one in path.parent.glob(pattern):
            try:
                found[one.name] = one.stat().st_mtime_ns
            except OSError:  # an editor is just replacing it
                continue
    return found
