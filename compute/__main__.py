"""The command line, `fieldlab COMMAND`: serve, info, bench, race, render, sweep, try, learn, equation, new, completion.

`python -m compute` runs the same commands. Every command accepts `--lab FOLDER`, repeatedly: a lab from outside this
repository (plugins.py).

Exit codes: 0 success; 1 a backend disagreed with the reference or failed, or there is no result; 2 invalid input or a
missing file or package; 130 interrupted; 143 ended by SIGTERM.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the imports that take seconds
    from compute.start import main as start

    raise SystemExit(start())

import argparse
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
from compute.cli import completion, new_command, race_command, serve_options
from compute.devices.backends import BackendUnavailable, backend
from compute.export import benchmark as export_benchmark
from compute.export import commands as export_commands
from compute.files.documents import as_json, readable
from compute.lab import plugins
from compute.lab.plugins import PluginError
from compute.labs import outside
from compute.labs.equations import command as equations_command
from compute.machine import info
from compute.measure import commands as measure_commands
from compute.measure.commands import OK
from compute.own import commands as own_commands
from compute.start import become

FILES = ("--lab", "--save", "--csv", "--pyperf", "--trace", "--compare", "--out")  # options whose value is a path
LOAD = "load"  # of `bench`: many tabs
BAD_INPUT, INTERRUPTED, ENDED = 2, 130, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with `argv` (default: the arguments of the process) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        given, rest = _lab_option().parse_known_args(arguments)
        _find_labs(given.folders)
        chosen = parser_for(rest).parse_args(rest)
    except SystemExit as stop:  # argparse has printed the help or the error
        return int(stop.code or 0)
    except PluginError as error:
        print(f"fieldlab: {error}", file=sys.stderr)
        return BAD_INPUT
    try:
        if chosen.folders:  # abbreviated options, which argparse allows
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
    """SIGTERM, handled like Ctrl-C, so that no partial files remain."""


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Raise Terminated in the block on SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        """Raise Terminated; the signal handler."""
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def without_paths(arguments: Sequence[str]) -> list[str]:
    """Return the arguments for a record: paths are reduced to file names, without the folders of this machine."""
    out = list(arguments)
    for at, text in enumerate(out):
        name, equals, value = text.partition("=")
        if name in FILES and equals:
            out[at] = f"{name}={Path(value).name}"
        elif at and out[at - 1] in FILES and not text.startswith("-"):
            out[at] = Path(text).name
    return out


def _lab_option(kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser of `--lab`, which is parsed first: the other options depend on the known labs."""
    option = kind(prog="fieldlab", add_help=False, allow_abbrev=False)
    _add_lab(option)
    return option


def _add_lab(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lab", dest="folders", action="append", type=Path, default=[], metavar="FOLDER",
        help=f"folder of an additional lab with {', '.join(plugins.NEEDED)}",
    )  # fmt: skip


def _find_labs(folders: Sequence[Path]) -> None:
    """Register the labs in `folders` for this command and its processes; PluginError if one of them is unusable.

    An unusable lab named by the environment or an installed package is only reported.
    """
    plugins.name_folders(folders)
    requested = {str(folder.resolve()) for folder in folders}
    for problem in outside().problems:
        if problem.where in requested:
            raise PluginError(str(problem))
        print(f"fieldlab: {problem}", file=sys.stderr)


def parser_for(
    arguments: Sequence[str], kind: type[argparse.ArgumentParser] = argparse.ArgumentParser
) -> argparse.ArgumentParser:
    """Return the parser of these arguments, of the class `kind`: the options of `bench` depend on the lab."""
    parser = kind(
        prog="fieldlab", description="Live GPU computing for lectures.", parents=[_lab_option(kind)], allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"fieldlab {info.version()}")
    names = "serve | info | bench | race | render | sweep | try | learn | equation | new | completion"
    commands = parser.add_subparsers(required=True, metavar=names)
    serve = commands.add_parser(
        "serve", help="start the server of the page; compiles kernels at its first start", allow_abbrev=False
    )
    serve_options.add(serve)
    serve.set_defaults(run=lambda _chosen, _: _serve(serve, arguments[1:]))
    about = commands.add_parser("info", help="show machine, driver, versions, and why a backend is missing")
    about.add_argument("--json", action="store_true", help="as JSON")
    about.add_argument(
        "--roofs", action="store_true", help="measure the rates of copies and multiply-adds again, and save them"
    )
    about.add_argument(
        "--webgpu", action="store_true", help="show what WebGPU offers here: adapter, exactness, clock, three rates"
    )
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
    equations_command.add_equation(commands)
    new_command.add_new(commands)
    completion.add_completion(commands, lambda: parser_for([], completion.CompletedParser))
    for command in commands.choices.values():
        _add_lab(command)
    return parser


def _add_load(commands: Any) -> None:
    """Add `bench load`, which belongs to the page and parses its own options."""
    bench = commands.add_parser("bench", add_help=False)
    bench.add_argument("what", choices=[LOAD])
    bench.add_argument("options", nargs=argparse.REMAINDER)
    bench.set_defaults(run=lambda chosen, _: become("app.load", *chosen.options))


def _serve(parser: argparse.ArgumentParser, options: Sequence[str]) -> NoReturn:
    """Replace this process by the server; options: the arguments that `parser` accepted."""
    if find_spec("app") is None:
        raise ValueError("the package app is not installed: install fieldlab")
    chosen = serve_options.parse(parser, options)  # errors are reported here, not by the server
    serve_options.settings_of(chosen)
    serve_options.require_address(chosen.address)
    stories.name_folders(chosen.stories)
    become("app.server.serve", *options)


def _webgpu_info(json: bool) -> int:
    """Print a report on WebGPU; raise BackendUnavailable, with the reason, on a machine without it."""
    backend("gpu_wgpu").require()
    from compute.devices import webgpu_report  # only now known to be importable

    found = webgpu_report.report()
    if json:
        print(as_json(found, sys.stdout))
    else:
        webgpu_report.show(found, Console(soft_wrap=True))
    return OK


def _info(chosen: argparse.Namespace, _command: str) -> int:
    if chosen.roofs:
        from compute.measure import machine_roofs  # which loads Numba

        measured = machine_roofs.measure_and_keep()
        if not measured.worth_keeping:
            load = f"other programs used {measured.others:.0%} of the processors"
            print(f"fieldlab: the roofs are too low and were not saved: {load}", file=sys.stderr)
    if chosen.webgpu:
        return _webgpu_info(chosen.json)
    found = info.facts()
    if chosen.json:
        print(as_json(found, sys.stdout))
    else:
        info.show(found, Console(soft_wrap=True))
    return OK
