"""The Mandelbrot set in Numba on all cores and in their vector registers: the fair CPU opponent.

No fastmath: the results equal NumPy's bit for bit. `direct` is in cpu_lanes.py. The scalar code of the other kernels is
in formula.py, deep.py and bla.py. The last section contains kernels that are slow on purpose, such as a lecture writes
first, with the same counts as `direct`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute.devices import numba_threads
from compute.labs.mandelbrot import bla as one
from compute.labs.mandelbrot.cpu_lanes import UNIT, UNITS, iterate_lanes
from compute.labs.mandelbrot.deep import normal, perturb, perturb_far
from compute.labs.mandelbrot.formula import (
    ESCAPED,
    PERIODIC,
    complex_power,
    each_step,
    inside,
    iterate,
    multiplier_at,
    smooth_count,
)
from compute.labs.mandelbrot.reference_orbit import ReferenceOrbit
from compute.labs.mandelbrot.state import MARGIN, LaunchPart, PixelArrays

numba_threads.choose_layer()

ROWS_AT_ONCE = 4  # per thread and chunk; small because the work of rows differs by orders of magnitude
MARGIN64 = MARGIN["float64"]
_perturb = njit(cache=True, nogil=True)(perturb)
_perturb_far = njit(cache=True, nogil=True)(perturb_far)

_compiled = njit(cache=True, nogil=True)
_first_plain, _merge_plain = _compiled(one.first_plain), _compiled(one.merge_plain)
_first_far, _merge_far = _compiled(one.first_far), _compiled(one.merge_far)
Axis = NDArray[np.float64]


def direct(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    pixels = part.rows * -(-state.re.size // part.stride)
    units = min(part.rows, max(UNITS * numba.get_num_threads(), pixels // UNIT))
    with numba.parallel_chunksize(1):
        iterate_lanes(*_direct_arguments(state, part), part.shortcuts, units)


def one_pixel_at_a_time(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like `direct`, bit for bit, in scalar code: a thread iterates one pixel until it is finished."""
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        _direct(*_direct_arguments(state, part), part.shortcuts)


def perturbed(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate the pixels of `part` as differences from `reference`, in float64: pixel spacings down to 1e-290.

    Reads re and im (offsets in pixels); reads and writes z, place[0] and count; writes smooth; adds to totals.
    """
    table = reference.table, reference.radius, reference.reach
    orbit = reference.orbit, *table, reference.settled, reference.cycle
    geometry = (*reference.centre, reference.spacing)
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        _perturbed(_deep_arrays(state), state.totals, orbit, _numbers(part), (*geometry, part.shortcuts))


def far(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate like `perturbed`, with a separate exponent for each number: any pixel spacing. Also writes place[1]."""
    arrays = reference.exponents, reference.table, reference.powers, reference.radius, reference.reach
    geometry = (*reference.centre, reference.spacing, reference.exponent)
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        _far(_deep_arrays(state), state.totals, (reference.orbit, *arrays), _numbers(part), geometry)


def pick(values: NDArray[Any], out: NDArray[Any], stride: int) -> None:
    """Copy every stride-th value of values (ny, nx) in both directions, from (0, 0), to out (py, px); both float32."""
    out[...] = values[::stride, ::stride]


def _numbers(part: LaunchPart) -> tuple[int, ...]:
    return part.first, part.last, part.stride, part.iterations, part.limit, part.max_iterations


def _direct_arguments(state: PixelArrays, part: LaunchPart) -> tuple[Any, ...]:
    """Return arrays, totals, numbers of the part, and constants of z's type."""
    real = state.z.dtype.type
    constants = real(4), real(0.25), real(0.0625), real(1), real(MARGIN[state.z.dtype.name])
    arrays = state.re, state.im, state.z, state.count, state.smooth
    return arrays, state.totals, _numbers(part), constants


def _deep_arrays(state: PixelArrays) -> tuple[NDArray[Any], ...]:
    return state.re, state.im, state.z, state.place, state.count, state.smooth


@njit(cache=True, nogil=True)
def _pixel(arrays, i, j, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    """Iterate one pixel of a slice; return (iterations done, 1 if it stays unfinished)."""
    re, im, z, count, smooth = arrays
    _, _, _, iterations, limit, top = numbers
    four, quarter, sixteenth, one, margin = constants
    done = np.int64(-1 - count[i, j])
    if done < 0 or done >= limit:
        return 0, 0
    cr, ci = re[j], im[i]
    x, y = z[0, i, j], z[1, i, j]
    if done == 0:
        x, y = four - four, four - four
        if shortcuts and inside(cr, ci, quarter, sixteenth, one, margin):
            count[i, j], smooth[i, j] = top, np.nan
            return 0, 0
    end = min(done + iterations, limit)
    x, y, n, found = iterate(x, y, cr, ci, done, end, four, shortcuts)
    if found == ESCAPED:
        count[i, j] = n
        smooth[i, j] = smooth_count(np.float64(x), np.float64(y), np.float64(cr), np.float64(ci), n)
    elif found == PERIODIC or n >= top:
        count[i, j], smooth[i, j] = top, np.nan
    else:
        count[i, j] = -1 - n
        z[0, i, j], z[1, i, j] = x, y
        return n - done, 1 if n < limit else 0
    return n - done, 0


@njit(cache=True, nogil=True, parallel=True)
def _direct(arrays, totals, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    first, last, stride = numbers[0], numbers[1], numbers[2]
    columns = arrays[0].size
    work = 0
    left = 0
    for row in prange(last - first):
        i = (np.int64(row) + first) * stride
        for j in range(0, columns, stride):
            did, stays = _pixel(arrays, i, j, numbers, constants, shortcuts)
            work += did
            left += stays
    totals[0] += work
    totals[1] += left


@njit(cache=True, nogil=True)
def _settle(arrays, i, j, n, top, found, z, c):  # type: ignore[no-untyped-def]
    """Store the state of a pixel after a slice of perturbation; return 1 if it is unfinished."""
    count, smooth = arrays[4], arrays[5]
    if found == ESCAPED:
        count[i, j] = n
        smooth[i, j] = smooth_count(z[0], z[1], c[0], c[1], n)
    elif found == PERIODIC or n >= top:
        count[i, j], smooth[i, j] = top, np.nan
    else:
        count[i, j] = -1 - n
        return 1
    return 0


@njit(cache=True, nogil=True)
def _perturbed_pixel(arrays, reference, i, j, numbers, geometry):  # type: ignore[no-untyped-def]
    """Iterate one pixel of a slice; return (iterations done, 1 if it stays unfinished)."""
    re, im, z, place, count, smooth = arrays
    _, _, _, iterations, limit, top = numbers
    centre_x, centre_y, spacing, shortcuts = geometry
    done = np.int64(-1 - count[i, j])
    if done < 0 or done >= limit:
        return 0, 0
    dx, dy, m = 0.0, 0.0, np.int64(0)
    cx, cy = re[j] * spacing, im[i] * spacing
    if done == 0:
        if shortcuts and inside(centre_x + cx, centre_y + cy, 0.25, 0.0625, 1.0, MARGIN64):
            count[i, j], smooth[i, j] = top, np.nan
            return 0, 0
    else:
        dx, dy, m = z[0, i, j], z[1, i, j], np.int64(place[0, i, j])
    end = min(done + iterations, limit)
    dx, dy, m, n, found, zx, zy = _perturb(reference, (dx, dy), m, done, end, top, (cx, cy), shortcuts)
    kept = _settle(arrays, i, j, n, top, found, (zx, zy), (centre_x + cx, centre_y + cy))
    if kept:
        z[0, i, j], z[1, i, j], place[0, i, j] = dx, dy, m
    return n - done, kept if n < limit else 0


@njit(cache=True, nogil=True)
def _far_pixel(arrays, reference, i, j, numbers, geometry):  # type: ignore[no-untyped-def]
    """Iterate one pixel of a slice; return (iterations done, 1 if it stays unfinished)."""
    re, im, z, place, count, _ = arrays
    _, _, _, iterations, limit, top = numbers
    centre_x, centre_y, spacing, exponent = geometry
    done = np.int64(-1 - count[i, j])
    if done < 0 or done >= limit:
        return 0, 0
    delta, m = normal(0.0, 0.0, exponent), np.int64(0)
    if done > 0:
        delta, m = (z[0, i, j], z[1, i, j], np.int64(place[1, i, j])), np.int64(place[0, i, j])
    dc = normal(re[j] * spacing, im[i] * spacing, exponent)
    end = min(done + iterations, limit)
    x, y, e, m, n, found, zx, zy = _perturb_far(reference, delta, m, done, end, top, dc)
    kept = _settle(arrays, i, j, n, top, found, (zx, zy), (centre_x, centre_y))
    if kept:
        z[0, i, j], z[1, i, j], place[0, i, j], place[1, i, j] = x, y, m, e
    return n - done, kept if n < limit else 0


@njit(cache=True, nogil=True, parallel=True)
def _perturbed(arrays, totals, reference, numbers, geometry):  # type: ignore[no-untyped-def]
    first, last, stride = numbers[0], numbers[1], numbers[2]
    columns = arrays[0].size
    work = 0
    left = 0
    for row in prange(last - first):
        for j in range(0, columns, stride):
            did, stays = _perturbed_pixel(arrays, reference, (np.int64(row) + first) * stride, j, numbers, geometry)
            work += did
            left += stays
    totals[0] += work
    totals[1] += left


@njit(cache=True, nogil=True, parallel=True)
def _far(arrays, totals, reference, numbers, geometry):  # type: ignore[no-untyped-def]
    first, last, stride = numbers[0], numbers[1], numbers[2]
    columns = arrays[0].size
    work = 0
    left = 0
    for row in prange(last - first):
        for j in range(0, columns, stride):
            did, stays = _far_pixel(arrays, reference, (np.int64(row) + first) * stride, j, numbers, geometry)
            work += did
            left += stays
    totals[0] += work
    totals[1] += left


# -- the table of bla.py: level by level, each in parallel


def bla(
    orbit: NDArray[Any],
    exponents: NDArray[Any],
    table: NDArray[Any],
    powers: NDArray[Any],
    radius: NDArray[Any],
    log2_dc: float,
    log2_epsilon: float,
    far: bool,
) -> None:
    """Fill the table of the orbit Z_m = orbit[m] 2^exponents[m], m = 0 … M, for pixels with |dc| up to 2^log2_dc.

    See `bla` in bla.py for the arguments and results.
    """
    if far:
        _table_far(orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)
    else:
        _table_plain(orbit, table, radius, math.exp2(log2_dc), math.exp2(log2_epsilon))


@njit(cache=True, nogil=True, parallel=True)
def _table_plain(orbit, table, radius, dc, epsilon):  # type: ignore[no-untyped-def]
    count, level = orbit.shape[0] - 2, 1
    for i in prange(count):
        _first_plain(i, orbit, table, radius, dc, epsilon)
    while count >> level > 0:
        for i in prange(count >> level):
            _merge_plain(i, level, table, radius, dc)
        level += 1


@njit(cache=True, nogil=True, parallel=True)
def _table_far(orbit, exponents, table, powers, radius, log2_dc, log2_epsilon):  # type: ignore[no-untyped-def]
    count, level = orbit.shape[0] - 2, 1
    for i in prange(count):
        _first_far(i, orbit, exponents, table, powers, radius, log2_dc, log2_epsilon)
    while count >> level > 0:
        for i in prange(count >> level):
            _merge_far(i, level, table, powers, radius, log2_dc)
        level += 1


# -- the attracting cycle


def multiplier(
    re: Axis, im: Axis, count: NDArray[Any], out: NDArray[Any], max_iterations: int, settle: int, longest: int
) -> None:
    """Write |product of 2 z over the attracting cycle|, 0 to 1, to out where the count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other pixels
    and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        _multiplier(re, im, count, out, (max_iterations, settle, longest))


@njit(cache=True, nogil=True, parallel=True)
def _multiplier(re, im, count, out, numbers):  # type: ignore[no-untyped-def]
    max_iterations, settle, longest = numbers
    for row in prange(out.shape[0]):
        i = np.int64(row)
        for j in range(out.shape[1]):
            inside = count[i, j] == max_iterations
            out[i, j] = multiplier_at(re[j], im[i], settle, longest) if inside else np.nan


# -- slow on purpose


def with_a_test_each_step(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like cpu_numba.direct, with an escape test after each step and no shortcuts."""
    _launch_slow(_each_step, state, part)


def with_complex_numbers(state: PixelArrays, part: LaunchPart) -> None:
    """Iterate like cpu_numba.direct, with z**2 + c and abs(z) on complex numbers and no shortcuts."""
    _launch_slow(_complex, state, part)


def _launch_slow(kernel: Callable[..., None], state: PixelArrays, part: LaunchPart) -> None:
    numbers = part.first, part.last, part.stride, part.iterations, part.limit, part.max_iterations
    arrays = state.re, state.im, state.z, state.count, state.smooth
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        kernel(arrays, state.totals, numbers, state.z.dtype.type(4))


def _slow(iterate: Any) -> Any:
    """Return a kernel that advances the pixels of a part with `iterate`."""

    @njit(nogil=True)
    def pixel(arrays, i, j, numbers, four):  # type: ignore[no-untyped-def]
        """Advance one pixel; return the iterations done, and 1 if it stays below the limit."""
        re, im, z, count, smooth = arrays
        _, _, _, iterations, limit, top = numbers
        done = np.int64(-1 - count[i, j])
        if done < 0 or done >= limit:
            return 0, 0
        x, y = z[0, i, j], z[1, i, j]
        if done == 0:
            x, y = four - four, four - four
        x, y, n, found = iterate(x, y, re[j], im[i], done, min(done + iterations, limit), four)
        if found == ESCAPED:
            count[i, j] = n
            smooth[i, j] = smooth_count(np.float64(x), np.float64(y), np.float64(re[j]), np.float64(im[i]), n)
        elif n >= top:
            count[i, j], smooth[i, j] = top, np.nan
        else:
            count[i, j], z[0, i, j], z[1, i, j] = -1 - n, x, y
            return n - done, 1 if n < limit else 0
        return n - done, 0

    @njit(nogil=True, parallel=True)
    def kernel(arrays, totals, numbers, four):  # type: ignore[no-untyped-def]
        """Advance all pixels of the part, rows in parallel, and add to the totals."""
        first, last, stride = numbers[0], numbers[1], numbers[2]
        work = 0
        left = 0
        for row in prange(last - first):
            for j in range(0, arrays[0].size, stride):
                did, stays = pixel(arrays, (np.int64(row) + first) * stride, j, numbers, four)
                work += did
                left += stays
        totals[0] += work
        totals[1] += left

    return kernel


@njit
def _without_constants(x, y, cr, ci, n, end, four):  # type: ignore[no-untyped-def]
    return complex_power(x, y, cr, ci, n, end)


_each_step, _complex = _slow(each_step), _slow(_without_constants)
SLOW: dict[str, Callable[[PixelArrays, LaunchPart], None]] = {
    "one pixel at a time": one_pixel_at_a_time,
    "test each step": with_a_test_each_step,
    "complex z**2": with_complex_numbers,
}
VARIANTS: dict[str, Callable[[PixelArrays, LaunchPart], None]] = {"block": direct, **SLOW}  # the first is the default
counts_only = None  # no kernel without smooth counts: only CUDA C has such a kernel, for timing
