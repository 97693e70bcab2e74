"""The command line: `fieldlab serve | info | bench | race | render | sweep | try | learn`, or `python -m compute`.

Every command takes `--lab FOLDER`, once or more often: a lab from outside this repository (plugins.py).

Exit codes: 0 done; 1 a way disagreed with the reference or failed, or nothing was measured or made; 2 bad input or
something missing; 130 interrupted; 143 ended by SIGTERM.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what takes seconds to import
    from compute.start import main as start

    raise SystemExit(start())

import argparse
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from compute import stories
from compute.cli import race_command, serve_options
from compute.devices.backends import BackendUnavailable
from compute.export import benchmark as export_benchmark
from compute.export import commands as export_commands
from compute.files.documents import as_json, readable
from compute.lab import plugins
from compute.lab.plugins import PluginError
from compute.labs import outside
from compute.machine import info
from compute.measure import commands as measure_commands
from compute.measure.commands import OK
from compute.own import commands as own_commands

FILES = ("--lab", "--save", "--csv", "--pyperf", "--trace", "--compare", "--out")  # options whose value is a path
LOAD = "load"  # of `bench`: many tabs
BAD_INPUT, INTERRUPTED, ENDED = 2, 130, 143


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
        if chosen.folders:  # shortened, as argparse allows
            _find_labs(chosen.folders)
        with _ending_in_order():
            return int(chosen.run(chosen, readable(shlex.join(["fieldlab", *without_paths(arguments)]))))
    except (ValueError, BackendUnavailable, OSError) as error:
        print(f"fieldlab: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as stop:
        print(f"fieldlab: interrupted; {str(stop) or 'nothing was saved'}", file=sys.stderr)
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
        """Leave the block; a signal handler."""
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
    _add_lab(option)
    return option


def _add_lab(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lab", dest="folders", action="append", type=Path, default=[], metavar="FOLDER",
        help=f"a folder with a further lab: {', '.join(plugins.NEEDED)}",
    )  # fmt: skip


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
        prog="fieldlab", description="Live GPU computing for lectures.", parents=[_lab_option()], allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"fieldlab {info.version()}")
    names = "serve | info | bench | race | render | sweep | try | learn"
    commands = parser.add_subparsers(required=True, metavar=names)
    serve = commands.add_parser(
        "serve", help="the page, with the labs of --lab; it compiles at its first start", allow_abbrev=False
    )
    serve_options.add(serve)
    serve.set_defaults(run=lambda _chosen, _: _serve(serve, arguments[1:]))
    about = commands.add_parser("info", help="machine, driver, versions, and why a backend is absent")
    about.add_argument("--json", action="store_true", help="as JSON")
    about.add_argument("--roofs", action="store_true", help="measure copies and multiply-adds anew, and keep that")
    about.set_defaults(run=_info)
    if arguments[:2] == ["bench", export_benchmark.NAME]:
        export_benchmark.add(commands)
    elif arguments[:2] == ["bench", LOAD]:
        _add_load(commands)
    else:
        measure_commands.add_bench(commands, arguments)
    race_command.add_race(commands)
    export_commands.add_render(commands)
    export_commands.add_sweep(commands)
    own_commands.add_try(commands)
    own_commands.add_learn(commands)
    for command in commands.choices.values():
        _add_lab(command)
    return parser


def _add_load(commands: Any) -> None:
    """Add the bench of many tabs, which belongs to the page and has options of its own."""
    bench = commands.add_parser("bench", add_help=False)
    bench.add_argument("what", choices=[LOAD])
    bench.add_argument("options", nargs=argparse.REMAINDER)
    bench.set_defaults(run=lambda chosen, _: _become("app.load", *chosen.options))


def _become(module: str, *arguments: str) -> NoReturn:
    """Go on as `python -m module`: its signals, its output and its exit code are then the command's."""
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - no shell is meant


def _serve(parser: argparse.ArgumentParser, options: Sequence[str]) -> NoReturn:
    """Become app/server/serve.py, and so the server; options: what `parser` has taken, as they were written."""
    if find_spec("app") is None:
        raise ValueError("the package app is not installed: install fieldlab")
    chosen = serve_options.parse(parser, options)  # what is wrong is said here, and again by nobody
    serve_options.settings_of(chosen)
    serve_options.require_address(chosen.address)
    stories.name_folders(chosen.stories)
    _become("app.server.serve", *options)


def _info(chosen: argparse.Namespace, _command: str) -> int:
    if chosen.roofs:
        from compute.measure import machine_roofs  # which loads Numba

        measured = machine_roofs.measure_and_keep()
        if not measured.worth_keeping:
            part = f"{measured.others:.0%} of the processors"
            print(f"fieldlab: the roofs are too low, and not kept: others had {part} meanwhile", file=sys.stderr)
    found = info.facts()
    if chosen.json:
        print(as_json(found, sys.stdout))
    else:
        info.show(found, Console(soft_wrap=True))
    return OK
