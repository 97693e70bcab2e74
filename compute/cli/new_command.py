"""`fieldlab new NAME`: write a folder with a lab that runs, from the template in assets/new_lab.

The template is a lab itself, called new_lab: its name, its class and its title are replaced in every file. The folder
contains a reference in NumPy, a Numba backend, the text of About, tests with an exact solution, and a pyproject.toml
that makes it a package with the entry point of a lab.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from keyword import iskeyword
from pathlib import Path
from typing import Any

from compute.files.files import whole_file
from compute.labs import labs
from compute.measure.records import timings_folder

OK = 0  # exit code
NAME = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*")
LONGEST = 40  # characters of a name
BOUND = f"a letter, then letters, digits and single _ between them, at most {LONGEST} in all, and no Python keyword"
KINDS = (".py", ".md", ".toml")  # of the template's files
NEXT = """\
  fieldlab serve --lab {folder}  # the page, with its tab
  FIELDLAB_LABS={absolute} panel serve app  # the same in a checkout of Fieldlab
  (cd {folder} && python -m pytest)  # its tests, which need pytest
"""


def add_new(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    parser = commands.add_parser("new", help="write a folder with a new lab, which runs at once")
    parser.add_argument("name", metavar="NAME", help=f"the name of the lab and of its folder: {BOUND}")
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER", help="where to write it (default: here)")
    parser.set_defaults(run=_new)


def _new(chosen: argparse.Namespace, _command: str) -> int:
    """Write the folder and print the commands that use it."""
    texts = lab_files(chosen.name)
    folder = _new_folder(chosen.to, chosen.name)
    with whole_file(folder) as made:
        made.mkdir()
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {folder}: {', '.join(texts)}\n")
    sys.stdout.write(NEXT.format(folder=shlex.quote(str(folder)), absolute=shlex.quote(str(folder.resolve()))))
    return OK


def _new_folder(place: Path, name: str) -> Path:
    """Return the path of the lab in `place`. Raise ValueError if it exists, or cannot be a lab's folder."""
    if not place.is_dir():
        raise ValueError(f"--to must be an existing folder, not {place}")
    folder = place / name
    if os.path.lexists(folder):
        raise ValueError(f"NAME must be that of a new folder, not {name!r}: {folder} exists")
    if os.pathsep in str(folder.resolve()):
        raise ValueError(f"--to must be a path without {os.pathsep!r}, which separates lab folders, not {place}")
    return folder


def lab_files(name: str) -> dict[str, str]:
    """Return the texts of a new lab by file name. Raise ValueError for an invalid name, or that of another lab."""
    kind = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    if not NAME.fullmatch(name) or len(name) > LONGEST or iskeyword(name) or iskeyword(kind):
        raise ValueError(f"NAME must be {BOUND}, not {name[:60]!r}")
    known = ["lab", *(lab.LAB for lab in labs())]  # a class Lab would hide its base class
    if name.lower() in {each.lower() for each in known}:
        raise ValueError(f"NAME must differ from {', '.join(known)}, not be {name!r}")
    template = timings_folder().parent / "new_lab"
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(template.iterdir()) if path.suffix in KINDS}
    for old, new in (("NewLab", kind), ("new_lab", name), ("New lab", name.replace("_", " ").capitalize())):
        texts = {file: text.replace(old, new) for file, text in texts.items()}
    return texts
