"""Compilation of the kernels of a text in a child process.

The file of each backend in APART exports four functions. `load` loads the kernels of a program from the cache, or
compiles them. `build` compiles kernels into the cache; jobs call it. `target` returns the processor for which kernels
are compiled, None if a child process cannot compile them. `warm_up` initialises the compiler. QUICK is the variant that
is compiled first and computes while the chosen one compiles, "" for none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from compute.devices import kernel_cache
from compute.devices.backends import backend
from compute.devices.builds import NotBuilt, only_built
from compute.lab.compilation import Compilation
from compute.labs.equations.forms import Program
from compute.labs.equations.kept import digest
from compute.labs.equations.programs import picture_of, program_of
from compute.process.tasks import Report

PACKAGE = __name__.rpartition(".")[0]
APART = ("cpu_numba", "gpu_cupy")  # NumPy compiles nothing; Numba-CUDA and WGSL compile in place


def compilation_of(name: str, variant: str, text: str, show: str, dtype: str, index: int) -> Compilation | None:
    """Load the kernels of a text and of its second picture; return the task that compiles missing ones, or None.

    name, variant: of the backend and its kernel; show: expression of the second picture; index: number of the GPU.
    """
    if name not in APART:
        return None
    kernels = backend(name).kernels(PACKAGE)
    target = kernels.target(index)
    if target is None:
        return None

    programs, quick = _programs(text, show), kernels.QUICK

    def is_missing(programs: list[Program], variant: str) -> bool:
        """Load kernels from the cache; return whether one is not there."""
        try:
            with only_built():
                for program in programs:
                    kernels.load(program, variant, dtype, index)
        except NotBuilt:
            return True
        return False

    def compilation(variant: str, meanwhile: str) -> Compilation:
        """Return the task that compiles a kernel while another one computes."""
        key = digest(f"{name} {variant} {dtype} {target}\n{show}\n{text}")
        return Compilation(key, partial(compile_kernels, name, variant, text, show, dtype, target), meanwhile)

    if not is_missing(programs, variant):
        return None
    if quick in ("", variant) or not is_missing(programs[:1], variant):  # only the second picture is missing
        return compilation(variant, "")
    return compilation(quick, "") if is_missing(programs, quick) else compilation(variant, quick)


def compiler_of(name: str, index: int) -> Callable[..., Any] | None:
    """Return a ChildTask that initialises the compiler of a backend; None if no child process compiles its kernels."""
    if name not in APART or backend(name).kernels(PACKAGE).target(index) is None:
        return None
    return partial(warm_up, name)


def warm_up(name: str, report: Report) -> None:
    """Import and initialise the compiler of the backend `name`; a ChildTask."""
    report(0.0, "starting the compiler")
    import_module(f"{PACKAGE}.{name}").warm_up()


def _programs(text: str, show: str) -> list[Program]:
    """Return the programs of a text that have kernels; a second picture of a plain field has none."""
    return [each for each in (program_of(text), picture_of(text, show)) if each.plan.passes]


def compile_kernels(name: str, variant: str, text: str, show: str, dtype: str, target: str, report: Report) -> None:
    """Compile the kernels of a text and of its second picture into the cache; a ChildTask.

    Raise ValueError if the cache folder is read-only.
    """
    if problem := kernel_cache.problem():
        raise ValueError(f"compiled kernels cannot be cached: {problem}")
    kernels = import_module(f"{PACKAGE}.{name}")  # also without the GPU that `backend(name)` requires
    for program in _programs(text, show):
        report(0.0, "compiling")
        kernels.build(program, variant, dtype, target)
