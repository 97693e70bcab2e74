"""The Mandelbrot set in Numba, rows in parallel over all cores: the fair CPU opponent. No fastmath: NumPy's bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute import numba_threads
from compute.labs.mandelbrot.deep import normal, perturb, perturb_far
from compute.labs.mandelbrot.formula import ESCAPED, PERIODIC, inside, iterate, smooth_count
from compute.labs.mandelbrot.slow_cpu import SLOW
from compute.labs.mandelbrot.state import MARGIN, Part, Reference, State
from compute.labs.mandelbrot.table_cpu import bla

__all__ = ["VARIANTS", "bla", "direct", "far", "perturbed", "pick"]

numba_threads.choose_layer()

ROWS_AT_ONCE = 4  # handed to a thread: rows differ in work by orders of magnitude
MARGIN64 = MARGIN["float64"]
_perturb = njit(cache=True, nogil=True)(perturb)
_perturb_far = njit(cache=True, nogil=True)(perturb_far)


def direct(state: State, part: Part) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    real = state.z.dtype.type
    constants = real(4), real(0.25), real(0.0625), real(1), real(MARGIN[state.z.dtype.name])
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        arrays = state.re, state.im, state.z, state.count, state.smooth
        _direct(arrays, state.totals, _numbers(part), constants, part.shortcuts)


def perturbed(state: State, part: Part, reference: Reference) -> None:
    """Iterate the pixels of `part` as differences from `reference`, in float64: pixel spacings down to 1e-290.

    Reads re and im (offsets in pixels); reads and writes z, place[0] and count; writes smooth; adds to totals.
    """
    table = reference.table, reference.radius, reference.reach
    orbit = reference.orbit, *table, reference.settled, reference.cycle
    geometry = (*reference.centre, reference.spacing)
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        _perturbed(_deep_arrays(state), state.totals, orbit, _numbers(part), (*geometry, part.shortcuts))


def far(state: State, part: Part, reference: Reference) -> None:
    """As `perturbed`, with an exponent of its own for each number: any spacing. Writes place[1] too."""
    arrays = reference.exponents, reference.table, reference.powers, reference.radius, reference.reach
    geometry = (*reference.centre, reference.spacing, reference.exponent)
    with numba.parallel_chunksize(ROWS_AT_ONCE):
        _far(_deep_arrays(state), state.totals, (reference.orbit, *arrays), _numbers(part), geometry)


def pick(values: NDArray[Any], out: NDArray[Any], stride: int) -> None:
    """out (py, px) = every stride-th value of values (ny, nx) in both directions, from (0, 0) on; both float32."""
    out[...] = values[::stride, ::stride]


def _numbers(part: Part) -> tuple[int, ...]:
    return part.first, part.last, part.stride, part.iterations, part.limit, part.max_iterations


def _deep_arrays(state: State) -> tuple[NDArray[Any], ...]:
    return state.re, state.im, state.z, state.place, state.count, state.smooth


@njit(cache=True, nogil=True)
def _pixel(arrays, i, j, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    """One pixel of a slice: (iterations done, 1 if it stays unfinished)."""
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
    """Write what became of a pixel after a slice of perturbation; 1 if it must be kept."""
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
    """One pixel of a slice: (iterations done, 1 if it stays unfinished)."""
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
    """One pixel of a slice: (iterations done, 1 if it stays unfinished)."""
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


VARIANTS: dict[str, Callable[[State, Part], None]] = {"block": direct, **SLOW}  # the first is the default
