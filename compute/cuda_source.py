"""Compiles a .cu file that lies beside its caller: to CuPy kernels for this GPU, or without any GPU to machine code.

CuPy and NVRTC are imported when something is compiled, never at import of this file. No headers are needed: the
sources use CUDA's built-in functions only. A line `#include "name"` takes in a file that lies beside the .cu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from compute.builds import building

Defines = Mapping[str, int | str | float]
STANDARD = "--std=c++17"


class CudaSourceError(RuntimeError):
    """A .cu file was refused; the message holds the compiler's log."""


@dataclass(frozen=True)
class Resources:
    """What one kernel takes, as ptxas reports it: registers a thread, the rest in bytes."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@dataclass(frozen=True)
class Binary:
    """Machine code for one architecture, with the resources of each kernel by name and the compiler's log."""

    cubin: bytes
    resources: dict[str, Resources]
    log: str


def compile_cuda(path: Path, *, defines: Defines) -> Any:
    """A cupy.RawModule of `path` for the current GPU: `.get_function(name)` gives a kernel.

    Compiled once a process for each set of defines and GPU; CuPy keeps the binary on disk for the next process.
    Raises CudaSourceError with the log.
    """
    import cupy

    return _module(path, tuple(sorted(defines.items())), cupy.cuda.Device().id)


@cache
def _module(path: Path, defines: tuple[tuple[str, int | str | float], ...], device: int) -> Any:
    import cupy

    with cupy.cuda.Device(device), building():
        module = cupy.RawModule(code=source_text(path), options=_options(dict(defines)))
        try:
            module.compile()
        except cupy.cuda.compiler.CompileException as error:
            raise CudaSourceError(f"{path.name} with {dict(defines)}:\n{error}") from error
    return module


def check_cuda(path: Path, *, defines: Defines, architecture: str) -> Binary:
    """Compile `path` for `architecture` (as in "sm_90") with NVRTC alone: needs neither a GPU nor a driver.

    Needs the packages cuda-bindings and nvidia-cuda-nvrtc. Raises CudaSourceError with the log.
    """
    from cuda.bindings import nvrtc

    def checked(answer: tuple[Any, ...]) -> Any:
        if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CudaSourceError(f"NVRTC: {answer[0].name}")
        return answer[1] if len(answer) > 1 else None

    program = checked(nvrtc.nvrtcCreateProgram(source_text(path).encode(), path.name.encode(), 0, [], []))
    try:
        options = [*_options(defines), f"--gpu-architecture={architecture}", "--ptxas-options=-v"]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = bytearray(checked(nvrtc.nvrtcGetProgramLogSize(program)))
        checked(nvrtc.nvrtcGetProgramLog(program, log))
        text = log.decode(errors="replace").rstrip("\0\n")
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CudaSourceError(f"{path.name} with {dict(defines)} for {architecture}:\n{text}")
        cubin = bytearray(checked(nvrtc.nvrtcGetCUBINSize(program)))
        checked(nvrtc.nvrtcGetCUBIN(program, cubin))
    finally:
        checked(nvrtc.nvrtcDestroyProgram(program))
    return Binary(bytes(cubin), _resources(text), text)


def source_text(path: Path) -> str:
    """The text of a .cu with the files it includes; inlined, because CuPy's cache knows a kernel by its text alone."""
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        included = re.fullmatch(r'#include "([\w.]+)"', line)
        if included:
            header = source_text(path.with_name(included[1]))
            lines += [f'#line 1 "{included[1]}"', header.rstrip("\n"), f'#line {number + 1} "{path.name}"']
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _options(defines: Defines) -> tuple[str, ...]:
    return (STANDARD, *(f"-D{name}={value}" for name, value in defines.items()))


def _resources(log: str) -> dict[str, Resources]:
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        numbers = {
            "registers": r"Used (\d+) registers",
            "stack": r"(\d+) bytes stack frame",
            "spill_stores": r"(\d+) bytes spill stores",
            "spill_loads": r"(\d+) bytes spill loads",
            "shared": r"(\d+) bytes smem",
        }
        hits = {key: re.search(pattern, part) for key, pattern in numbers.items()}
        found[part.split("'", 1)[0]] = Resources(**{key: int(hit[1]) if hit else 0 for key, hit in hits.items()})
    return found
