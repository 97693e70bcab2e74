"""Compile files and list their machine code, as tasks for a job (compute.export.jobs); the server's store of listings.

A task compiles in a child process with a deadline, never in the calling process. All callers that request the same
file, modification time and architecture share one listing.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compute.cli.arguments import named
from compute.devices.cuda_source import Defines, SourceBuild
from compute.export.jobs import Job, JobLane
from compute.labs import lab_class, labs
from compute.machine import scratch
from compute.own.code_files import CodeFile, embedded_cuda
from compute.own.code_view import ARCHITECTURES, CodeUnavailable, KernelCode, code_view, vector_bits
from compute.process.tasks import ChildTask, Report
from compute.ways.catalogue import workload

CODE = JobLane("code", 2, 240.0)  # concurrent compilations; seconds allowed for each
KEPT = 32  # most recently used listings in the store
MOST_LINES = 4000  # of one function's machine code, or of PTX
REALS = {"float32": "float", "float64": "double"}
STEPS = (1, 16)  # advances of a lab: kernels for many steps per call are compiled too
PROCESSOR = ""  # architecture of listings for this machine's CPU


@dataclass(frozen=True)
class HostFunction:
    """The code that Numba compiled from one function for this processor.

    signature: Numba's types of the arguments; lines: assembly without directives, at most MOST_LINES; left_out: number
    of further lines; vector: bits of the widest vector arithmetic, 0 for none.
    """

    name: str
    signature: str
    lines: tuple[str, ...]
    left_out: int
    vector: int
    mix: Mapping[str, int]


@dataclass(frozen=True)
class Listing:
    """The machine code of one file. threads: of a block, by kernel, 0 if unknown; functions: compiled for the CPU."""

    architecture: str
    ptx: str = ""
    kernels: Mapping[str, KernelCode] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)
    functions: tuple[HostFunction, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names to choose from: kernels, or else functions, the widest and shortest first."""
        return tuple(self.kernels) or tuple(one.name for one in self.functions)


# -- CUDA C


def build_of(path: Path, dtype: str) -> SourceBuild:
    """Return the options with which a lab compiles `path` for large grids of `dtype`; REAL alone for other files.

    A lab with a module `cuda_builds` names them there.
    """
    real: Defines = {"REAL": REALS[dtype]}
    for lab in labs():
        if lab.PACKAGE and find_spec(f"{lab.PACKAGE}.cuda_builds"):
            found: SourceBuild | None = import_module(f"{lab.PACKAGE}.cuda_builds").build_of(path, dtype, real)
            if found is not None:
                return found
    return SourceBuild(real)


def cuda_listing(
    path: Path, defines: Defines, dtype: str, architecture: str, report: Report, text: str = ""
) -> Listing:
    """Return the kernels of a .cu, or of the CUDA C in a Python file. defines: {} to use the lab's options;
    text: the part of the Python file that contains the CUDA C, by default all of it.

    Raise ValueError with the reason, or with the compiler's log.
    """
    report(0.0, f"compiling {path.name} for {architecture}")
    build = SourceBuild(defines) if defines else build_of(path, dtype)
    try:
        if path.suffix == ".py":
            with scratch.lent("code") as folder:
                source = folder / f"{path.stem}.cu"
                source.write_text(embedded_cuda(text or path.read_text(encoding="utf-8")), encoding="utf-8")
                shown = code_view(source, defines=build.defines, architecture=architecture)
        else:
            shown = code_view(path, defines=build.defines, architecture=architecture)
    except RuntimeError as error:  # CodeUnavailable, CudaSourceError
        raise ValueError(str(error)) from error
    threads = {name: build.threads.get(name, build.usual) for name in shown.kernels}
    return Listing(architecture, shown.ptx, dict(shown.kernels), threads)


# -- Numba on the CPU

DIRECTIVE = re.compile(r"\s*(?:\.(?!L)|#|//|$)")
LABEL = re.compile(r"\s*[\w.$]+:")
ARITHMETIC = r"(?:add|sub|mul|div|sqrt|max|min|fn?m(?:add|sub)\d+)"
MOVES = r"v?mov|push|pop|lea|ld|st|mov|v?(?:un)?p?(?:shuf|perm|unpck|broadcast|insert|extract|blend)"
OPERATIONS = (  # of x86 and ARM, by mnemonic; the first match counts
    ("vector arithmetic", re.compile(rf"v?{ARITHMETIC}p[sd]$")),
    ("single arithmetic", re.compile(rf"v?{ARITHMETIC}s[sd]$|f(?:add|sub|mul|div|n?m)")),
    ("control", re.compile(r"j|call|ret|b$|b\.|bl|cb|tb")),
    ("loads, stores, moves", re.compile(MOVES)),
)
OTHER = "integer, logic, compare"


def host_mix(lines: tuple[str, ...]) -> dict[str, int]:
    """Count the instructions of assembly by kind, the most frequent first."""
    found: Counter[str] = Counter()
    for line in lines:
        if line.startswith((" ", "\t")) and (words := line.split(None, 1)):
            found[next((kind for kind, starts in OPERATIONS if starts.match(words[0])), OTHER)] += 1
    return dict(found.most_common())


def lab_functions(
    lab: str, name: str, dtype: str, report: Report, values: Sequence[tuple[str, str]] = (), module: str = ""
) -> Listing:
    """Return the functions of a lab's file that Numba compiles while the lab advances. name: of the backend.

    values: of the lab, which then generates the module `module`.
    """
    report(0.0, "running the lab")
    kind = lab_class(lab)
    own = {"dtype": dtype} if "dtype" in kind.param else {}
    with closing(kind(**{**own, **dict(values), "backend": name})) as opened:
        for steps in STEPS:
            opened.advance(steps)
        opened.frame()
        return _functions(module or f"{kind.PACKAGE}.{name}")


def way_functions(of: str, way: str, dtype: str, report: Report) -> Listing:
    """Return the functions that Numba compiles when a way runs once at its smallest n."""
    report(0.0, "running it once")
    _run_way(of, way, dtype)
    return _functions(workload(of).way(way).function().__module__)


def _run_way(of: str, way: str, dtype: str) -> None:
    from compute.ways.runner import WorkloadRunner

    chosen = workload(of)
    case = chosen.case(chosen.sizes[0], dtype)
    inputs = case.inputs(0)
    with WorkloadRunner(chosen.way(way), case, inputs) as runner:
        runner.check(case.reference(inputs))


def _functions(module: str) -> Listing:
    """Return all functions of a module that Numba has compiled, by vector width (widest first), then by length."""
    from numba.core.dispatcher import Dispatcher

    own: list[Any] = [each for each in vars(import_module(module)).values() if isinstance(each, Dispatcher)]
    own = [each for each in own if each.py_func.__module__ == module]
    found: dict[str, HostFunction] = {}
    while more := [each for each in own if each.signatures and each.__name__ not in found]:
        for each in more:  # compiling one function may load others that it calls
            found[each.__name__] = _function(each, each.signatures[0])
    if not found:
        raise ValueError("Numba has compiled nothing of this file in a first run")
    ordered = sorted(found.values(), key=lambda one: (-one.vector, len(one.lines) + one.left_out))
    return Listing(PROCESSOR, functions=tuple(ordered))


def _function(dispatcher: Any, signature: Any) -> HostFunction:
    """Compile the function again and return its code: Numba shows no code of functions loaded from its cache."""
    from numba import jit

    fresh = jit(**dispatcher.targetoptions)(dispatcher.py_func)
    fresh.compile(signature)
    assembly = fresh.inspect_asm(fresh.signatures[0])
    lines = tuple(visible(assembly))
    words, left_out = ", ".join(map(str, signature)), max(0, len(lines) - MOST_LINES)
    name = dispatcher.__name__
    return HostFunction(name, words, lines[:MOST_LINES], left_out, vector_bits(assembly), host_mix(lines))


def visible(assembly: str) -> Iterator[str]:
    """Yield the labels and instructions of assembly, without directives and comments."""
    for line in assembly.splitlines():
        if not DIRECTIVE.match(line) or LABEL.match(line):
            yield line.replace("\t", "    ", 1).replace("\t", " ")


# -- Numba-CUDA

# parameters of labs in Numba's simulator; a lab uses those that it has
SMALL = {"ny": 24, "nx": 40, "n": 16, "chunk": 1, "max_iterations": 50}


def numba_cuda_listing(file: CodeFile, dtype: str, architecture: str, report: Report) -> Listing:
    """Return the kernels of a file with Numba's GPU backend. Raise ValueError with the reason if that fails."""
    from compute.own.gpu_numba_code import code_of

    try:
        made = code_of(partial(run_small, file, dtype), architecture, report)
    except RuntimeError as error:  # CodeUnavailable
        raise ValueError(str(error)) from error
    return Listing(architecture, made.ptx, made.kernels, made.threads)


def run_small(file: CodeFile, dtype: str) -> None:
    """Launch the kernels of the file at a small size."""
    if file.lab:
        kind = lab_class(file.lab)
        values = {name: value for name, value in {**SMALL, "dtype": dtype}.items() if name in kind.param}
        with closing(kind(**values, **dict(file.values), backend=file.backend.name)) as opened:
            for steps in STEPS[:1] if kind.ENDS else STEPS:
                opened.advance(steps)
    else:
        _run_way(file.workload, file.way, dtype)


# -- requests


@dataclass(frozen=True)
class Asked:
    """A request for a listing. saved: modification time of the file, in ns."""

    file: CodeFile
    dtype: str
    architecture: str
    saved: int

    def task(self) -> ChildTask:
        """Return the function that a job runs for this request."""
        file = self.file
        match file.made:
            case "cuda":
                text = file.text if file.language == "python" else ""
                return partial(cuda_listing, file.path, dict(file.defines), self.dtype, self.architecture, text=text)
            case "numba" if file.lab:
                module = file.path.stem if file.values else ""
                return partial(
                    lab_functions, file.lab, file.backend.name, self.dtype, values=file.values, module=module
                )
            case "numba.cuda":
                return partial(numba_cuda_listing, file, self.dtype, self.architecture)
            case "numba":
                return partial(way_functions, file.workload, file.way, self.dtype)
        raise CodeUnavailable(file.why_nothing)


class ListingStore:
    """The listings of a server. Only one event loop at a time may call it."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[Asked, Job] = OrderedDict()

    def ask(self, file: CodeFile, dtype: str, architecture: str, client: Hashable) -> Job:
        """Return the job whose `result` is the listing of `file`; start it if it is new, failed or cancelled.

        Raise CodeUnavailable with the reason if the file has no code to compile, OSError if the file does not exist,
        and ValueError for an unknown architecture.
        """
        if file.made == "nothing":
            raise CodeUnavailable(file.why_nothing)
        named("architecture", architecture, ARCHITECTURES)
        host = file.kind == "cpu"
        asked = Asked(file, dtype, PROCESSOR if host else architecture, file.saved)
        job = self._jobs.get(asked)
        if job is None or job.state in ("failed", "cancelled"):
            job = self._jobs[asked] = Job(asked.task(), CODE, client)
            job.start()
        self._jobs.move_to_end(asked)
        for old in [one for one, kept in self._jobs.items() if kept.over][: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[old]
        return job


LISTINGS = ListingStore()
