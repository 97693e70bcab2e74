"""The source that runs for a lab or for a workload of the crossover, and the compiler for each.

The file determines the compiler: a .cu is CUDA C; a Python file of a Numba backend has compiled functions after it has
run; a Python file may contain CUDA C as text. Any other file, such as a .wgsl, is shown as text, with a sentence that
states the reason. A .wgsl is shown both as it is written and as the GPU's driver receives it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from compute.devices.backends import Backend
from compute.devices.wgsl import WgslProgram
from compute.lab.lab import Lab
from compute.ways.declaring import WgslKernel
from compute.ways.opened import OwnWorkload
from compute.ways.source import Excerpt, excerpt
from compute.ways.workload import Way, Workload

LARGEST = 2**20  # characters shown of a file
KERNEL = "__global__"
Language = Literal["python", "cuda", "wgsl"]
LANGUAGES: dict[str, Language] = {".py": "python", ".wgsl": "wgsl"}  # by suffix; CUDA C for the others
NO_MACHINE_CODE = "WebGPU shows neither its machine code nor its registers."
Compiler = Literal["cuda", "numba", "numba.cuda", "nothing"]


@dataclass(frozen=True)
class CodeFile:
    """A source file that runs. title: label of its backend or way on the page.

    lab, workload, way: program to run so that the file is compiled; lab is "" for a workload of the crossover, workload
    and way are "" for a lab. defines: -D options of kernels that a user's file declares. function: if not "", only the
    part of the file is shown that this function needs. values: of the lab, for a file that it generates; name, value.
    program: if not None, its text is shown, with includes, loops and names replaced, in place of the file's.
    """

    title: str
    path: Path
    backend: Backend
    lab: str = ""
    workload: str = ""
    way: str = ""
    defines: tuple[tuple[str, int | str | float], ...] = ()
    function: str = ""
    values: tuple[tuple[str, str], ...] = ()
    program: WgslProgram | None = None

    @property
    def key(self) -> str:
        """Return an identifier that is unique among the files of a lab or workload."""
        return f"{self.way or self.backend.name} {self.path.name}{f' {self.title}' if self.program else ''}"

    @property
    def label(self) -> str:
        """Return the name for lists; a generated file's own name is a hash."""
        return self.title if self.values else f"{self.title}: {self.path.name}"

    @property
    def kind(self) -> Literal["cpu", "gpu"]:
        """Return the device kind, which selects the colour."""
        return self.backend.kind

    @property
    def language(self) -> Language:
        """Return the language of the file."""
        return LANGUAGES.get(self.path.suffix, "cuda")

    @property
    def saved(self) -> int:
        """Return the modification time, in ns. Raise OSError if the file does not exist."""
        return self.path.stat().st_mtime_ns

    @property
    def text(self) -> str:
        """Return the text that is shown, at most LARGEST characters. Raise OSError if the file does not exist."""
        return self.excerpt.text

    @property
    def excerpt(self) -> Excerpt:
        """Return the shown text with the lines' numbers in the file. Raise OSError if the file does not exist."""
        text = self.program.text[:LARGEST] if self.program else _text(self.path, self.saved)
        return excerpt(text, self.function)

    def compiled(self, program: WgslProgram, name: str = "") -> CodeFile:
        """Return the text of `program`, whose file this is, as the compiler receives it. name: of several programs."""
        words = f", {name}" if name else ""
        return replace(self, title=f"{self.title}, as compiled{words}", program=program)

    @property
    def made(self) -> Compiler:
        """Return the compiler for the file."""
        if self.language == "cuda":
            return "nothing" if self.path.suffix == ".cuh" else "cuda"
        if self.backend.device == "webgpu":
            return "nothing"
        if "numba.cuda" in self.backend.needs:
            return "numba.cuda"
        if self.backend.threaded:
            return "numba"
        return "cuda" if KERNEL in self.text and embedded_cuda(self.text) else "nothing"

    @property
    def why_nothing(self) -> str:
        """Return the reason why only the text can be shown."""
        if self.path.suffix == ".cuh":
            return "It is included by the .cu files next to it, and compiled with them."
        if self.language == "wgsl":
            return f"The GPU's driver compiles it when a kernel runs. {NO_MACHINE_CODE}"
        if self.backend.device == "webgpu":
            return f"It launches kernels in WGSL, which the GPU's driver compiles when they run. {NO_MACHINE_CODE}"
        if "cupy" in self.backend.needs:
            return "It launches kernels from files next to it, or calls those of CuPy; nothing in it is compiled."
        if self.kind == "cpu":
            return f"{self.backend.label} calls compiled loops of its library; this file itself is not compiled."
        return f"{self.backend.label} compiles it when it runs on a GPU; what it makes is not shown here."


@lru_cache(maxsize=64)
def _text(path: Path, saved: int) -> str:  # noqa: ARG001 - part of the cache key
    return path.read_text(encoding="utf-8", errors="replace")[:LARGEST]


def embedded_cuda(text: str) -> str:
    """Return the CUDA C in the string constants of a Python file; "" for other files and invalid Python."""
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
    """Return each backend's file, and the files of its kernels: for CuPy the .cu and .cuh files in its folder, for
    WebGPU the .wgsl files in its folder and those that they include, and the texts of its PROGRAMS.
    """
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
        if backend.device == "webgpu":
            kernels = sorted(path.parent.glob("*.wgsl"))
            programs = _programs(f"{lab.PACKAGE}.{backend.name}")
            included = sorted({file for program in programs.values() for file in program.included})
            for source in (*kernels, *included):
                file = CodeFile(backend.label, source, backend, lab.LAB)
                yield file
                for name, program in programs.items():
                    if program.path == source:
                        yield file.compiled(program, name)
        yield CodeFile(backend.label, path, backend, lab.LAB)


def _programs(module: str) -> Mapping[str, WgslProgram]:
    """Return the programs in WGSL that a backend's file lists for this panel, by name."""
    with suppress(ImportError):  # the file of another package may require wgpu
        found: Mapping[str, WgslProgram] = vars(import_module(module)).get("PROGRAMS", {})
        return found
    return {}


def _of_way(way: Way, workload: Workload) -> CodeFile:
    function = way.declared.function
    return CodeFile(way.label, way.path, way.backend, "", workload.name, way.name, function=function)


def files_of_workload(workload: Workload) -> tuple[CodeFile, ...]:
    """Return the source of every way, and the .cu and .wgsl files of kernels that a user's file declares.

    A .wgsl is followed by the text that is compiled, for each set of values of its upper-case names.
    """
    found = [_of_way(way, workload) for way in workload.ways()]
    if isinstance(workload, OwnWorkload):
        known = {library: file.backend for file in reversed(found) for library in file.backend.needs}
        defined = {kernel.path: tuple(sorted(kernel.defines.items())) for kernel in workload.kernels}
        for path, defines in defined.items():
            gpu = known.get("wgpu" if path.suffix == ".wgsl" else "cupy", found[0].backend)
            file = CodeFile(gpu.label, path, gpu, "", workload.name, "", defines)
            programs = dict.fromkeys(
                kernel.program for kernel in workload.kernels if isinstance(kernel, WgslKernel) and kernel.path == path
            )
            found += [file, *(file.compiled(program, _values(program)) for program in programs)]
    return tuple(found)


def _values(program: WgslProgram) -> str:
    """Return the values of a program's names as text, and which roundings it keeps, if any."""
    named = [f"{name} {value}" for name, value in program.defines]
    return ", ".join([*named, *([f"exact={program.exact}"] if program.exact else [])])
