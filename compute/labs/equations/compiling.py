"""Compilation of the kernels of a text in a child process.

The file of each backend in APART exports three functions. `load` loads the kernels of a program from the cache, or
compiles them. `build` compiles kernels into the cache; jobs call it. `target` returns the processor for which kernels
are compiled, None if a child process cannot compile them.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

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
    try:
        with only_built():
            for program in _programs(text, show):
                kernels.load(program, variant, dtype, index)
    except NotBuilt:
        key = digest(f"{name} {variant} {dtype} {target}\n{show}\n{text}")
        return Compilation(key, partial(compile_kernels, name, variant, text, show, dtype, target))
    return None


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
