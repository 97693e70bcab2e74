"""Equations in NumPy: the reference. All other backends export the same function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy import errstate

from compute.devices.devices import Array
from compute.labs.equations.forms import Program
from compute.labs.equations.kept import module_of
from compute.labs.equations.stepping import Launch, State, advance


def step(program: Program, state: State, numbers: Mapping[str, float], dt: float, steps: int) -> None:
    """Advance `state` by `steps` >= 1 steps of dt.

    state: of stepping.begin for `program`, float32 or float64, any shape from 1 x 1; numbers: the value of each
    parameter. Values that are not finite are computed without a warning.
    """
    dtype = state.dtype.name
    launch = program.kept(("numpy kernels", dtype), lambda: _kernels(program, dtype))
    with errstate(all="ignore"):
        advance(program, launch, state, numbers, dt, steps)


def _kernels(program: Program, dtype: str) -> Launch:
    (text,) = program.sources("numpy", dtype)
    functions = [getattr(module_of(text), each.step_name) for each in program.kernels]

    def launch(k: int, read: Sequence[Array], written: Sequence[Array], scalars: Sequence[Any]) -> None:
        """Compute pass k."""
        functions[k](*read, *written, *scalars)

    return launch


VARIANTS: dict[str, Callable[..., None]] = {"one-step": step}
