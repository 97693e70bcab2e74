"""The Mandelbrot set in WGSL for any GPU: direct iteration in float32. The functions only launch.

`direct` rounds like cpu_numpy.py, so that the counts are equal to NumPy's in float32. `fused` contracts the products
and sums of a step, as the other GPU backends do. There is no float64 in WGSL, so this file lacks perturbation and the
attracting cycle: lab.py and refinement.py let a backend of the host compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from compute.devices.devices import Array
from compute.devices.wgsl import WgslProgram, launch
from compute.display.gpu_wgpu import gather
from compute.labs.mandelbrot.formula import BLOCK
from compute.labs.mandelbrot.state import MARGIN, TALL, LaunchPart, PixelArrays, grid, numbers, tiles

SOURCE = Path(__file__).with_suffix(".wgsl")
LONG, SOON = 128, 256  # steps between two escape tests from SOON iterations on, BLOCK before
TEST, ROUNDS = 5, 4  # steps between two escape tests in a picture with few iterations; tests for the lesson's 20
COMPLEX = {"single": "vec2<f32>", "double": "vec4<f32>"}


def _programs(
    step: str, smooth: int, exact: int, kind: str = "single", long: int = LONG
) -> tuple[WgslProgram, WgslProgram]:
    """Return the programs without and with shortcuts; the tests for shortcuts would slow down every loop."""
    blocks = ("BLOCK", BLOCK), ("LONG", long), ("SOON", SOON), ("TEST", TEST), ("ROUNDS", ROUNDS)
    names = ("POINT", f"{kind}_point"), ("READ", f"read_{kind}"), ("WRITE", f"write_{kind}")
    defines = *blocks, *names, ("COMPLEX", COMPLEX[kind]), ("TALL", TALL), ("STEP", step), ("SMOOTH", smooth)
    without, with_shortcuts = (WgslProgram(SOURCE, (*defines, ("SHORTCUTS", k)), exact) for k in (0, 1))
    return without, with_shortcuts


EXACT, COUNTS, FUSED = _programs("separate", 1, 1), _programs("separate", 0, 1), _programs("contracted", 1, 0)
DOUBLED = _programs("double_single", 1, 2, "double", BLOCK)  # a long block would be a long program
PROGRAMS = {  # for the code panel
    "block": EXACT[1],
    "block without shortcuts": EXACT[0],
    "fused": FUSED[1],
    "double-single": DOUBLED[1],
}


def direct(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate z^2 + c on the pixels of `part`, in float32.

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    _launch(EXACT, state, part)


def counts_only(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like `direct`, without smooth counts."""
    _launch(COUNTS, state, part)


def fused(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like `direct`, with fused multiply-adds: fewer operations, and other roundings than on the host."""
    _launch(FUSED, state, part)


def double_single(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like `direct`, in sums of two float32 numbers.

    re (2, nx), im (2, ny), z (4, ny, nx): the larger numbers first.
    """
    _launch(DOUBLED, state, part)


def pick(values: Array, out: Array, stride: int) -> None:
    """Copy every stride-th value of values (ny, nx) in both directions, from (0, 0), to out (py, px); both float32."""
    gather(values, out, stride, 1, 0, 0, np.nan)


def _launch(programs: tuple[WgslProgram, WgslProgram], state: PixelArrays, part: LaunchPart) -> None:
    if state.z.dtype != np.float32:
        raise TypeError(f"z must be float32 on WebGPU, not {state.z.dtype}")
    arrays = state.re, state.im, state.z, state.count, state.smooth, state.totals
    name, groups = ("few", tiles(state, part)) if part.few else ("direct", grid(state, part))
    *sizes, shortcuts = numbers(state, part)
    launch(programs[int(shortcuts)], name, groups, arrays, *sizes, np.float32(MARGIN["float32"]))


VARIANTS: dict[str, Callable[[PixelArrays, LaunchPart], None]] = {"block": direct, "fused": fused}
