"""`fieldlab bench`: its options, progress, tables and output files.

A terminal shows a progress bar, other outputs one line per task. The bar is drawn only when the benchmark reports
progress, between two samples: it has no thread that could run during a sample.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Column

from compute.devices.backends import BACKENDS, backend
from compute.files.documents import as_json
from compute.files.files import require_writable, whole
from compute.labs import labs
from compute.machine import machine
from compute.measure import exports, record_comparison, records
from compute.measure.benchmark import Benchmark, benchmark_of
from compute.measure.case import BenchPlan, Option
from compute.measure.exports import trace_document, write_trace
from compute.measure.report import as_record
from compute.measure.run import BenchProgress

OK, DISAGREED = 0, 1  # exit codes
LONGEST_BUDGET = 3600.0  # seconds
WIDTH = 150  # columns of the tables if the output is not a terminal
REDRAW = 0.25  # seconds between two drawings of the bar
SURE = 0.02  # completed fraction of the run from which the time left is estimated
FILES = ("csv", "pyperf", "trace")  # options that name a file in addition to the record


def add_bench(commands: Any, arguments: Sequence[str]) -> None:
    """Add the subcommand `bench`, with the options of the lab that `arguments` names."""
    bench = commands.add_parser("bench", help="check and time every way to compute a lab", allow_abbrev=False)
    bench.add_argument("lab", help="for example diffusion; export: encoders and workers; load: many tabs")
    for option in _own_options(arguments):
        bench.add_argument(f"--{option.name}", type=_list, action="extend", help=option.help)
    bench.add_argument("--backends", type=_list, help=f"some of {','.join(b.name for b in BACKENDS)} (default: all)")
    bench.add_argument("--dtypes", type=_list, help="some of the lab's dtypes (default: all)")
    whole_run = "seconds for the run without compiling, references and data; checks may extend it to 30 (default 60)"
    bench.add_argument("--budget", type=_seconds, default=60.0, help=whole_run)
    bench.add_argument("--json", action="store_true", help="print the record as JSON instead of tables")
    _add_files(bench)
    bench.set_defaults(run=_bench)


def _add_files(bench: argparse.ArgumentParser) -> None:
    """Add the options of `bench` that name a file."""
    bench.add_argument("--csv", type=Path, metavar="FILE", help="write a table, units in the column names")
    bench.add_argument("--pyperf", type=Path, metavar="FILE", help="write every sample for `python -m pyperf stats`")
    bench.add_argument("--trace", type=Path, metavar="FILE", help="write a timeline that ui.perfetto.dev opens")
    bench.add_argument("--compare", type=Path, metavar="FILE", help="show an older record's times next to this run's")
    bench.add_argument(
        "--save", nargs="?", const="", metavar="FILE", help="to assets/timings/<machine>-<lab>.json, or FILE"
    )


def _bench(chosen: argparse.Namespace, command: str) -> int:
    benchmark = benchmark_named(chosen.lab)
    if why := backend("cpu_numba").simulated:  # Numba also measures the copy bandwidth
        raise ValueError(f"nothing can be measured: {why}")
    plan = _plan(chosen, benchmark)
    target = _target(chosen.save, chosen.lab)
    files = {name: path for name in FILES if (path := vars(chosen)[name])}
    _require_apart([*files.values(), target])
    if chosen.compare and chosen.compare.resolve() in {path.resolve() for path in files.values()}:
        raise ValueError(f"--compare names a file that would be overwritten, {chosen.compare.name}")
    old = records.load(chosen.compare) if chosen.compare else None
    if old:
        record_comparison.require_lab(old, chosen.lab)
    with shown(Console(stderr=True)) as progress:
        results = benchmark.run(plan, progress)
    record = as_record(results, plan, command, benchmark)
    compared = record_comparison.compare(old, record, results.rows) if old else None
    if chosen.json:
        printed = record | ({"comparison": compared.as_record()} if compared else {})
        sys.stdout.write(f"{as_json(printed, sys.stdout)}\n")
    else:
        out = Console()
        out = out if out.is_terminal else Console(width=WIDTH)
        benchmark.show(results, out)
        if compared:
            record_comparison.show(compared, benchmark.rate.step, out)
    if target:
        sys.stderr.write(f"saved {records.save(record, target)}\n")
    for name, path in files.items():
        _write(name, path, record, list(exports.series_of_bench(chosen.lab, results, benchmark.rate.step)))
        sys.stderr.write(f"wrote {path}\n")
    if results.interrupted:
        raise type(results.interrupted)("the measurements made so far are kept")
    if not any(row.measurement for row in results.rows):
        why = next((row.reason for row in results.rows if row.reason and row.status != "missing"), "no case fits")
        sys.stderr.write(f"fieldlab: nothing was measured in {chosen.budget:g} s: {why}; a larger --budget may help\n")
        return DISAGREED
    return DISAGREED if any(row.status in ("disagrees", "failed") for row in results.rows) else OK


def _write(option: str, path: Path, record: Mapping[str, Any], series: Sequence[exports.Series]) -> None:
    """Write the file of one of the options in FILES."""
    match option:
        case "csv":
            exports.write_csv(record, path)
        case "pyperf":
            made = exports.pyperf_document(series, record)
            with whole(path) as out:
                json.dump(made, out, ensure_ascii=False, allow_nan=False)
        case _:
            timeline = trace_document(series, record)
            with whole(path) as out:
                write_trace(timeline, out)


def benchmark_named(lab: str) -> Benchmark:
    """Return the benchmark of the lab of that name; ValueError lists the known labs."""
    for known in labs():
        if lab == known.LAB:
            return benchmark_of(known)
    names = ", ".join(sorted(known.LAB for known in labs()))
    raise ValueError(f"lab must be one of {names}, not {lab!r}")


def _plan(chosen: argparse.Namespace, benchmark: Benchmark) -> BenchPlan:
    """Return the plan for the arguments."""
    dtypes = _some_of("--dtypes", chosen.dtypes, benchmark.dtypes) or benchmark.dtypes
    own = {option.name: _parsed(option, vars(chosen)[option.name]) for option in benchmark.options}
    names = _some_of("--backends", chosen.backends, tuple(b.name for b in BACKENDS))
    if names and all(backend(name).missing for name in names):
        absent = map(backend, names)
        reasons = "; ".join(f"{each.name}: {each.missing}. {each.install}".rstrip() for each in absent)
        raise ValueError(f"none of the requested backends is available. {reasons}")
    names = names or tuple(b.name for b in BACKENDS)
    with_gpu = any(backend(name).kind == "gpu" and backend(name).ready for name in names)
    cases, notes = benchmark.fitted(benchmark.cases(own, dtypes, with_gpu), own, with_gpu, chosen.budget)
    return BenchPlan(chosen.lab, tuple(cases), names, chosen.budget, chosen.trace is not None, notes)


def _own_options(arguments: Sequence[str]) -> tuple[Option, ...]:
    """Return the options of the lab that `arguments` names; () for an unknown lab."""
    named = [lab for lab in labs() if arguments[:2] == ["bench", lab.LAB]]
    return benchmark_of(named[0]).options if named else ()


def _parsed(option: Option, texts: list[str] | None) -> tuple[Any, ...]:
    """Return the parsed entries of a lab's own option; () for an omitted option."""
    if texts == []:
        raise ValueError(f"--{option.name}: no {option.name.rstrip('s')} is given")
    try:
        return tuple(option.parse(text) for text in texts or ())
    except ValueError as error:
        raise ValueError(f"--{option.name}: {error}") from error


def _target(save: str | None, lab: str) -> Path | None:
    """Return the path that --save writes to; None without --save."""
    if save is None:
        return None
    if save:
        return Path(save)
    if not (machine.ROOT / "pyproject.toml").is_file():
        raise ValueError("--save: Fieldlab is installed without its source here; name a file: --save FILE.json")
    return records.timings_folder() / f"{machine.slug(machine.machine())}-{lab}.json"


def _require_apart(paths: Sequence[Path | None]) -> None:
    """Raise unless every file is writable and all paths differ."""
    named = [path.resolve() for path in paths if path is not None]
    for path in named:
        if named.count(path) > 1:
            raise ValueError(f"two options name the same file, {path.name}")
    for target in paths:
        if target is not None:
            require_writable(target)


def _some_of(option: str, values: tuple[str, ...] | None, known: Sequence[str]) -> tuple[str, ...]:
    for value in values or ():
        if value not in known:
            raise ValueError(f"{option} must be some of {', '.join(known)}, not {value!r}")
    return tuple(values or ())


def _list(text: str) -> tuple[str, ...]:
    """Return the distinct entries of a list; ";" separates entries that contain commas, such as names of scenes."""
    separator = ";" if ";" in text else ","
    return tuple(dict.fromkeys(part.strip() for part in text.split(separator) if part.strip()))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= LONGEST_BUDGET:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to {LONGEST_BUDGET:.0f}")
    return value


# -- progress


@contextmanager
def shown(console: Console, clock: Callable[[], float] = monotonic) -> Iterator[BenchProgress]:
    """Show progress on `console` until the end of the block."""
    if console.is_terminal:
        with _bar(console) as bar:
            yield ProgressBar(bar, clock)
    else:
        yield ProgressLines(console)


def time_left(elapsed: float, done: float) -> str:
    """Format the time left, extrapolated from the progress so far; "" while too little is done."""
    if done < SURE or done >= 1:
        return ""
    seconds = round(elapsed * (1 - done) / done)
    return f"{seconds // 60}:{seconds % 60:02d} left"


def _bar(console: Console) -> Progress:
    wide = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True))
    columns = wide, BarColumn(30), TaskProgressColumn(), TextColumn("{task.fields[left]}")
    return Progress(*columns, console=console, auto_refresh=False, transient=True, expand=True)


class ProgressBar:
    """A progress bar of rich, redrawn at most every REDRAW seconds unless the text changes."""

    def __init__(self, bar: Progress, clock: Callable[[], float]) -> None:
        self._bar, self._clock, self._start = bar, clock, clock()
        self._task = bar.add_task("starting", total=1.0, left="")
        self._words, self._drawn = "", -REDRAW

    def __call__(self, text: str, done: float | None = None, /) -> None:
        """Show the text and, if given, the fraction done."""
        now = self._clock()
        if text == self._words and now - self._drawn < REDRAW:
            return
        self._words, self._drawn = text, now
        self._bar.update(self._task, description=text)
        if done is not None:
            self._bar.update(self._task, completed=done, left=time_left(now - self._start, done))
        self._bar.refresh()


class ProgressLines:
    """Progress as one line per task."""

    def __init__(self, console: Console) -> None:
        self._console, self._words = console, ""

    def __call__(self, text: str, done: float | None = None, /) -> None:  # noqa: ARG002 a log needs no percentages
        """Print the text if it differs from the previous one."""
        if text != self._words:
            self._words = text
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
