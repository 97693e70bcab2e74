"""`fieldlab completion SHELL`: print the script with which bash or zsh completes commands, options, labs and files.

shtab writes the script from the parser of the command line, so pressing Tab starts no Python, which would take a
second. The script therefore contains the labs of the moment at which it is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import shtab

from compute.labs import labs

OK = 0  # exit code
SHELLS = ("bash", "zsh")
LABS = {"bash": "_fieldlab_labs", "zsh": "_fieldlab_labs"}  # functions of the script
LABS_AND_FILES = {"bash": "_fieldlab_labs_and_files", "zsh": "_fieldlab_labs_and_files"}
WAYS = {  # by metavar
    "LAB": LABS, "LAB|FILE": LABS_AND_FILES, "FOLDER": shtab.DIRECTORY,
    "FILE": shtab.FILE, "FILES": shtab.FILE, "PATH": shtab.FILE,
}  # fmt: skip
FUNCTIONS = {
    "bash": """
_fieldlab_labs() {{ compgen -W "{labs}" -- "$1"; }}
_fieldlab_labs_and_files() {{ _fieldlab_labs "$1"; _shtab_compgen_files "$1"; }}
""",
    "zsh": """
_fieldlab_labs() {{ compadd -- {labs}; }}
_fieldlab_labs_and_files() {{ _fieldlab_labs; _files; }}
""",
}


class CompletedParser(argparse.ArgumentParser):
    """A parser whose arguments are marked with the way to complete them. Its subparsers are of the same class."""

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument, completed by the way in WAYS for its metavar or name."""
        action = super().add_argument(*names, **options)
        shown = str(action.metavar or action.dest).upper()
        if shown in WAYS:
            action.complete = WAYS[shown]  # type: ignore[attr-defined]
        return action


def add_completion(commands: Any, whole: Callable[[], argparse.ArgumentParser]) -> None:
    """Add the command to the subparsers of the command line, whose parser `whole` returns."""
    parser = commands.add_parser("completion", help="print a script that completes these commands in bash or zsh")
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")

    def run(chosen: argparse.Namespace, _command: str) -> int:
        """Print the script."""
        names = " ".join(lab.LAB for lab in labs())
        functions = FUNCTIONS[chosen.shell].format(labs=names)
        sys.stdout.write(f"{shtab.complete(whole(), chosen.shell, preamble=functions)}\n")
        return OK

    parser.set_defaults(run=run)
