"""The Mandelbrot set in Numba-CUDA, a thread per pixel or per entry of the table. Also runs in the simulator.

The scalar code is in formula.py, deep.py and bla.py. Constants are passed as arguments of z's type: a literal 4 would
turn float32 arithmetic into float64. The last section contains kernels that are slow on purpose, such as a lecture
writes first, with the same counts as `direct`, without shortcuts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from compute.devices.devices import Array
from compute.devices.gpu_numba_kernel import device_function, kernel
from compute.labs.mandelbrot import bla as one
from compute.labs.mandelbrot import deep
from compute.labs.mandelbrot.formula import (
    ESCAPED,
    PERIODIC,
    complex_power,
    each_step,
    inside,
    iterate,
    literals,
    multiplier_at,
    smooth_count,
)
from compute.labs.mandelbrot.reference_orbit import ReferenceOrbit
from compute.labs.mandelbrot.state import BLOCK, MARGIN, LaunchPart, PixelArrays, grid

cuda: Any = None  # numba.cuda, set when the first kernel is compiled
perturb: Any = None  # deep.perturb and deep.perturb_far for the GPU, set by _link
perturb_far: Any = None
MARGIN64 = MARGIN["float64"]
WIDTH, BLOCK_THREADS = BLOCK[0], BLOCK[0] * BLOCK[1]  # a power of two
first_plain: Any = None  # the functions of bla.py for the GPU, set by _link_table
merge_plain: Any = None
first_far: Any = None
merge_far: Any = None
ENTRY_THREADS = 128
NOTHING = np.float32(np.nan)


def direct(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    iterate_pixels(_iterate, state, part)


def perturbed(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate the pixels of `part` as differences from `reference`, in float64: pixel spacings down to 1e-290.

    Reads re and im (offsets in pixels); reads and writes z, place[0] and count; writes smooth; adds to totals.
    """
    table = reference.table, reference.radius, reference.reach
    orbit = reference.orbit, *table, reference.settled, reference.cycle
    geometry = (*reference.centre, reference.spacing)
    _link()
    kernel(_perturbed)[grid(state, part), BLOCK](_pixels(state), state.totals, orbit, part_numbers(part), geometry)


def far(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate like `perturbed`, with a separate exponent for each number: any pixel spacing. Also writes place[1]."""
    table = reference.table, reference.powers, reference.radius, reference.reach
    orbit = reference.orbit, reference.exponents, *table
    geometry = (*reference.centre, reference.spacing, reference.exponent)
    _link()
    kernel(_far)[grid(state, part), BLOCK](_pixels(state), state.totals, orbit, part_numbers(part), geometry)


def pick(values: Array, out: Array, stride: int) -> None:
    """Copy every stride-th value of values (ny, nx) in both directions, from (0, 0), to out (py, px); both float32."""
    blocks = -(-out.shape[1] // BLOCK[0]), -(-out.shape[0] // BLOCK[1])
    kernel(_pick)[blocks, BLOCK](values, out, stride)


def _pixels(state: PixelArrays) -> tuple[Array, ...]:
    return state.re, state.im, state.z, state.place, state.count, state.smooth


@cache
def _link() -> None:
    """Compile the array code of deep.py for the GPU and bind it to the names that the kernels below call."""
    global perturb, perturb_far
    perturb, perturb_far = device_function(deep.perturb), device_function(deep.perturb_far)


@njit
def _iterate(x, y, cr, ci, n, end, constants, shortcuts):  # type: ignore[no-untyped-def]
    four, quarter, sixteenth, one, margin = constants[1:]
    if shortcuts and n == 0 and inside(cr, ci, quarter, sixteenth, one, margin):
        return x, y, n, PERIODIC
    return iterate(x, y, cr, ci, n, end, four, shortcuts)


@njit
def _settle(found, n, top):  # type: ignore[no-untyped-def]
    """Return the new count of a pixel: final, or -1 - n while unfinished."""
    if found == ESCAPED:
        return n
    return top if found == PERIODIC or n >= top else -1 - n


def _perturbed(pixels, totals, reference, numbers, geometry):  # type: ignore[no-untyped-def]
    """Advance the pixels of a part by one slice."""
    re, im, z, place, count, smooth = pixels
    first, last, stride, iterations, limit, top, shortcuts = numbers
    centre_x, centre_y, spacing = geometry
    column, row = cuda.grid(2)
    i, j = (row + first) * stride, column * stride
    if row + first >= last or j >= re.shape[0]:
        return
    done = np.int64(-1 - count[i, j])
    if done < 0 or done >= limit:
        return
    dx, dy, m, n, found, zx, zy = 0.0, 0.0, np.int64(0), done, PERIODIC, 0.0, 0.0
    if done > 0:
        dx, dy, m = z[0, i, j], z[1, i, j], np.int64(place[0, i, j])
    cx, cy = re[j] * spacing, im[i] * spacing
    if done > 0 or not shortcuts or not inside(centre_x + cx, centre_y + cy, 0.25, 0.0625, 1.0, MARGIN64):
        end = min(done + iterations, limit)
        dx, dy, m, n, found, zx, zy = perturb(reference, (dx, dy), m, done, end, top, (cx, cy), shortcuts > 0)
    count[i, j] = _settle(found, n, top)
    if found == ESCAPED:
        smooth[i, j] = smooth_count(zx, zy, centre_x + cx, centre_y + cy, n)
    z[0, i, j], z[1, i, j], place[0, i, j] = dx, dy, m
    if n > done:
        cuda.atomic.add(totals, 0, n - done)
    if count[i, j] < 0 and n < limit:
        cuda.atomic.add(totals, 1, 1)


def _far(pixels, totals, reference, numbers, geometry):  # type: ignore[no-untyped-def]
    """Advance the pixels of a part by one slice."""
    re, im, z, place, count, smooth = pixels
    first, last, stride, iterations, limit, top, _ = numbers
    centre_x, centre_y, spacing, exponent = geometry
    column, row = cuda.grid(2)
    i, j = (row + first) * stride, column * stride
    if row + first >= last or j >= re.shape[0]:
        return
    done = np.int64(-1 - count[i, j])
    if done < 0 or done >= limit:
        return
    x, y, e, m = 0.0, 0.0, np.int64(deep.VANISHED), np.int64(0)
    if done > 0:
        x, y, e, m = z[0, i, j], z[1, i, j], np.int64(place[1, i, j]), np.int64(place[0, i, j])
    dc = deep.normal(re[j] * spacing, im[i] * spacing, exponent)
    end = min(done + iterations, limit)
    x, y, e, m, n, found, zx, zy = perturb_far(reference, (x, y, e), m, done, end, top, dc)
    count[i, j] = _settle(found, n, top)
    if found == ESCAPED:
        smooth[i, j] = smooth_count(zx, zy, centre_x, centre_y, n)
    z[0, i, j], z[1, i, j], place[0, i, j], place[1, i, j] = x, y, m, e
    if n > done:
        cuda.atomic.add(totals, 0, n - done)
    if count[i, j] < 0 and n < limit:
        cuda.atomic.add(totals, 1, 1)


def _pick(values, out, stride):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = values[i * stride, j * stride]


# -- direct iteration with any function for one pixel: the fast one and the slow ones


def iterate_pixels(advance: Any, state: PixelArrays, part: LaunchPart) -> None:
    """Advance the pixels of a part by one slice, with the arrays of `direct`.

    `advance(x, y, c_re, c_im, n, end, constants, shortcuts)` iterates one pixel from z_n and returns (x, y, n, found),
    as formula.iterate does. constants: numbers of z's type, since a literal 4 would turn float32 arithmetic into
    float64: 0, 4, and the constants of formula.inside.
    """
    dtype = np.dtype(state.z.dtype)
    constants = tuple(map(dtype.type, (0, 4, 0.25, 0.0625, 1, MARGIN[dtype.name])))
    arrays = state.re, state.im, state.z, state.count, state.smooth, state.totals
    _pixel_kernel(advance)[grid(state, part), BLOCK](*arrays, part_numbers(part), constants)


def part_numbers(part: LaunchPart) -> tuple[int, ...]:
    """Return the parameters of a part for a kernel."""
    numbers = part.first, part.last, part.stride, part.iterations, part.limit, part.max_iterations, part.shortcuts
    return tuple(map(int, numbers))


@cache
def _pixel_kernel(advance: Any) -> Any:
    """Return the kernel that iterates with `advance`. Totals are summed over a block first.

    An atomic addition per pixel took milliseconds.
    """

    def pixels(re, im, z, count, smooth, totals, numbers, constants):  # type: ignore[no-untyped-def]
        """Advance the thread's pixel, and add to the totals."""
        first, last, stride, iterations, limit, top, shortcuts = numbers
        column, row = cuda.grid(2)
        i, j = (row + first) * stride, column * stride
        done = n = np.int64(-1)
        if row + first < last and j < re.shape[0]:
            done = n = np.int64(-1 - count[i, j])
        left = 0
        if 0 <= done < limit:
            x, y = constants[0], constants[0]
            if done > 0:
                x, y = z[0, i, j], z[1, i, j]
            end = min(done + iterations, limit)
            a, b, n, found = advance(x, y, re[j], im[i], done, end, constants, shortcuts > 0)
            if found == ESCAPED:
                count[i, j] = n
                smooth[i, j] = smooth_count(np.float64(a), np.float64(b), np.float64(re[j]), np.float64(im[i]), n)
            elif found > 0 or n >= top:
                count[i, j], smooth[i, j] = top, np.nan
            else:
                count[i, j], z[0, i, j], z[1, i, j] = -1 - n, a, b
                left = 1 if n < limit else 0
        sums = cuda.shared.array(BLOCK_THREADS, np.int64)
        thread = cuda.threadIdx.y * WIDTH + cuda.threadIdx.x
        sums[thread] = n - done
        some = cuda.syncthreads_count(left)
        half = BLOCK_THREADS // 2
        while half > 0:
            if thread < half:
                sums[thread] += sums[thread + half]
            cuda.syncthreads()
            half //= 2
        if thread == 0:
            cuda.atomic.add(totals, 0, sums[0])
            cuda.atomic.add(totals, 1, some)

    return kernel(pixels)


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
    _link_table()
    count = orbit.shape[0] - 2
    if far:
        _launch_entries(_first_far, count, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)
    else:
        _launch_entries(_first_plain, count, orbit, table, radius, math.exp2(log2_dc), math.exp2(log2_epsilon))
    for level in range(1, count.bit_length()):
        if far:
            _launch_entries(_merge_far, count >> level, level, table, powers, radius, log2_dc)
        else:
            _launch_entries(_merge_plain, count >> level, level, table, radius, math.exp2(log2_dc))


def _launch_entries(function: Any, count: int, *arguments: Any) -> None:
    if count > 0:
        kernel(function)[-(-count // ENTRY_THREADS), min(ENTRY_THREADS, count)](count, *arguments)


@cache
def _link_table() -> None:
    """Compile the array code of bla.py for the GPU and bind it to the names that the kernels below call."""
    from numba import cuda

    global first_plain, merge_plain, first_far, merge_far
    functions = one.first_plain, one.merge_plain, one.first_far, one.merge_far
    first_plain, merge_plain, first_far, merge_far = (cuda.jit(device=True)(each) for each in functions)


def _first_plain(count, orbit, table, radius, dc, epsilon):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        first_plain(i, orbit, table, radius, dc, epsilon)


def _merge_plain(count, level, table, radius, dc):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        merge_plain(i, level, table, radius, dc)


def _first_far(count, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        first_far(i, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)


def _merge_far(count, level, table, powers, radius, log2_dc):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < count:
        merge_far(i, level, table, powers, radius, log2_dc)


# -- the attracting cycle


def multiplier(re: Array, im: Array, count: Array, out: Array, max_iterations: int, settle: int, longest: int) -> None:
    """Write |product of 2 z over the attracting cycle|, 0 to 1, to out where the count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other pixels
    and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    grid = -(-out.shape[1] // BLOCK[0]), -(-out.shape[0] // BLOCK[1])
    kernel(_multiplier)[grid, BLOCK](re, im, count, out, max_iterations, settle, longest)


def _multiplier(re, im, count, out, max_iterations, settle, longest):  # type: ignore[no-untyped-def]
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        value = NOTHING
        if count[i, j] == max_iterations:
            value = np.float32(multiplier_at(re[j], im[i], settle, longest))
        out[i, j] = value


# -- slow on purpose


def with_a_test_each_step(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like gpu_numba.direct, with an escape test after each step."""
    iterate_pixels(_each_step, state, part)


def with_literals(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like with_a_test_each_step, with the literals 2 and 4.0: float32 pixels are computed in float64."""
    iterate_pixels(_literals, state, part)


def with_complex_numbers(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like gpu_numba.direct, with z**2 + c and abs(z) on complex numbers."""
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


SLOW: dict[str, Callable[[PixelArrays, LaunchPart], None]] = {
    "test each step": with_a_test_each_step,
    "float64 literals": with_literals,
    "complex z**2": with_complex_numbers,
}
VARIANTS: dict[str, Callable[[PixelArrays, LaunchPart], None]] = {"block": direct, **SLOW}  # the first is the default
counts_only = None  # no kernel without smooth counts: only CUDA C has such a kernel, for timing
