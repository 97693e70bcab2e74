"""The command line: `fieldlab serve | info | bench | render | sweep`, the same as `python -m compute`.

Every command takes `--lab FOLDER`, once or more often: a lab from outside this repository (plugins.py).

Exit codes: 0 done; 1 a way disagreed with the reference or failed; 2 bad input or something missing; 130 interrupted;
143 told to end (SIGTERM).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from compute import info, machine, plugins, record
from compute.backends import BACKENDS, BackendUnavailable, backend
from compute.export import benchmark as export_benchmark
from compute.export import commands as export_commands
from compute.labs import outside
from compute.plugins import PluginError

FILES = ("--lab", "--save", "--csv", "--pyperf", "--trace", "--compare", "--out")  # options whose value is a path
OK, DISAGREED, BAD_INPUT, INTERRUPTED, ENDED = 0, 1, 2, 130, 143
LONGEST_BUDGET = 3600.0  # seconds
WIDTH = 150  # columns of the tables where the output is no terminal


class InputError(Exception):
    """Something the user can put right; the text says what and how."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with `argv` (default: the process's own); returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        given, rest = _lab_option().parse_known_args(arguments)
        _find_labs(given.folders)
        chosen = _parser(rest).parse_args(rest)
    except SystemExit as stop:  # argparse has printed the help, or what is wrong
        return int(stop.code or 0)
    except PluginError as error:
        print(f"fieldlab: {error}", file=sys.stderr)
        return BAD_INPUT
    try:
        with _ending_in_order():
            return int(chosen.run(chosen, shlex.join(["fieldlab", *without_paths(arguments)])))
    except (InputError, ValueError, BackendUnavailable, OSError) as error:
        print(f"fieldlab: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as stop:
        print(f"fieldlab: interrupted; {stop or 'nothing was saved'}", file=sys.stderr)
        return ENDED if isinstance(stop, Terminated) else INTERRUPTED


class Terminated(KeyboardInterrupt):
    """SIGTERM: to be left as by Ctrl-C, so that nothing half-done stays behind."""


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Make SIGTERM an exception in the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def without_paths(arguments: Sequence[str]) -> list[str]:
    """The arguments as a record keeps them: of a file its name alone, not where it lies on this machine."""
    out = list(arguments)
    for at, text in enumerate(out):
        name, equals, value = text.partition("=")
        if name in FILES and equals:
            out[at] = f"{name}={Path(value).name}"
        elif at and out[at - 1] in FILES and not text.startswith("-"):
            out[at] = Path(text).name
    return out


def _lab_option() -> argparse.ArgumentParser:
    """Of every command: read first, since what the others take depends on which labs there are."""
    option = argparse.ArgumentParser(prog="fieldlab", add_help=False, allow_abbrev=False)
    option.add_argument(
        "--lab", dest="folders", action="append", type=Path, default=[], metavar="FOLDER",
        help=f"a folder with a further lab: {', '.join(plugins.NEEDED)}",
    )  # fmt: skip
    return option


def _find_labs(folders: Sequence[Path]) -> None:
    """Let this command and its processes know the labs in `folders`; PluginError for one that cannot be used.

    Of others, which the environment or an installed package names, it is only said that they are not there.
    """
    plugins.name_folders(folders)
    asked = {str(folder.resolve()) for folder in folders}
    for problem in outside().problems:
        if problem.where in asked:
            raise PluginError(str(problem))
        print(f"fieldlab: {problem}", file=sys.stderr)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fieldlab", description="Live GPU computing for lectures.", parents=[_lab_option()]
    )
    commands = parser.add_subparsers(required=True, metavar="serve | info | bench | render | sweep")
    serve = commands.add_parser("serve", help="the page, as `panel serve app` does, with the labs of --lab")
    serve.add_argument("--port", type=int, default=5006, help="default 5006")
    serve.add_argument("--address", default="localhost", help="to listen on (default localhost)")
    serve.add_argument(
        "--origin", action="append", default=[], metavar="HOST:PORT", help="by which browsers may open it, beside that"
    )
    serve.set_defaults(run=_serve)
    about = commands.add_parser("info", help="machine, driver, versions, and why a backend is absent")
    about.add_argument("--json", action="store_true", help="as JSON")
    about.set_defaults(run=_info)
    if arguments[:2] == ["bench", export_benchmark.NAME]:
        export_benchmark.add(commands)
    else:
        _add_bench(commands, arguments)
    export_commands.add_render(commands)
    export_commands.add_sweep(commands)
    return parser


def _add_bench(commands: Any, arguments: Sequence[str]) -> None:
    bench = commands.add_parser("bench", help="check and time every way to compute a lab", allow_abbrev=False)
    bench.add_argument("lab", help="for example diffusion; or export: encoders and workers")
    for option in _own_options(arguments):
        bench.add_argument(f"--{option.name}", type=_list, help=option.help)
    bench.add_argument("--backends", type=_list, help=f"some of {','.join(b.name for b in BACKENDS)} (default: all)")
    bench.add_argument("--dtypes", type=_list, help="some of the lab's dtypes (default: all)")
    bench.add_argument("--budget", type=_seconds, default=60.0, help="seconds of sampling in all (default 60)")
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


def _serve(chosen: argparse.Namespace, _command: str) -> int:
    """Become the server: its signals, its log and its exit code are then the command's."""
    app = find_spec("app")
    if app is None or not app.submodule_search_locations:
        raise InputError("the package app is not installed: install fieldlab")
    origins = [f"localhost:{chosen.port}", *chosen.origin] if chosen.origin else []  # naming one replaces the default
    named = [part for origin in origins for part in ("--allow-websocket-origin", origin)]
    folder = app.submodule_search_locations[0]
    own = ["--address", chosen.address, "--port", str(chosen.port), *named]
    os.execv(sys.executable, [sys.executable, "-m", "panel", "serve", folder, *own])  # noqa: S606 - no shell is meant


def _info(chosen: argparse.Namespace, _command: str) -> int:
    found = info.facts()
    if chosen.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        info.show(found, Console(soft_wrap=True))
    return OK


def _bench(chosen: argparse.Namespace, command: str) -> int:
    from compute.bench import compare, exports, progress, report, run, tables

    plan, work = _plan(chosen)
    target = _target(chosen.save, chosen.lab)
    files = {name: getattr(chosen, name) for name in exports.WRITERS if getattr(chosen, name)}
    _require_apart([*files.values(), target])
    old = record.load(chosen.compare) if chosen.compare else None
    if old:
        compare.require_lab(old, chosen.lab)
    with progress.shown(Console(stderr=True)) as say:
        results = run.Bench(plan, say).run()
    document = report.as_record(results, plan, command, work)
    compared = compare.compare(old, document, results.rows) if old else None
    if chosen.json:
        printed = document | ({"comparison": compared.as_record()} if compared else {})
        print(json.dumps(printed, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        out = Console()
        out = out if out.is_terminal else Console(width=WIDTH)
        tables.show(results, work, out)
        if compared:
            compare.show(compared, work.RATE.step, out)
    if target:
        print(f"saved {record.save(document, target)}", file=sys.stderr)
    for name, path in files.items():
        exports.WRITERS[name](document, results, work, path)
        print(f"wrote {path}", file=sys.stderr)
    return DISAGREED if any(row.status in ("disagrees", "failed") for row in results.rows) else OK


def _plan(chosen: argparse.Namespace) -> tuple[Any, Any]:
    """The plan that the arguments ask for, and the lab's workload."""
    from compute.bench.rows import Plan
    from compute.bench.workload import workload_of

    work = workload_of(chosen.lab)
    dtypes = _some_of("--dtypes", chosen.dtypes, work.DTYPES) or work.DTYPES
    own = {option.name: _parsed(option, getattr(chosen, option.name)) for option in work.OPTIONS}
    names = _some_of("--backends", chosen.backends, tuple(b.name for b in BACKENDS))
    if names and all(backend(name).missing for name in names):
        reasons = "; ".join(f"{name}: {backend(name).missing}. {backend(name).install}" for name in names)
        raise InputError(f"none of the backends asked for is here. {reasons}")
    names = names or tuple(b.name for b in BACKENDS)
    with_gpu = any(backend(name).device == "cuda" and not backend(name).missing for name in names)
    cases = tuple(work.cases(own, dtypes, with_gpu))
    return Plan(chosen.lab, cases, names, chosen.budget, listen=chosen.trace is not None), work


def _own_options(arguments: Sequence[str]) -> tuple[Any, ...]:
    """The options of the lab that is to be benched: they are known once its name is."""
    from compute.bench.workload import has_workload, workload_of

    named = [text for text in arguments[1:2] if arguments[0] == "bench" and has_workload(text)]
    return workload_of(named[0]).OPTIONS if named else ()


def _parsed(option: Any, texts: tuple[str, ...] | None) -> tuple[Any, ...]:
    """The entries of a lab's own option; () where it was not given."""
    if texts == ():
        raise InputError(f"--{option.name}: no {option.name.rstrip('s')} is given")
    try:
        return tuple(option.parse(text) for text in texts or ())
    except ValueError as error:
        raise InputError(f"--{option.name}: {error}") from error


def _target(save: str | None, lab: str) -> Path | None:
    """Where --save writes; None without it."""
    if save is None:
        return None
    if save:
        return Path(save)
    if not (machine.ROOT / "pyproject.toml").is_file():
        raise InputError("--save: Fieldlab is installed without its source here; name a file: --save FILE.json")
    return record.timings_folder() / f"{machine.slug(machine.machine())}-{lab}.json"


def _require_apart(paths: Sequence[Path | None]) -> None:
    """Every file can be written, and no two are the same."""
    named = [path.resolve() for path in paths if path is not None]
    for path in named:
        if named.count(path) > 1:
            raise InputError(f"two options name the same file, {path.name}")
    for target in paths:
        _require_writable(target)


def _require_writable(path: Path | None) -> None:
    """Find out before minutes of measuring, not after."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    if path.parent.exists() and not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not machine.writable(path):
        raise InputError(f"{path} cannot be written")


def _some_of(option: str, values: tuple[str, ...] | None, known: Sequence[str]) -> tuple[str, ...]:
    for value in values or ():
        if value not in known:
            raise InputError(f"{option} must be some of {', '.join(known)}, not {value!r}")
    return tuple(values or ())


def _list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= LONGEST_BUDGET:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to {LONGEST_BUDGET:.0f}")
    return value


if __name__ == "__main__":
    sys.exit(main())
