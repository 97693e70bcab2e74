"""The Mandelbrot set in CUDA C, launched with CuPy. The functions only launch: they do not allocate, wait or measure.

Sources: gpu_cupy.cu direct iteration, gpu_slow.cu kernels that are slow on purpose, gpu_deep.cu perturbation (plain
float64, and with exponents beyond its range), gpu_table.cu its table of bla.py, gpu_interior.cu the attracting cycle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compute.devices.cuda_source import compile_cuda
from compute.devices.devices import Array
from compute.labs.mandelbrot.reference_orbit import ReferenceOrbit
from compute.labs.mandelbrot.state import BLOCK, MARGIN, TILES, LaunchPart, PixelArrays, grid, numbers, tiles

SOURCE = Path(__file__).with_suffix(".cu")
SLOW_SOURCE = SOURCE.with_name("gpu_slow.cu")
REAL = {"float32": "float", "float64": "double"}
PICK_THREADS = 256  # per block of `pick`
DEEP_SOURCE = SOURCE.with_name("gpu_deep.cu")
TABLE_SOURCE = SOURCE.with_name("gpu_table.cu")
ENTRY_THREADS = 128
INTERIOR_SOURCE = SOURCE.with_name("gpu_interior.cu")


def direct(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    if part.few:
        _launch(SOURCE, "few", tiles(state, part), TILES, state, part)
    else:
        _launch_direct(SOURCE, "direct_shortcuts" if part.shortcuts else "direct", state, part)


def counts_only(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like `direct` without shortcuts; write no smooth count of a pixel that escapes."""
    if part.few:
        _launch(SOURCE, "few_counts", tiles(state, part), TILES, state, part)
    else:
        _launch_direct(SOURCE, "counts_only", state, part)


def with_a_test_each_step(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like `direct`, with an escape test after each step and no shortcuts."""
    _launch_direct(SLOW_SOURCE, "each_step", state, part)


def with_additions(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like `direct`, with the doubling as an addition of two numbers and no shortcuts."""
    _launch_direct(SLOW_SOURCE, "additions", state, part)


def pick(values: Array, out: Array, stride: int) -> None:
    """Copy every stride-th value of values (ny, nx) in both directions, from (0, 0), to out (py, px); both float32."""
    sizes = values.shape[1], out.shape[1], out.size, stride
    with out.device:
        kernel = _kernel(SOURCE, "pick", out.device.id, "float32")
        kernel((-(-out.size // PICK_THREADS),), (PICK_THREADS,), (values, out, *map(np.int32, sizes)))


def _launch_direct(source: Path, name: str, state: PixelArrays, part: LaunchPart) -> None:
    _launch(source, name, grid(state, part), BLOCK, state, part)


def _launch(
    source: Path, name: str, blocks: tuple[int, int], threads: tuple[int, int], state: PixelArrays, part: LaunchPart
) -> None:
    z = state.z
    arrays = state.re, state.im, z, state.count, state.smooth, state.totals
    margin = z.dtype.type(MARGIN[z.dtype.name])
    with z.device:
        kernel = _kernel(source, name, z.device.id, z.dtype.name)
        kernel(blocks, threads, (*arrays, margin, *numbers(state, part)))


# -- perturbation


def perturbed(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate the pixels of `part` as differences from `reference`, in float64: pixel spacings down to 1e-290.

    Reads re and im (offsets in pixels); reads and writes z, place[0] and count; writes smooth; adds to totals.
    """
    arrays = reference.orbit, reference.table, reference.radius
    own = np.float64(MARGIN["float64"]), np.int32(reference.settled), np.int32(reference.cycle)
    _launch_deep("perturbed", state, part, reference, arrays, own)


def far(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate like `perturbed`, with a separate exponent for each number: any pixel spacing. Also writes place[1]."""
    arrays = reference.orbit, reference.exponents, reference.table, reference.powers, reference.radius
    _launch_deep("far", state, part, reference, arrays, (np.int32(reference.exponent),))


def _launch_deep(
    name: str,
    state: PixelArrays,
    part: LaunchPart,
    reference: ReferenceOrbit,
    arrays: tuple[Array, ...],
    own: tuple[Any, ...],
) -> None:
    pixels = state.re, state.im, state.z, state.place, state.count, state.smooth, state.totals
    orbit = np.float64(reference.reach), np.int32(reference.orbit.shape[0] - 1)
    geometry = map(np.float64, (*reference.centre, reference.spacing))
    with state.z.device:
        kernel = _kernel(DEEP_SOURCE, name, state.z.device.id)
        kernel(grid(state, part), BLOCK, (*pixels, *arrays, *orbit, *geometry, *own, *numbers(state, part)))


# -- the table of bla.py: a launch per level, a thread per entry


def bla(
    orbit: Array,
    exponents: Array,
    table: Array,
    powers: Array,
    radius: Array,
    log2_dc: float,
    log2_epsilon: float,
    far: bool,
) -> None:
    """Fill the table of the orbit Z_m = orbit[m] 2^exponents[m], m = 0 … M, for pixels with |dc| up to 2^log2_dc.

    See `bla` in bla.py for the arguments and results.
    """
    count = orbit.shape[0] - 2
    distances = (log2_dc, log2_epsilon) if far else (math.exp2(log2_dc), math.exp2(log2_epsilon))
    dc, epsilon = map(np.float64, distances)
    kind, read = ("far", (orbit, exponents)) if far else ("plain", (orbit,))
    written = (table, powers, radius) if far else (table, radius)
    with table.device:
        _launch_entries(f"first_{kind}", count, *read, *written, np.int32(count), dc, epsilon)
        for level in range(1, count.bit_length()):
            entries = count >> level
            _launch_entries(f"merge_{kind}", entries, *written, np.int32(entries), np.int32(level), dc)


def _launch_entries(name: str, count: int, *arguments: Any) -> None:
    if count > 0:
        _kernel(TABLE_SOURCE, name, arguments[0].device.id)((-(-count // ENTRY_THREADS),), (ENTRY_THREADS,), arguments)


# -- the attracting cycle


def multiplier(re: Array, im: Array, count: Array, out: Array, max_iterations: int, settle: int, longest: int) -> None:
    """Write |product of 2 z over the attracting cycle|, 0 to 1, to out where the count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other pixels
    and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    grid = -(-out.shape[1] // BLOCK[0]), -(-out.shape[0] // BLOCK[1])
    numbers = (*out.shape, max_iterations, settle, longest)
    with out.device:
        _kernel(INTERIOR_SOURCE, "multiplier", out.device.id)(
            grid, BLOCK, (re, im, count, out, *map(np.int32, numbers))
        )


@cache
def _kernel(source: Path, name: str, device: int, dtype: str = "") -> Any:
    """Return the kernel for the current GPU, number `device`; dtype: REAL of a source that is compiled per type."""
    return compile_cuda(source, defines={"REAL": REAL[dtype]} if dtype else {}).get_function(name)


VARIANTS: dict[str, Callable[[PixelArrays, LaunchPart], None]] = {  # the first is the default
    "block": direct,
    "doubling by addition": with_additions,
    "test each step": with_a_test_each_step,
}
