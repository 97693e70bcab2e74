"""A file of one's own as a workload of the crossover lab: what `fieldlab try FILE --open` shows.

The command names the file in the environment, by which the server, its engines and its jobs know it. Nothing else does:
a link or a file that the page opens can only say the name of a workload that is there.
"""

from __future__ import annotations

import ast
import logging
from dataclasses import dataclass, fields, replace
from pathlib import Path

from compute.labs.crossover.workload import Way, Workload, own_name
from compute.own.comparing import ResultComparison
from compute.own.declaring import CudaKernel, OwnFile, OwnWay, load

SEED = 0
NO_TEXT = "A workload of your own. A docstring at the top of its file is shown here."
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OwnWorkload(Workload):
    """The workload of a file. own: its ways; text: its docstring; kernels: of .cu files beside it."""

    own: tuple[OwnWay, ...] = ()
    text: str = ""
    kernels: tuple[CudaKernel, ...] = ()

    @property
    def about(self) -> str:
        """The file's docstring, as text."""
        return self.text

    def ways(self) -> tuple[Way, ...]:
        """Return those of the file."""
        return self.own


def opened(path: Path) -> list[Workload]:
    """Run the file and return its workload; none, and the reason in the log, if that cannot be done."""
    try:
        return [workload_of(load(path))]
    except Exception:
        log.exception("the file %s cannot be opened", path.name)
        return []


def workload_of(file: OwnFile) -> OwnWorkload:
    """The file's workload with its ways, named for the page."""
    name = own_name(file.path)
    plain = file.workload(ResultComparison(), SEED)
    known = {each.name: vars(plain)[each.name] for each in fields(Workload)}
    known |= {"package": f"own.{name}", "title": f"Yours: {file.path.name}", "chapter": -1}
    ways = tuple(replace(way, workload=name) for way in file.ways.values())
    text = ast.get_docstring(ast.parse(file.path.read_text(encoding="utf-8"))) or NO_TEXT
    # a code block: Markdown of a file of one's own is shown as it stands there
    shown = "".join(f"    {line}\n" for line in text.splitlines())
    return OwnWorkload(**known, own=ways, text=shown, kernels=tuple(file.kernels))
