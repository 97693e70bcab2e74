"""Slow on purpose, in Numba-CUDA: what the lecture writes first. Same counts as gpu_numba's `direct`, no shortcuts."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit

from compute.labs.mandelbrot.gpu_numba_pixels import iterate_pixels
from compute.labs.mandelbrot.slow_steps import complex_power, each_step, literals
from compute.labs.mandelbrot.state import Part, State


def with_a_test_each_step(state: State, part: Part) -> None:
    """As gpu_numba.direct, with an escape test after each step."""
    iterate_pixels(_each_step, state, part)


def with_literals(state: State, part: Part) -> None:
    """As with_a_test_each_step, written with the literals 2 and 4.0: float32 pixels are computed in float64."""
    iterate_pixels(_literals, state, part)


def with_complex_numbers(state: State, part: Part) -> None:
    """As gpu_numba.direct, with z**2 + c and abs(z) on complex numbers."""
    iterate_pixels(_complex, state, part)


@njit
def _each_step(x, y, cr, ci, n, end, constants, shortcuts):  # type: ignore[no-untyped-def]
    return each_step(x, y, cr, ci, n, end, constants[1])


@njit
def _literals(x, y, cr, ci, n, end, constants, shortcuts):  # type: ignore[no-untyped-def]
    return literals(x, y, cr, ci, n, end)


@njit
def _complex(x, y, cr, ci, n, end, constants, shortcuts):  # type: ignore[no-untyped-def]
    return complex_power(x, y, cr, ci, n, end)


SLOW: dict[str, Callable[[State, Part], None]] = {
    "test each step": with_a_test_each_step,
    "float64 literals": with_literals,
    "complex z**2": with_complex_numbers,
}
