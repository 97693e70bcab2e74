"""Equations in CUDA C, launched with CuPy: a launch for each pass of a step, or for several steps of a single pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.cuda_source import check_cuda_text, compile_cuda_text, load_cubin, nvrtc_version
from compute.devices.devices import Array
from compute.files.files import whole_file
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.cuda_form import THREADS, columns_of, rows_of
from compute.labs.equations.forms.cuda_steps_form import WARP, MultiStepTiling, arrays_read
from compute.labs.equations.kept import digest, stored
from compute.labs.equations.stepping import Launch, State, advance

log = logging.getLogger(__name__)
_UNUSABLE: set[str] = set()  # architectures whose compiled kernels the driver refuses


def step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance `state` by `steps` >= 1 steps of dt.

    state: of stepping.begin for `program`, float32 or float64, any shape from 1 x 1; numbers: the value of each
    parameter. The first call with a program compiles it.
    """
    dtype = state.dtype.name
    device = state.now[program.system.fields[0]].device
    with device:
        tiling = program.steps_tiling(dtype)
        if tiling is not None and steps >= tiling.steps:
            many = program.kept(("cuda many", dtype, device.id), lambda: _many_steps(program, tiling, dtype, device.id))
            advance(program, many, state, numbers, dt, steps - steps % tiling.steps, tiling.steps)
            steps %= tiling.steps
        if steps:
            one_step(program, state, numbers, dt, steps)


def one_step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance as `step`, but with one launch for each pass of a step. The results are equal bit for bit."""
    dtype = state.dtype.name
    device = state.now[program.system.fields[0]].device
    with device:
        launch = program.kept(("cuda kernels", dtype, device.id), lambda: _kernels(program, dtype))
        advance(program, launch, state, numbers, dt, steps)


def load(program: Program, variant: str, dtype: str, index: int) -> None:
    """Load the kernels of a program from the cache, or compile them. index: number of the GPU."""
    import cupy

    made_for = target(index)
    with cupy.cuda.Device(index):
        program.kept(("cuda kernels", dtype, index), lambda: _kernels(program, dtype, made_for))
        tiling = None if VARIANTS.get(variant) is one_step else program.steps_tiling(dtype)
        if tiling is not None:
            program.kept(("cuda many", dtype, index), lambda: _many_steps(program, tiling, dtype, index, made_for))


def target(index: int) -> str | None:
    """Return the architecture for which kernels are compiled, as in "sm_90".

    None if another process cannot compile, since cuda-bindings is not installed or the driver is older than its NVRTC.
    """
    import cupy

    found = f"sm_{cupy.cuda.Device(index).compute_capability}"
    return found if nvrtc_version() and found not in _UNUSABLE else None


def build(program: Program, variant: str, dtype: str, target: str) -> None:
    """Compile the kernels of a program into the cache, for the architecture `target`; no GPU is needed."""
    several = VARIANTS.get(variant) is not one_step and program.steps_tiling(dtype) is not None
    for text in (*program.sources("cuda", dtype), *([program.steps_source("cuda", dtype)] if several else [])):
        path = cubin_of(text, target)
        if not path.is_file():
            binary = check_cuda_text(text, name=name_of(text), architecture=target)
            with whole_file(path) as made:
                made.write_bytes(binary.cubin)


def warm_up() -> None:
    """Load NVRTC, which needs no GPU."""
    nvrtc_version()


def name_of(text: str) -> str:
    """Return the name of a program in messages."""
    return f"equations.{digest(text)}.cu"


def cubin_of(text: str, target: str) -> Path:
    """Return the file with the machine code of a program, which may not exist."""
    return stored(text, ".cu").with_name(f"{target}-{nvrtc_version()}.cubin")


def _module(text: str, made_for: str | None) -> Any:
    """Return the module of a program on the current GPU. made_for: of its file in the cache, None without one."""
    if made_for is not None and (path := cubin_of(text, made_for)).is_file():
        try:
            return load_cubin(path)
        except RuntimeError as error:
            log.warning("kernels of NVRTC %s are compiled in place: %s", nvrtc_version(), error)
            _UNUSABLE.add(made_for)
    return compile_cuda_text(text, name=name_of(text))


def _kernels(program: Program, dtype: str, made_for: str | None = None) -> Launch:
    (text,) = program.sources("cuda", dtype)
    module = _module(text, made_for)
    functions = [module.get_function(each.step_name) for each in program.kernels]
    width, height = THREADS[0] * columns_of(dtype), THREADS[1] * rows_of(program.kernels)

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch pass k."""
        ny, nx = written[0].shape
        grid = -(-nx // width), -(-ny // height)
        functions[k](grid, THREADS, (*read, *written, np.int32(ny), np.int32(nx), *scalars))

    return launch


def _many_steps(
    program: Program, tiling: MultiStepTiling, dtype: str, device: int, made_for: str | None = None
) -> Launch:
    text = program.steps_source("cuda", dtype)
    function = _module(text, made_for).get_function("many_steps")
    processors, (kernel,) = multiprocessors(device), program.kernels

    def launch(_: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch the steps."""
        ny, nx = written[0].shape
        warps, rows = tiling.cut(ny, nx, processors)
        inputs = dict(zip(kernel.cell.sources, read, strict=True))
        outputs = dict(zip(kernel.cell.targets, written, strict=True))
        arrays = *(inputs[name] for name in arrays_read(kernel)), *(outputs[name] for name in program.system.fields)
        function((warps,), (WARP,), (*arrays, np.int32(ny), np.int32(nx), np.int32(rows), *scalars))

    return launch


@cache
def multiprocessors(device: int) -> int:
    """Return the number of SMs of a GPU."""
    import cupy

    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step}
QUICK = ""  # both compile in less than a second
