"""Perturbation in CUDA C, launched with CuPy: plain float64, and with exponents beyond its range."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.mandelbrot.gpu_launch import BLOCK, grid, numbers
from compute.labs.mandelbrot.state import MARGIN, Part, Reference, State

SOURCE = Path(__file__).with_suffix(".cu")


def perturbed(state: State, part: Part, reference: Reference) -> None:
    """Iterate the pixels of `part` as differences from `reference`, in float64: pixel spacings down to 1e-290.

    Reads re and im (offsets in pixels); reads and writes z, place[0] and count; writes smooth; adds to totals.
    """
    arrays = reference.orbit, reference.table, reference.radius
    own = np.float64(MARGIN["float64"]), np.int32(reference.settled), np.int32(reference.cycle)
    _launch("perturbed", state, part, reference, arrays, own)


def far(state: State, part: Part, reference: Reference) -> None:
    """As `perturbed`, with an exponent of its own for each number: any spacing. Writes place[1] too."""
    arrays = reference.orbit, reference.exponents, reference.table, reference.powers, reference.radius
    _launch("far", state, part, reference, arrays, (np.int32(reference.exponent),))


def _launch(
    name: str, state: State, part: Part, reference: Reference, arrays: tuple[Array, ...], own: tuple[Any, ...]
) -> None:
    pixels = state.re, state.im, state.z, state.place, state.count, state.smooth, state.totals
    orbit = np.float64(reference.reach), np.int32(reference.orbit.shape[0] - 1)
    geometry = map(np.float64, (*reference.centre, reference.spacing))
    with state.z.device:
        kernel = _kernel(name, state.z.device.id)
        kernel(grid(state, part), BLOCK, (*pixels, *arrays, *orbit, *geometry, *own, *numbers(state, part)))


@cache
def _kernel(name: str, device: int) -> Any:
    """The kernel for the current GPU, which is number `device`."""
    return compile_cuda(SOURCE, defines={}).get_function(name)
