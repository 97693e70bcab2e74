"""The Mandelbrot set in CUDA C, launched with CuPy. Launches only: nothing here allocates, waits or measures."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import compile_cuda
from compute.devices import Array
from compute.labs.mandelbrot.gpu_deep import far, perturbed
from compute.labs.mandelbrot.gpu_launch import BLOCK, grid, numbers
from compute.labs.mandelbrot.gpu_table import bla
from compute.labs.mandelbrot.state import MARGIN, Part, State

__all__ = ["VARIANTS", "bla", "counts_only", "direct", "far", "perturbed", "pick"]

SOURCE = Path(__file__).with_suffix(".cu")
SLOW_SOURCE = SOURCE.with_name("gpu_slow.cu")
REAL = {"float32": "float", "float64": "double"}
THREADS = 256  # a block of `pick`


def direct(state: State, part: Part) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    _launch(SOURCE, "direct_shortcuts" if part.shortcuts else "direct", state, part)


def counts_only(state: State, part: Part) -> None:
    """As `direct` without shortcuts; writes no smooth count of a pixel that escapes."""
    _launch(SOURCE, "counts_only", state, part)


def with_a_test_each_step(state: State, part: Part) -> None:
    """As `direct`, with an escape test after each step and no shortcuts."""
    _launch(SLOW_SOURCE, "each_step", state, part)


def with_additions(state: State, part: Part) -> None:
    """As `direct`, with the doubling as an addition of two numbers and no shortcuts."""
    _launch(SLOW_SOURCE, "additions", state, part)


def pick(values: Array, out: Array, stride: int) -> None:
    """out (py, px) = every stride-th value of values (ny, nx) in both directions, from (0, 0) on; both float32."""
    sizes = values.shape[1], out.shape[1], out.size, stride
    with out.device:
        kernel = _kernel("pick", "float32", out.device.id)
        kernel((-(-out.size // THREADS),), (THREADS,), (values, out, *map(np.int32, sizes)))


def _launch(source: Path, name: str, state: State, part: Part) -> None:
    z = state.z
    arrays = state.re, state.im, z, state.count, state.smooth, state.totals
    margin = z.dtype.type(MARGIN[z.dtype.name])
    with z.device:
        kernel = _kernel(name, z.dtype.name, z.device.id, source)
        kernel(grid(state, part), BLOCK, (*arrays, margin, *numbers(state, part)))


@cache
def _kernel(name: str, dtype: str, device: int, source: Path = SOURCE) -> Any:
    """The kernel for the current GPU, which is number `device`."""
    return compile_cuda(source, defines={"REAL": REAL[dtype]}).get_function(name)


VARIANTS: dict[str, Callable[[State, Part], None]] = {  # the first is the default
    "block": direct,
    "doubling by addition": with_additions,
    "test each step": with_a_test_each_step,
}
