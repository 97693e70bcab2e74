"""Equations in WGSL for any GPU: a launch for each pass of a step, or for several steps of a single pass. float32 only.

Products round before they are added, as in NumPy: the results are equal to NumPy's bit for bit, if the equations have
no functions but sqrt, abs, min, max, step and where, and the GPU divides and takes roots correctly rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compute.devices import wgsl
from compute.devices.devices import Array
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.wgsl_form import THREAD_ROWS, THREADS
from compute.labs.equations.forms.wgsl_steps_form import MultiStepStrips
from compute.labs.equations.stepping import Launch, State, advance

PRODUCTS = 1  # of WgslProgram: the roundings that are kept


def step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance `state` by `steps` >= 1 steps of dt.

    state: of stepping.begin for `program`, float32, any shape from 1 x 1; numbers: the value of each parameter. The
    first call with a program compiles it.
    """
    strips = program.steps_strips()
    if strips is not None and steps >= strips.steps:
        many = program.kept("wgsl many", lambda: _many_steps(program, strips))
        advance(program, many, state, numbers, dt, steps - steps % strips.steps, strips.steps)
        steps %= strips.steps
    if steps:
        one_step(program, state, numbers, dt, steps)


def one_step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance as `step`, but with one launch for each pass of a step. The results are equal bit for bit."""
    advance(program, program.kept("wgsl kernels", lambda: _kernels(program)), state, numbers, dt, steps)


def _kernels(program: Program) -> Launch:
    programs = [wgsl.program(text, PRODUCTS) for text in program.sources("wgsl")]

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch pass k."""
        ny, nx = written[0].shape
        grid = -(-nx // THREADS[0]), -(-ny // (THREADS[1] * THREAD_ROWS))
        wgsl.launch(programs[k], "step", grid, (*read, *written), np.int32(ny), np.int32(nx), *scalars)

    return launch


def _many_steps(program: Program, strips: MultiStepStrips) -> Launch:
    text, (kernel,) = wgsl.program(program.steps_source("wgsl"), PRODUCTS), program.kernels

    def launch(_: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch the steps."""
        ny, nx = written[0].shape
        *groups, rows = strips.cut(ny, nx)
        inputs = dict(zip(kernel.cell.sources, read, strict=True))
        outputs = dict(zip(kernel.cell.targets, written, strict=True))
        arrays = [inputs[name] for name in program.system.fields] + [outputs[name] for name in program.system.fields]
        wgsl.launch(text, "many_steps", groups, arrays, np.int32(ny), np.int32(nx), np.int32(rows), *scalars)

    return launch


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step}
