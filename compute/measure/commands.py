"""`fieldlab bench`: its options, its progress, its tables and the files that it writes.

On a terminal a bar shows how it gets on, elsewhere a line for each thing begun. The bar is drawn when the bench says
something, which it does between samples: no thread of it runs while one is taken.
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

from compute import machine
from compute.backends import BACKENDS, backend
from compute.documents import as_json
from compute.files import require_writable, whole
from compute.labs import labs
from compute.measure import exports, record_comparison, records
from compute.measure.benchmark import Benchmark
from compute.measure.case import BenchPlan, Option
from compute.measure.exports import trace_document, write_trace
from compute.measure.report import as_record
from compute.measure.run import BenchProgress

OK, DISAGREED = 0, 1  # exit codes
LONGEST_BUDGET = 3600.0  # seconds
WIDTH = 150  # columns of the tables where the output is no terminal
REDRAW = 0.25  # seconds between two drawings of the bar
SURE = 0.02  # part that must be done before the time left is guessed
FILES = ("csv", "pyperf", "trace")  # options that name a file beside the record


def add_bench(commands: Any, arguments: Sequence[str]) -> None:
    """Add the subcommand `bench`; the options of the lab that is to be benched are known once its name is."""
    bench = commands.add_parser("bench", help="check and time every way to compute a lab", allow_abbrev=False)
    bench.add_argument("lab", help="for example diffusion; export: encoders and workers; load: many tabs")
    for option in _own_options(arguments):
        bench.add_argument(f"--{option.name}", type=_list, help=option.help)
    bench.add_argument("--backends", type=_list, help=f"some of {','.join(b.name for b in BACKENDS)} (default: all)")
    bench.add_argument("--dtypes", type=_list, help="some of the lab's dtypes (default: all)")
    whole_run = (
        "seconds for the run, without compiling, references and data; one that needs it takes up to 30 (default 60)"
    )
    bench.add_argument("--budget", type=_seconds, default=60.0, help=whole_run)
    bench.add_argument("--json", action="store_true", help="print the record as JSON instead of tables")
    _add_files(bench)
    bench.set_defaults(run=_bench)


def _add_files(bench: argparse.ArgumentParser) -> None:
    """The options of `bench` that name a file."""
    bench.add_argument("--csv", type=Path, metavar="FILE", help="write a table, units in the column names")
    bench.add_argument("--pyperf", type=Path, metavar="FILE", help="write every sample for `python -m pyperf stats`")
    bench.add_argument("--trace", type=Path, metavar="FILE", help="write a timeline that ui.perfetto.dev opens")
    bench.add_argument("--compare", type=Path, metavar="FILE", help="show an older record's times beside this run's")
    bench.add_argument(
        "--save", nargs="?", const="", metavar="FILE", help="to assets/timings/<machine>-<lab>.json, or FILE"
    )


def _bench(chosen: argparse.Namespace, command: str) -> int:
    benchmark = benchmark_named(chosen.lab)
    if why := backend("cpu_numba").simulated:  # which also copies, for the copy bandwidth
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
        raise type(results.interrupted)("what was measured before it is kept")
    if not any(row.measurement for row in results.rows):
        why = next((row.reason for row in results.rows if row.reason and row.status != "missing"), "no case fits")
        sys.stderr.write(f"fieldlab: nothing was measured in {chosen.budget:g} s: {why}; a larger --budget may help\n")
        return DISAGREED
    return DISAGREED if any(row.status in ("disagrees", "failed") for row in results.rows) else OK


def _write(option: str, path: Path, record: Mapping[str, Any], series: Sequence[exports.Series]) -> None:
    """Write one of FILES."""
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
    """Return how the lab of that name is measured; ValueError names the labs there are."""
    for known in labs():
        if lab == known.LAB:
            return known.benchmark()
    names = ", ".join(sorted(known.LAB for known in labs()))
    raise ValueError(f"there is nothing to bench in a lab called {lab!r}; there is in: {names}")


def _plan(chosen: argparse.Namespace, benchmark: Benchmark) -> BenchPlan:
    """Return the plan that the arguments ask for."""
    dtypes = _some_of("--dtypes", chosen.dtypes, benchmark.dtypes) or benchmark.dtypes
    own = {option.name: _parsed(option, vars(chosen)[option.name]) for option in benchmark.options}
    names = _some_of("--backends", chosen.backends, tuple(b.name for b in BACKENDS))
    if names and all(backend(name).missing for name in names):
        reasons = "; ".join(f"{name}: {backend(name).missing}. {backend(name).install}" for name in names)
        raise ValueError(f"none of the backends asked for is here. {reasons}")
    names = names or tuple(b.name for b in BACKENDS)
    with_gpu = any(backend(name).device == "cuda" and not backend(name).missing for name in names)
    cases, notes = benchmark.fitted(benchmark.cases(own, dtypes, with_gpu), own, with_gpu, chosen.budget)
    return BenchPlan(chosen.lab, tuple(cases), names, chosen.budget, chosen.trace is not None, notes)


def _own_options(arguments: Sequence[str]) -> tuple[Option, ...]:
    """Return the options of the lab that is to be benched; none if it is not there."""
    named = [lab for lab in labs() if arguments[:2] == ["bench", lab.LAB]]
    return named[0].benchmark().options if named else ()


def _parsed(option: Option, texts: tuple[str, ...] | None) -> tuple[Any, ...]:
    """The entries of a lab's own option; () where it was not given."""
    if texts == ():
        raise ValueError(f"--{option.name}: no {option.name.rstrip('s')} is given")
    try:
        return tuple(option.parse(text) for text in texts or ())
    except ValueError as error:
        raise ValueError(f"--{option.name}: {error}") from error


def _target(save: str | None, lab: str) -> Path | None:
    """Where --save writes; None without it."""
    if save is None:
        return None
    if save:
        return Path(save)
    if not (machine.ROOT / "pyproject.toml").is_file():
        raise ValueError("--save: Fieldlab is installed without its source here; name a file: --save FILE.json")
    return records.timings_folder() / f"{machine.slug(machine.machine())}-{lab}.json"


def _require_apart(paths: Sequence[Path | None]) -> None:
    """Every file can be written, and no two are the same."""
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
    """Return the entries of a list once each; ";" separates entries with commas in them, as names of scenes have."""
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


# -- how it gets on


@contextmanager
def shown(console: Console, clock: Callable[[], float] = monotonic) -> Iterator[BenchProgress]:
    """Show progress on `console` until the end of the block."""
    if console.is_terminal:
        with _bar(console) as bar:
            yield ProgressBar(bar, clock)
    else:
        yield ProgressLines(console)


def time_left(elapsed: float, done: float) -> str:
    """The time left in words, from the pace so far; empty as long as that tells too little."""
    if done < SURE or done >= 1:
        return ""
    seconds = round(elapsed * (1 - done) / done)
    return f"{seconds // 60}:{seconds % 60:02d} left"


def _bar(console: Console) -> Progress:
    wide = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True))
    columns = wide, BarColumn(30), TaskProgressColumn(), TextColumn("{task.fields[left]}")
    return Progress(*columns, console=console, auto_refresh=False, transient=True, expand=True)


class ProgressBar:
    """A bar of rich, drawn anew at most every REDRAW seconds unless the words change."""

    def __init__(self, bar: Progress, clock: Callable[[], float]) -> None:
        self._bar, self._clock, self._start = bar, clock, clock()
        self._task = bar.add_task("starting", total=1.0, left="")
        self._words, self._drawn = "", -REDRAW

    def __call__(self, text: str, done: float | None = None, /) -> None:
        """Show it."""
        now = self._clock()
        if text == self._words and now - self._drawn < REDRAW:
            return
        self._words, self._drawn = text, now
        self._bar.update(self._task, description=text)
        if done is not None:
            self._bar.update(self._task, completed=done, left=time_left(now - self._start, done))
        self._bar.refresh()


class ProgressLines:
    """What is done, a line each."""

    def __init__(self, console: Console) -> None:
        self._console, self._words = console, ""

    def __call__(self, text: str, done: float | None = None, /) -> None:  # noqa: ARG002 a log needs no percentages
        """Say it once."""
        if text != self._words:
            self._words = text
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
