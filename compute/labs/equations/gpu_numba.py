"""Equations in Numba-CUDA: one launch for each pass of a step, a thread for each cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compute.devices.devices import Array
from compute.devices.gpu_numba_kernel import generated
from compute.labs.equations.forms import Program
from compute.labs.equations.forms.numba_cuda_form import THREADS
from compute.labs.equations.kept import module_of
from compute.labs.equations.stepping import Launch, State, advance


def step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance `state` by `steps` >= 1 steps of dt.

    state: of stepping.begin for `program`, float32 or float64, any shape from 1 x 1; numbers: the value of each
    parameter. The first call with a program compiles it.
    """
    dtype = state.dtype.name
    launch = program.kept(("numba-cuda kernels", dtype), lambda: _kernels(program, dtype))
    advance(program, launch, state, numbers, dt, steps)


def _kernels(program: Program, dtype: str) -> Launch:
    (text,) = program.sources("numba-cuda", dtype)
    module = module_of(text)
    kernels = [generated(getattr(module, each.step_name), f"equations.{each.step_name}") for each in program.kernels]

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Launch pass k."""
        ny, nx = written[0].shape
        grid = -(-nx // THREADS[0]), -(-ny // THREADS[1])
        kernels[k][grid, THREADS](*read, *written, *scalars)

    return launch


VARIANTS: dict[str, Callable[..., None]] = {"one-step": step}
