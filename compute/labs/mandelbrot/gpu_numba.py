"""The Mandelbrot set in Numba-CUDA: the scalar code of formula.py and deep.py, a thread a pixel. Runs in the simulator.

Constants come in as arguments of z's type: a literal 4 would turn float32 arithmetic into float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from compute.devices import Array
from compute.gpu_numba_kernel import device_function, kernel
from compute.labs.mandelbrot import deep
from compute.labs.mandelbrot.formula import ESCAPED, PERIODIC, inside, iterate, smooth_count
from compute.labs.mandelbrot.gpu_launch import BLOCK, grid
from compute.labs.mandelbrot.gpu_numba_pixels import iterate_pixels, part_numbers
from compute.labs.mandelbrot.gpu_numba_table import bla
from compute.labs.mandelbrot.gpu_slow import SLOW
from compute.labs.mandelbrot.state import MARGIN, Part, Reference, State

__all__ = ["VARIANTS", "bla", "direct", "far", "perturbed", "pick"]

cuda: Any = None  # numba.cuda, once a kernel is wanted
perturb: Any = None  # deep.perturb and deep.perturb_far for the GPU, once they are wanted
perturb_far: Any = None
MARGIN64 = MARGIN["float64"]


def direct(state: State, part: Part) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    iterate_pixels(_iterate, state, part)


def perturbed(state: State, part: Part, reference: Reference) -> None:
    """Iterate the pixels of `part` as differences from `reference`, in float64: pixel spacings down to 1e-290.

    Reads re and im (offsets in pixels); reads and writes z, place[0] and count; writes smooth; adds to totals.
    """
    table = reference.table, reference.radius, reference.reach
    orbit = reference.orbit, *table, reference.settled, reference.cycle
    geometry = (*reference.centre, reference.spacing)
    _link()
    kernel(_perturbed)[grid(state, part), BLOCK](_pixels(state), state.totals, orbit, part_numbers(part), geometry)


def far(state: State, part: Part, reference: Reference) -> None:
    """As `perturbed`, with an exponent of its own for each number: any spacing. Writes place[1] too."""
    table = reference.table, reference.powers, reference.radius, reference.reach
    orbit = reference.orbit, reference.exponents, *table
    geometry = (*reference.centre, reference.spacing, reference.exponent)
    _link()
    kernel(_far)[grid(state, part), BLOCK](_pixels(state), state.totals, orbit, part_numbers(part), geometry)


def pick(values: Array, out: Array, stride: int) -> None:
    """out (py, px) = every stride-th value of values (ny, nx) in both directions, from (0, 0) on; both float32."""
    blocks = -(-out.shape[1] // BLOCK[0]), -(-out.shape[0] // BLOCK[1])
    kernel(_pick)[blocks, BLOCK](values, out, stride)


def _pixels(state: State) -> tuple[Array, ...]:
    return state.re, state.im, state.z, state.place, state.count, state.smooth


@cache
def _link() -> None:
    """Compile the array code of deep.py for the GPU and give it the names that the kernels below call."""
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
    """The new count of a pixel: final, or -1 - n while it is unfinished."""
    if found == ESCAPED:
        return n
    return top if found == PERIODIC or n >= top else -1 - n


def _perturbed(pixels, totals, reference, numbers, geometry):  # type: ignore[no-untyped-def]
    """One slice of the pixels of a part."""
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
    """One slice of the pixels of a part."""
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


VARIANTS: dict[str, Callable[[State, Part], None]] = {"block": direct, **SLOW}  # the first is the default
