"""Equations in WGSL for any GPU: one launch for each pass of a step. float32 only.

Products round before they are added, as in NumPy: the results are equal to NumPy's bit for bit, if the equations have
no functions but sqrt, abs, min, max, step and where, and the GPU divides and takes roots correctly rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compute.devices import wgsl
from compute.devices.devices import Array
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.wgsl_form import THREAD_ROWS, THREADS
from compute.labs.equations.stepping import Launch, State, advance

PRODUCTS = 1  # of wgsl.Program: the roundings that are kept


def step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance `state` by `steps` >= 1 steps of dt.

    state: of stepping.begin for `program`, float32, any shape from 1 x 1; numbers: the value of each parameter. The
    first call with a program compiles it.
    """
    advance(program, program.kept("wgsl kernels", lambda: _kernels(program)), state, numbers, dt, steps)


def _kernels(program: Program) -> Launch:
    programs = [wgsl.program(text, PRODUCTS) for text in program.sources("wgsl")]

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch pass k."""
        ny, nx = written[0].shape
        grid = -(-nx // THREADS[0]), -(-ny // (THREADS[1] * THREAD_ROWS))
        wgsl.launch(programs[k], "step", grid, (*read, *written), np.int32(ny), np.int32(nx), *scalars)

    return launch
