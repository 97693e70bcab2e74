"""Which files run for a lab, or for a workload of the crossover, and what a compiler makes of each.

What is compiled is said by the file itself: a .cu is CUDA C; a Python file with Numba's backend has compiled functions
once it has run; one that holds CUDA C as text has that. Any other file is shown as it is, with a sentence that says why
there is nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from compute.backends import Backend
from compute.lab import Lab
from compute.labs.crossover.workload import Workload
from compute.own.opened import OwnWorkload

LARGEST = 2**20  # characters of a file that are shown
KERNEL = "__global__"
Compiler = Literal["cuda", "numba", "numba.cuda", "nothing"]


@dataclass(frozen=True)
class CodeFile:
    """A file that runs. title: whose it is, on the screen; lab, way: what has to run for it to be compiled; lab is ""
    for a workload of the crossover, workload and way are "" for a lab; defines: with which a file of one's own has its
    kernels compiled.
    """

    title: str
    path: Path
    backend: Backend
    lab: str = ""
    workload: str = ""
    way: str = ""
    defines: tuple[tuple[str, int | str | float], ...] = ()

    @property
    def key(self) -> str:
        """Its name among the files of the same lab or workload."""
        return f"{self.way or self.backend.name} {self.path.name}"

    @property
    def label(self) -> str:
        """Its name in a list."""
        return f"{self.title}: {self.path.name}"

    @property
    def kind(self) -> Literal["cpu", "gpu"]:
        """Whose hue it has."""
        return "cpu" if self.backend.device == "host" else "gpu"

    @property
    def language(self) -> Literal["python", "cuda"]:
        """What it is written in."""
        return "python" if self.path.suffix == ".py" else "cuda"

    @property
    def saved(self) -> int:
        """When it was saved last, in ns. OSError if it is gone."""
        return self.path.stat().st_mtime_ns

    @property
    def text(self) -> str:
        """What it says, at most LARGEST characters. OSError if it is gone."""
        return _text(self.path, self.saved)

    @property
    def made(self) -> Compiler:
        """Whose compiler makes code of it."""
        if self.language == "cuda":
            return "nothing" if self.path.suffix == ".cuh" else "cuda"
        if "numba.cuda" in self.backend.needs:
            return "numba.cuda"
        if "numba" in self.backend.needs:
            return "numba"
        return "cuda" if KERNEL in self.text and embedded_cuda(self.text) else "nothing"

    @property
    def why_nothing(self) -> str:
        """Why there is no code to show but its text."""
        if self.path.suffix == ".cuh":
            return "It is included by the .cu files beside it, and compiled with them."
        if "cupy" in self.backend.needs:
            return "It launches kernels from files beside it, or calls those of CuPy; nothing in it is compiled."
        if self.kind == "cpu":
            return f"{self.backend.label} runs loops that were compiled long ago: nothing of this file is compiled."
        return f"{self.backend.label} compiles it when it runs on a GPU; what it makes is not shown here."


@lru_cache(maxsize=64)
def _text(path: Path, saved: int) -> str:  # noqa: ARG001 - another time is another text
    return path.read_text(encoding="utf-8", errors="replace")[:LARGEST]


def embedded_cuda(text: str) -> str:
    """The CUDA C that a Python file holds as text constants; "" if it has none or is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    parts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and f"{KERNEL} " in node.value
        and "{" in node.value
    ]
    return "\n".join(parts)


def files_of_lab(lab: type[Lab]) -> tuple[CodeFile, ...]:
    """Each backend's file, and for CUDA C the sources beside it."""
    return tuple(_of_lab(lab))


def _of_lab(lab: type[Lab]) -> Iterator[CodeFile]:
    for backend in lab.backends():
        spec = find_spec(f"{lab.PACKAGE}.{backend.name}")
        if spec is None or spec.origin is None:
            continue
        path = Path(spec.origin)
        if "cupy" in backend.needs:
            sources = sorted(path.parent.glob("*.cu"), key=lambda each: (each.stem != path.stem, each.name))
            for source in (*sources, *sorted(path.parent.glob("*.cuh"))):
                yield CodeFile(backend.label, source, backend, lab.LAB)
        yield CodeFile(backend.label, path, backend, lab.LAB)


def files_of_workload(workload: Workload) -> tuple[CodeFile, ...]:
    """The file of every way, and the sources beside one of the user's own."""
    found = [CodeFile(way.label, way.path, way.backend, "", workload.name, way.name) for way in workload.ways()]
    if isinstance(workload, OwnWorkload):
        gpu = next((file.backend for file in found if "cupy" in file.backend.needs), found[0].backend)
        defined = {kernel.path: tuple(sorted(kernel.defines.items())) for kernel in workload.kernels}
        found += [CodeFile(gpu.label, path, gpu, "", workload.name, "", defines) for path, defines in defined.items()]
    return tuple(found)
