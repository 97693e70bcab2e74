"""`fieldlab equation FILE --emit FORM`: print the kernels that a typed equation becomes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from compute.files.files import whole
from compute.labs.equations.forms import FORMS, Program
from compute.labs.equations.language import MOST_CHARACTERS, read
from compute.labs.equations.passes import lower
from compute.labs.equations.presets import FOLDER, presets

OK = 0  # exit code


def add_equation(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.txt")))  # without reading them at every start
    parser = commands.add_parser("equation", help="print the kernels of a partial differential equation")
    parser.add_argument("file", metavar="FILE", help=f"a text with equations, or the name of a preset: {known}")
    parser.add_argument("--emit", choices=FORMS, default=FORMS[0], help="the language (default: %(default)s)")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32", help="the number type")
    parser.add_argument("--out", type=Path, metavar="PATH", help="write to a file")
    parser.set_defaults(run=_emit)


def _emit(chosen: argparse.Namespace, _command: str) -> int:
    """Print the kernels. ValueError for an invalid text, with line and column; OSError for an unreadable file."""
    title, text = _read(chosen.file)
    system = read(text)
    shown = "\n".join(Program(system, lower(system), title).sources(chosen.emit, chosen.dtype))
    if chosen.out:
        with whole(chosen.out) as out:
            out.write(shown)
    else:
        print(shown, end="")  # noqa: T201 - the result of the command
    return OK


def _read(file: str) -> tuple[str, str]:
    """Return title and text of a file, or of a preset if there is no such file."""
    path = Path(file)
    if not path.exists() and file in presets():
        found = presets()[file]
        return found.title, found.text
    with path.open(encoding="utf-8") as source:
        return path.stem, source.read(MOST_CHARACTERS + 1)
