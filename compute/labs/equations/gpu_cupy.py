"""Equations in CUDA C, launched with CuPy: a launch for each pass of a step, or for several steps of a single pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda_text
from compute.devices.devices import Array
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.cuda_form import THREADS, columns_of, rows_of
from compute.labs.equations.forms.cuda_steps_form import WARP, MultiStepTiling, arrays_read
from compute.labs.equations.kept import digest
from compute.labs.equations.stepping import Launch, State, advance


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


def _kernels(program: Program, dtype: str) -> Launch:
    (text,) = program.sources("cuda", dtype)
    module = compile_cuda_text(text, name=f"equations.{digest(text)}.cu")
    functions = [module.get_function(each.step_name) for each in program.kernels]
    width, height = THREADS[0] * columns_of(dtype), THREADS[1] * rows_of(program.kernels)

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch pass k."""
        ny, nx = written[0].shape
        grid = -(-nx // width), -(-ny // height)
        functions[k](grid, THREADS, (*read, *written, np.int32(ny), np.int32(nx), *scalars))

    return launch


def _many_steps(program: Program, tiling: MultiStepTiling, dtype: str, device: int) -> Launch:
    text = program.steps_source("cuda", dtype)
    function = compile_cuda_text(text, name=f"equations.{digest(text)}.cu").get_function("many_steps")
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
