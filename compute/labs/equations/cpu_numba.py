"""Equations in Numba on all cores: the rows are shared among threads, the cells of a row become vector instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compute.devices import numba_threads
from compute.devices.devices import Array
from compute.labs.equations.forms import Program
from compute.labs.equations.kept import module_of
from compute.labs.equations.stepping import Launch, State, advance

numba_threads.choose_layer()

PROBE = 64, 512  # cells whose passes determine the time per cell: small grids run on one thread


def step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance `state` by `steps` >= 1 steps of dt.

    state: of stepping.begin for `program`, float32 or float64, any shape from 1 x 1; numbers: the value of each
    parameter. The first call with a program compiles it, if neither this process nor an earlier one has.
    """
    dtype = state.dtype.name
    launch, seconds = program.kept(("numba kernels", dtype), lambda: _kernels(program, dtype))
    regions = steps * len(program.plan.stages) * len(program.kernels)
    ny, nx = state.shape
    with numba_threads.shared(seconds * ny * nx, regions):
        advance(program, launch, state, numbers, dt, steps)


def _kernels(program: Program, dtype: str) -> tuple[Launch, float]:
    """Return the launching function, and the seconds that one thread needs for a pass, per cell."""
    (text,) = program.sources("numba", dtype)
    functions = [getattr(module_of(text), each.step_name) for each in program.kernels]

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Compute pass k."""
        functions[k](*read, *written, *scalars)

    def probe() -> None:
        """Compute each pass of a small grid."""
        for k, each in enumerate(program.kernels):
            read, written = ([np.ones(PROBE, dtype) for _ in names] for names in (each.read, each.written))
            launch(k, read, written, [np.dtype(dtype).type(1)] * len(each.cell.numbers))

    return launch, numba_threads.seconds_alone(probe) / (np.prod(PROBE) * len(program.kernels))


VARIANTS: dict[str, Callable[..., None]] = {"one-step": step}
