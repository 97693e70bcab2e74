"""A user's file as a workload of the crossover lab, for `fieldlab try FILE --open`.

The command passes the file's path in the environment, from which the server, its engines and its jobs read it. Links
and files opened on the page cannot: they contain only the name of an existing workload.
"""

from __future__ import annotations

import ast
import logging
from dataclasses import dataclass, fields, replace
from pathlib import Path

from compute.ways.comparing import ResultComparison
from compute.ways.declaring import CudaKernel, OwnFile, OwnWay, WgslKernel, load
from compute.ways.workload import Way, Workload, own_name

SEED = 0
NO_TEXT = "A workload of your own. A docstring at the top of its file is shown here."
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OwnWorkload(Workload):
    """The workload of a file.

    own: its ways; text: its docstring; kernels: those of .cu and .wgsl files in its folder.
    """

    own: tuple[OwnWay, ...] = ()
    text: str = ""
    kernels: tuple[CudaKernel | WgslKernel, ...] = ()

    @property
    def about(self) -> str:
        """Return the file's docstring as Markdown."""
        return self.text

    def ways(self) -> tuple[Way, ...]:
        """Return the ways of the file."""
        return self.own


def opened(path: Path) -> list[Workload]:
    """Load the file and return its workload; log the error and return no workload if that fails."""
    try:
        return [workload_of(load(path))]
    except Exception:
        log.exception("the file %s cannot be opened", path.name)
        return []


def workload_of(file: OwnFile) -> OwnWorkload:
    """Return the file's workload and ways, named for the page."""
    name = own_name(file.path)
    plain = file.workload(ResultComparison(), SEED)
    known = {each.name: vars(plain)[each.name] for each in fields(Workload)}
    known |= {"package": f"own.{name}", "title": f"Yours: {file.path.name}", "chapter": -1}
    ways = tuple(replace(way, workload=name) for way in file.ways.values())
    text = ast.get_docstring(ast.parse(file.path.read_text(encoding="utf-8"))) or NO_TEXT
    # a code block, so that Markdown in a user's file is shown as plain text
    shown = "".join(f"    {line}\n" for line in text.splitlines())
    return OwnWorkload(**known, own=ways, text=shown, kernels=tuple(file.kernels))
