"""The commands `fieldlab try FILE` and `fieldlab learn`.

Exit codes: 0 right; 1 a way or an answer is wrong or failed; 2 the file cannot be tried; 3 no fault was found, but time
ended before every check was done.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any, NoReturn, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from compute.cli.serve_options import port
from compute.export.data_files import plain_cell
from compute.export.link import packed
from compute.export.scene import Scene
from compute.files import documents
from compute.files.files import require_writable, whole
from compute.own import learning, results
from compute.own.exercises import exercise, files, listed
from compute.own.report import as_html, as_json, lines
from compute.own.trial import LONGEST, Options, TrialReport, try_file
from compute.own.verdict import recorded_roofs, reward
from compute.start import become
from compute.ways.catalogue import OWN_FILE
from compute.ways.declaring import LARGEST_N
from compute.ways.workload import DTYPES, own_name

WRONG, BAD_INPUT, UNFINISHED = 1, 2, 3
BUDGET, PORT = 20.0, 5006  # seconds of timing; port of the page
RESULTS = "fieldlab-learn.json"
LOOK = 0.5  # s between checks of a watched file
WATCHED = ("*.py", "*.cu", "*.cuh", "*.h")  # in the folder of the file


def add_try(commands: Any) -> None:
    """Add `try` to the commands."""
    parser = commands.add_parser(
        "try", help="is my kernel right, and from which n on does a GPU pay? FILE is run: only files that you trust"
    )
    parser.add_argument("file", type=Path, help="a Python file with a workload and ways: docs/own_kernel.md")
    parser.add_argument("--sizes", type=_sizes, metavar="LEAST:MOST", help="n to time (default: the file's)")
    parser.add_argument("--dtypes", type=_dtypes, default=(), help=f"of {', '.join(DTYPES)} (default: the file's)")
    parser.add_argument("--budget", type=float, help=f"seconds of timing in all (default {BUDGET:g})")
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds until a way is given up (default 30)")
    seconds = "seconds of checking a way, its first call apart (default 5)"
    parser.add_argument("--check-seconds", type=float, default=5.0, help=seconds)
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default 0)")
    parser.add_argument("--check", action="store_true", help="only whether it is right: no times")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs no network")
    parser.add_argument("--watch", action="store_true", help="do it again whenever the file is saved")
    parser.add_argument("--open", action="store_true", help="then show it on the page, on this machine alone")
    parser.add_argument("--port", type=port, help=f"of the page (default {PORT})")
    parser.set_defaults(run=run_try)


def _sizes(text: str) -> tuple[int, int]:
    least, _, most = text.partition(":")
    try:
        sizes = [float(least), float(most)]
    except ValueError:
        sizes = [nan]
    if not all(1 <= size <= LARGEST_N and size.is_integer() for size in sizes):
        wanted = f"two whole numbers from 1 to {LARGEST_N:,} with a colon, as 100:1e6"
        raise argparse.ArgumentTypeError(f"must be {wanted}, not {text[:40]!r}")
    return int(sizes[0]), int(sizes[1])


def _dtypes(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def run_try(chosen: argparse.Namespace, _command: str) -> int:
    """Try the file once, or after each save with --watch; return the exit code."""
    _require_request(chosen)
    options = Options(
        chosen.file, chosen.sizes, chosen.dtypes, deadline=chosen.deadline, check_seconds=chosen.check_seconds,
        budget=BUDGET if chosen.budget is None else chosen.budget, seed=chosen.seed, timed=not chosen.check,
    )  # fmt: skip
    if chosen.open and chosen.watch:
        raise ValueError("--open and --watch exclude each other: the page shows the file as it was when it was opened")
    saved = _saved(chosen.file)  # read before the trial: a save during the trial starts the next one
    report = _once(options, chosen)
    if chosen.open and report.dtypes:  # a file without dtypes was refused
        show_on_page(chosen.file, report.dtypes[0], chosen.port or PORT)
    while chosen.watch:
        saved = _saved_anew(chosen.file, saved)
        report = _once(options, chosen)
    if report.refused:
        return BAD_INPUT
    return 0 if report.right else UNFINISHED if report.unfinished else WRONG


def _require_request(chosen: argparse.Namespace) -> None:
    """Raise ValueError for options without effect, and if the HTML page cannot be written."""
    for option in ("sizes", "budget"):
        if chosen.check and vars(chosen)[option] is not None:
            raise ValueError(f"--{option} has no effect with --check, which takes no times: leave one of them out")
    if chosen.port is not None and not chosen.open:
        raise ValueError("--port has no effect without --open: leave it out")
    if chosen.html:
        if chosen.html.resolve() == chosen.file.resolve():
            raise ValueError(f"--html would overwrite the file itself, {chosen.file}: take another name")
        require_writable(chosen.html)


def _once(options: Options, chosen: argparse.Namespace) -> TrialReport:
    with _progress(sys.stderr) as console:
        report = try_file(options, console)
    show(report, as_json_text=chosen.json)
    if chosen.html:
        source = options.path.read_text(encoding="utf-8", errors="replace") if options.path.is_file() else ""
        with whole(chosen.html) as out:
            out.write(as_html(report, source))
    return report


def show_on_page(path: Path, dtype: str, port: int) -> NoReturn:
    """Replace this process by a server on localhost that offers the file as a workload."""
    if find_spec("app") is None:
        raise ValueError("the package app is not installed: install fieldlab")
    os.environ[OWN_FILE] = str(path.resolve())
    scene = Scene("crossover", {"workload": own_name(path), "dtype": dtype})
    own = ["--address", "localhost", "--port", str(port), "--show", f"?scene={packed(scene)}", "--browser"]
    sys.stdout.flush()
    become("app.server.serve", *own)


# -- exercises


def add_learn(commands: Any) -> None:
    """Add `learn` to the commands."""
    parser = commands.add_parser("learn", help="ten exercises from array + 1 to streams; no GPU is needed")
    parser.add_argument(
        "--exercises", action="append", type=Path, default=[], metavar="FOLDER",
        help="folder of further exercises, such as a course's; their checks are run",
    )  # fmt: skip
    parser.set_defaults(run=_list)
    what = parser.add_subparsers(metavar="start | check | report")
    start = what.add_parser("start", help="write the files with their gaps into a folder")
    start.add_argument("folder", type=Path, nargs="?", default=Path(), help="default: here")
    start.set_defaults(run=_start)
    check = what.add_parser("check", help="is the answer in FILE right? FILE is run")
    check.add_argument("file", type=Path, help="its name says which exercise it is: tile.py")
    check.add_argument("--student", required=True, help="your name, on which the hidden inputs depend")
    check.add_argument("--result", type=Path, default=Path(RESULTS), help=f"the file of results (default {RESULTS})")
    check.add_argument("--deadline", type=float, default=30.0, help="seconds after which it is given up (default 30)")
    check.set_defaults(run=_check)
    report = what.add_parser("report", help="a table of many students' files of results")
    report.add_argument("files", type=Path, nargs="+")
    report.add_argument("--csv", type=Path, metavar="FILE", help="write it as CSV")
    report.set_defaults(run=_report)


def _list(chosen: argparse.Namespace, _command: str) -> int:
    files.name_folders(chosen.exercises)
    for number, one in enumerate(listed(), start=1):
        _say(f"{number:2}  {one.name:12} {one.title}")
    _say("fieldlab learn start; then fieldlab learn check add_one.py --student NAME")
    return 0


def _say(text: str) -> None:
    Console(soft_wrap=True, highlight=False).print(Text(text))


def _start(chosen: argparse.Namespace, _command: str) -> int:
    files.name_folders(chosen.exercises)
    for one in listed():
        path = chosen.folder / f"{one.name}.py"
        if path.exists():
            _say(f"{path} exists already and is unchanged")
            continue
        with whole(path) as out:
            out.write(one.text)
    _say(f"fill the gaps in {', '.join(f'{one.name}.py' for one in listed())}")
    return 0


def _check(chosen: argparse.Namespace, _command: str) -> int:
    files.name_folders(chosen.exercises)
    student = chosen.student.strip()
    if not 0 < len(student) <= results.LONGEST_NAME:
        raise ValueError(f"student must have 1 to {results.LONGEST_NAME} characters, not {len(student)}")
    if not 0 < chosen.deadline <= LONGEST:
        raise ValueError(f"deadline must be more than 0 and at most {LONGEST:g} seconds, not {chosen.deadline}")
    answer = learning.check_answer(chosen.file, chosen.file.stem, student, chosen.deadline)
    _say(f"{answer.exercise}: {answer.text}.")
    if answer.passed and (said := reward(exercise(answer.exercise), recorded_roofs())):
        _say(said)
    saved = results.save_answer(chosen.result, student, answer)
    right = sum(one.passed for one in saved.exercises.values())
    _say(f"{right} of {len(listed())} are right; {chosen.result.name} says so")
    return 0 if answer.passed else WRONG


def _report(chosen: argparse.Namespace, _command: str) -> int:
    files.name_folders(chosen.exercises)
    every, bad = [], 0
    if chosen.csv:
        if chosen.csv.resolve() in {path.resolve() for path in chosen.files}:
            raise ValueError(f"--csv would overwrite results, {chosen.csv}: take another name")
        require_writable(chosen.csv)
    for path in chosen.files:
        try:
            every.append(results.load_results(path))
        except results.ResultsRefused as error:
            sys.stderr.write(f"fieldlab: {error}\n")
            bad += 1
    head, *rows = results.table(every)
    shown = Table(*head)
    for row in rows:
        shown.add_row(*map(Text, row))
    Console(soft_wrap=True, highlight=False).print(shown)
    if chosen.csv:
        with whole(chosen.csv) as out:
            csv.writer(out).writerows([head, *([plain_cell(cell) for cell in row] for row in rows)])
    return BAD_INPUT if bad else 0


def show(report: TrialReport, *, as_json_text: bool) -> None:
    """Print the report."""
    if as_json_text:
        sys.stdout.write(f"{documents.as_json(as_json(report), sys.stdout)}\n")
        return
    console = Console(soft_wrap=True, highlight=False)
    for line in lines(report):
        console.print(Text(line))


class _progress:  # noqa: N801 - used as a function
    """Show the current step on one line of a terminal; a pipe or file gets no output."""

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


def _saved_anew(path: Path, before: Mapping[str, int]) -> dict[str, int]:
    """Wait until the file, or a source in its folder, was saved after `before`; return the modification times in ns."""
    while (now := _saved(path)) == before:
        time.sleep(LOOK)
    return now


def _saved(path: Path) -> dict[str, int]:
    """Return the modification times of the sources in the file's folder, in ns by name."""
    found = {}
    for pattern in WATCHED:
        for one in path.parent.glob(pattern):
            try:
                found[one.name] = one.stat().st_mtime_ns
            except OSError:  # an editor is replacing it
                continue
    return found
