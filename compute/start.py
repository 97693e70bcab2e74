"""The start of every program of Fieldlab: Ctrl-C during the imports, which take seconds, ends it with one line.

`fieldlab` and `python -m compute` call `main`. `python -m compute.start MODULE ARGUMENT…` does the same for another
module with a function `main`: app/server/serve.py becomes Panel's server that way. This module imports nothing large.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn, TextIO

COMMAND_LINE = "compute.__main__"
BAD_INPUT, INTERRUPTED = 2, 130  # exit codes, as of the command line


def main() -> int:
    """Run the command line; return the exit code."""
    return start(COMMAND_LINE)


def start(module: str) -> int:
    """Import `module` and call its `main`; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        accept_every_character(stream)
    try:
        Path.cwd()
    except OSError as error:
        sys.stderr.write(f"fieldlab: the working folder cannot be used, change to another one: {error.strerror}\n")
        return BAD_INPUT
    try:
        return int(import_module(module).main() or 0)
    except KeyboardInterrupt:
        sys.stderr.write("fieldlab: interrupted; nothing was saved\n")
        return INTERRUPTED


def become(module: str, *arguments: str) -> NoReturn:
    """Replace this process by `python -m module`, which then receives the signals and sets the exit code."""
    os.environ["PYTHONPATH"] = search_path()
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])  # noqa: S606 - no shell is needed


def search_path() -> str:
    """Return this process's search path as a PYTHONPATH for processes with the option -P.

    Without -P, an app.py in the working folder would be imported in place of Fieldlab's package.
    """
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)


def accept_every_character(stream: TextIO) -> None:
    """Let a stream in an encoding such as ASCII escape other characters instead of raising an error."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:  # missing if a test has replaced the stream
        reconfigure(errors="backslashreplace")


def _start_other(arguments: Sequence[str]) -> int:
    """Run the module that the first argument names, with the other arguments as its own."""
    sys.argv = [arguments[0].partition(".")[0], *arguments[1:]]
    return start(arguments[0])


if __name__ == "__main__":
    sys.exit(_start_other(sys.argv[1:]))
