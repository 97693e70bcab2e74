"""Equations in CUDA C, launched with CuPy: one launch for each pass of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda_text
from compute.devices.devices import Array
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.cuda_form import THREADS, columns_of, rows_of
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
        launch = program.kept(("cuda kernels", dtype, device.id), lambda: _kernels(program, dtype))
        advance(program, launch, state, numbers, dt, steps)


def _kernels(program: Program, dtype: str) -> Launch:
    (text,) = program.sources("cuda", dtype)
    module = compile_cuda_text(text, name=f"equations.{digest(text)}.cu")
    kernels = [module.get_function(each.step_name) for each in program.sweeps]
    width, height = THREADS[0] * columns_of(dtype), THREADS[1] * rows_of(program.sweeps)

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch pass k."""
        ny, nx = written[0].shape
        grid = -(-nx // width), -(-ny // height)
        kernels[k](grid, THREADS, (*read, *written, np.int32(ny), np.int32(nx), *scalars))

    return launch
