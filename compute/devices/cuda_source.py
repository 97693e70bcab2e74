"""Compiles the .cu file next to a caller, to kernels for this GPU or, without any GPU, to machine code.

The kernels operate on arrays of CuPy or of Numba. CuPy, Numba and NVRTC are imported when a file is compiled, never at
import of this file. No headers are required: the sources use only CUDA's built-in functions. A line `#include "name"`
includes a file from the folder of the .cu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.builds import building

Defines = Mapping[str, int | str | float]
STANDARD = "--std=c++17"
EXACT = "--fmad=false"  # no fused multiply-add: the roundings of NumPy
MOST_TEXTS = 64  # modules of generated texts in a process


class CudaSourceError(RuntimeError):
    """A .cu file was refused; the message contains the compiler's log."""


@dataclass(frozen=True)
class SourceBuild:
    """Compiler options of a lab for one .cu.

    usual: threads of a block, 0 if unknown; threads: the same by kernel, for kernels that differ from `usual`.
    """

    defines: Defines
    usual: int = 0
    threads: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Resources:
    """Resources of one kernel, as reported by ptxas: registers per thread, the rest in bytes."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@dataclass(frozen=True)
class Binary:
    """Machine code for one architecture, with the resources of each kernel by name, the compiler's log, and the PTX."""

    cubin: bytes
    resources: dict[str, Resources]
    log: str
    ptx: str = ""


def compile_cuda(path: Path, *, defines: Defines) -> Any:
    """Return a cupy.RawModule of `path` for the current GPU: `.get_function(name)` returns a kernel.

    Compiled once per process for each set of defines and GPU; CuPy stores the binary on disk for later processes.
    Raises CudaSourceError with the log.
    """
    import cupy

    return _module(path, tuple(sorted(defines.items())), cupy.cuda.Device().id)


@cache
def _module(path: Path, defines: tuple[tuple[str, int | str | float], ...], device: int) -> Any:
    with building(f"{path.parent.name}.{path.name}"):
        return _compiled(source_text(path), _options(dict(defines)), device, f"{path.name} with {dict(defines)}")


def compile_cuda_text(text: str, *, name: str) -> Any:
    """Return a cupy.RawModule of a generated text, whose products are not fused with sums, for the current GPU.

    Compiled once per process for each text and GPU, of which the last used MOST_TEXTS are kept. name: of the kernel, in
    messages and for `building`. Raises CudaSourceError with the log.
    """
    import cupy

    return _text_module(text, name, cupy.cuda.Device().id)


@lru_cache(maxsize=MOST_TEXTS)
def _text_module(text: str, name: str, device: int) -> Any:
    with building(name):
        return _compiled(text, (STANDARD, EXACT), device, name)


def load_cubin(path: Path) -> Any:
    """Return the cupy.RawModule of a file with machine code for the current GPU.

    Loaded once per process and GPU. Raises RuntimeError if the driver refuses the file.
    """
    import cupy

    return _loaded(path, cupy.cuda.Device().id)


@lru_cache(maxsize=MOST_TEXTS)
def _loaded(path: Path, device: int) -> Any:
    import cupy

    with cupy.cuda.Device(device):
        module = cupy.RawModule(path=str(path))
        module.compile()  # loads it
    return module


def nvrtc_version() -> str:
    """Return the version of NVRTC with which `check_cuda_text` compiles, "" if its packages are not installed."""
    try:
        from cuda.bindings import nvrtc

        status, *numbers = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        return ""
    return "" if status.value else ".".join(map(str, numbers))


def _compiled(text: str, options: tuple[str, ...], device: int, name: str) -> Any:
    import cupy

    with cupy.cuda.Device(device):
        module = cupy.RawModule(code=text, options=options)
        try:
            module.compile()
        except cupy.cuda.compiler.CompileException as error:
            raise CudaSourceError(f"{name}:\n{error}") from error
    return module


def numba_gpu() -> Any:
    """Return Numba's current GPU in this thread, with its `id` and `compute_capability`."""
    from numba import cuda

    return cuda.get_current_device()


def compile_for_numba(path: Path, *, defines: Defines) -> DriverModule:
    """Return a module as compile_cuda does, without CuPy: NVRTC compiles, the driver loads and launches.

    Requires the package cuda-bindings, a dependency of numba-cuda. Raises CudaSourceError with the log.
    """
    from cuda.bindings import driver

    architecture = "sm_" + "".join(map(str, numba_gpu().compute_capability))
    with building(f"{path.parent.name}.{path.name}"):
        cubin = check_cuda(path, defines=defines, architecture=architecture).cubin
    return DriverModule(_checked(driver.cuModuleLoadData(cubin)))


@dataclass(frozen=True)
class DriverModule:
    """Kernels that the driver has loaded on the current GPU; implements the part of cupy.RawModule used here."""

    handle: Any

    def get_function(self, name: str) -> DriverKernel:
        """Return the kernel of that name."""
        from cuda.bindings import driver

        return DriverKernel(_checked(driver.cuModuleGetFunction(self.handle, name.encode())))


@dataclass(frozen=True)
class DriverKernel:
    """A kernel for arrays of any library that exposes their addresses (`__cuda_array_interface__`).

    Called like CuPy's kernels: with the grid, the block, and arrays or NumPy scalars. Uses the default stream.
    """

    function: Any

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        """Launch the kernel on the current stream."""
        from cuda.bindings import driver

        held = [np.asarray(value if isinstance(value, np.generic) else _pointer(value)) for value in arguments]
        places = np.array([value.ctypes.data for value in held], np.uintp)  # for the driver to read the arguments
        sizes = (*grid, 1, 1)[:3] + (*block, 1, 1)[:3]
        _checked(driver.cuLaunchKernel(self.function, *sizes, 0, 0, places.ctypes.data, 0))


def _pointer(array: Any) -> np.uintp:
    return np.uintp(array.__cuda_array_interface__["data"][0])


def _checked(answer: tuple[Any, ...]) -> Any:
    """Return the result of an NVRTC or driver call; CudaSourceError if it is an error."""
    if answer[0].value:
        raise CudaSourceError(f"{type(answer[0]).__name__}: {answer[0].name}")
    return answer[1] if len(answer) > 1 else None


def check_cuda(path: Path, *, defines: Defines, architecture: str, line_numbers: bool = False) -> Binary:
    """Compile `path` for `architecture` (as in "sm_90") with NVRTC alone; requires neither a GPU nor a driver.

    line_numbers: annotate the machine code with source lines; the code itself does not change. Requires the packages
    cuda-bindings and nvidia-cuda-nvrtc. Raises CudaSourceError with the log.
    """
    options = [*_options(defines), *(["-lineinfo"] if line_numbers else [])]
    return _checked_text(source_text(path), path.name, options, architecture, f"{path.name} with {dict(defines)}")


def check_cuda_text(text: str, *, name: str, architecture: str) -> Binary:
    """Compile a generated text as compile_cuda_text does, for `architecture`, with NVRTC alone; see check_cuda."""
    return _checked_text(text, name, [STANDARD, EXACT], architecture, name)


def _checked_text(text: str, file: str, options: Sequence[str], architecture: str, described: str) -> Binary:
    from cuda.bindings import nvrtc

    program = _checked(nvrtc.nvrtcCreateProgram(text.encode(), file.encode(), 0, [], []))
    try:
        options = [*options, f"--gpu-architecture={architecture}", "--ptxas-options=-v"]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        log = bytearray(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
        _checked(nvrtc.nvrtcGetProgramLog(program, log))
        found = log.decode(errors="replace").rstrip("\0\n")
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CudaSourceError(f"{described} for {architecture}:\n{found}")
        cubin = bytearray(_checked(nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc.nvrtcGetCUBIN(program, cubin))
        ptx = bytearray(_checked(nvrtc.nvrtcGetPTXSize(program)))
        _checked(nvrtc.nvrtcGetPTX(program, ptx))
    finally:
        _checked(nvrtc.nvrtcDestroyProgram(program))
    return Binary(bytes(cubin), resources_in(found), found, ptx.decode(errors="replace").rstrip("\0"))


def source_text(path: Path) -> str:
    """Return a .cu with its included files; inlined, because CuPy's cache identifies a kernel only by its text."""
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


def resources_in(log: str) -> dict[str, Resources]:
    """Return the resources of each kernel by name, parsed from the log of ptxas."""
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
