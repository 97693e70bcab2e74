"""Diffusion in Numba on all cores, several steps in one pass through memory: the fair CPU opponent.

`step` cuts the grid into tiles that fit in a core's second-level cache. Each thread copies a tile, with an apron of
ghost and neighbouring cells around it, into its own memory and computes up to MOST_STEPS steps there. Each step is
correct on a part that is smaller by one row at the top and at the bottom; the last step is written to the other grid.
Cells near the borders of a tile are computed by neighbouring tiles as well, so that no thread waits within a pass. The
rows of a tile have the fixed length ROW, so that the compiler knows their layout and vectorises four of them together
without a test for overlap.

`one_step` sweeps over the whole grid once per step. Without fastmath and without contraction to FMA, the results of
both equal the NumPy reference bit for bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from compute.devices import numba_threads
from compute.labs.diffusion.scheme import PERIODIC, ZERO_DIRICHLET, ZERO_FLUX, edge_code

numba_threads.choose_layer()

Field = NDArray[Any]

MOST_STEPS = 12  # per pass; each step invalidates a column at the sides of a tile, which APRON covers
APRON = 16  # cells around a tile: 64 bytes of float32, so that rows remain aligned for vectors
TILE_WIDTH = 512  # cells; rows of 2 or 4 KiB
TILE_BYTES = 2**18  # of the two grids of a tile without the apron: 64 x 512 cells of float32
ROW = np.uint64(TILE_WIDTH + 2 * APRON)  # cells from one row of a tile to the next
TWO_ROWS, THREE_ROWS, FOUR_ROWS, ONE = np.uint64(2) * ROW, np.uint64(3) * ROW, np.uint64(4) * ROW, np.uint64(1)
SHARE = 16  # rows of a sweep that a thread computes at a time
PROBE = 64, TILE_WIDTH  # cells whose sweep determines the time per cell: small grids run on one thread
VECTOR = 64  # bytes to which a tile's rows are aligned

_kept = threading.local()  # scratch: the memory of the tiles in the last call of this thread


def step(u: Field, out: Field, r: float, edges: str, steps: int) -> None:
    """Advance `steps` >= 1 forward-Euler steps of u_t = D lap(u) with r = D dt / dx^2, stable for r <= 1/4.

    u, out: (ny, nx) float32 or float64 of one dtype, any shape from 1 x 1. The result is written to `out`; u is
    unchanged after up to MOST_STEPS steps, and scratch for more.
    """
    kind, ratio = edge_code(edges), u.dtype.type(r)
    if steps == 1:  # no reuse in a cache
        with numba_threads.shared(_seconds(u)):
            _sweep(u, out, ratio, False, kind)
        return
    counts = passes(steps)
    with numba_threads.shared(_seconds(u) * steps / len(counts), len(counts)) as threads:
        size = tile_shape(u.shape, u.dtype.itemsize, threads)
        workers = min(-(-u.shape[0] // size[0]) * -(-u.shape[1] // size[1]), threads)
        scratch = _scratch(workers, size[0] + 2 * APRON, u.dtype)
        for count in counts:
            _tiles(u, out, scratch, size, ratio, kind, count)
            u, out = out, u


def one_step(u: Field, out: Field, r: float, edges: str, steps: int) -> None:
    """Advance as `step`, but with one pass through memory per step; the first has two steps if `steps` is even."""
    kind, ratio = edge_code(edges), u.dtype.type(r)
    rest = (steps - 1) // 2 * 2
    step(u, out, r, edges, 2 if steps % 2 == 0 else 1)  # an odd number of passes then ends in `out`
    if rest:
        with numba_threads.shared(_seconds(u), rest):
            for _ in range(rest):
                u, out = out, u
                _sweep(u, out, ratio, False, kind)


def laplacian(u: Field, out: Field, edges: str) -> None:
    """Write +lap(u) with unit spacing to out. u, out: (ny, nx) float32 or float64; ghost cells by `edges`."""
    with numba_threads.shared(_seconds(u)):
        _sweep(u, out, u.dtype.type(0), True, edge_code(edges))


def _seconds(u: Field) -> float:
    """Estimate the seconds that one thread needs for a step of the grid, from a sweep over a small grid."""
    return u.size * _seconds_per_cell(u.dtype.name)


@cache
def _seconds_per_cell(dtype: str) -> float:
    """Measure a sweep over a grid that fits in the cache, once per process."""
    u, out = np.zeros(PROBE, dtype), np.zeros(PROBE, dtype)
    zero = u.dtype.type(0)
    return numba_threads.seconds_alone(lambda: _sweep(u, out, zero, False, ZERO_FLUX)) / u.size


def passes(steps: int) -> list[int]:
    """Cut `steps` >= 1 into an odd number of passes of at most MOST_STEPS steps: the last must write to `out`."""
    count = -(-steps // MOST_STEPS)
    count += count % 2 == 0
    return [(k + 1) * steps // count - k * steps // count for k in range(count)]


def tile_shape(shape: tuple[int, ...], itemsize: int, threads: int) -> tuple[int, int]:
    """Return rows and columns of a tile: few enough for the cache and, if the rows suffice, for a tile per thread."""
    ny, nx = shape
    across = -(-nx // TILE_WIDTH)
    width = min(nx, -(-nx // (across * APRON)) * APRON)  # equal and aligned for vectors
    rows = TILE_BYTES // (2 * TILE_WIDTH * itemsize)
    count = -(-ny // rows)
    count = -(-count * across // threads) * threads // across  # a whole number of tiles per thread
    return max(min(ny, APRON), -(-ny // max(1, count))), width


def _scratch(workers: int, rows: int, dtype: np.dtype[Any]) -> Field:
    """Return two tiles of `rows` rows, plus a row above and below, for each worker.

    The memory is kept until a call needs another shape.
    """
    cells = (rows + 2) * int(ROW)
    like = workers, cells, dtype
    if getattr(_kept, "like", None) != like:
        memory = np.zeros(2 * workers * cells + VECTOR // dtype.itemsize, dtype)
        begin = -memory.ctypes.data % VECTOR // dtype.itemsize
        _kept.like, _kept.scratch = like, memory[begin : begin + 2 * workers * cells].reshape(workers, 2, cells)
    found: Field = _kept.scratch
    return found


# -- several steps in a tile. Its memory is flat: cell (i, j) of the grid is at _place(i - top, j - left).


@njit(cache=True, nogil=True)
def _place(i, j):  # type: ignore[no-untyped-def]
    """Return the index of cell (i, j) of a tile; (0, 0) is APRON rows and columns before the first cell it writes."""
    return (i + 1) * np.int64(ROW) + j


@njit(cache=True, nogil=True)
def _tile_step(source, target, begin, height, width, r):  # type: ignore[no-untyped-def]
    """Compute a step of `height` x `width` cells, starting at `begin`, from one memory of a tile to the other.

    Four rows are computed together, as they share fluxes. Indices are unsigned: Numba tests the sign of signed indices
    to support negative ones, and a loop with that test is not vectorised.
    """
    i, n = np.uint64(begin), np.uint64(width)
    for _ in range(height // 4):
        for k in range(n):
            j = i + k
            a, b, c, d = source[j], source[j + ROW], source[j + TWO_ROWS], source[j + THREE_ROWS]
            ab, bc, cd = b - a, c - b, d - c
            target[j] = a + r * ((ab - (a - source[j - ROW])) + ((source[j + ONE] - a) - (a - source[j - ONE])))
            j += ROW
            target[j] = b + r * ((bc - ab) + ((source[j + ONE] - b) - (b - source[j - ONE])))
            j += ROW
            target[j] = c + r * ((cd - bc) + ((source[j + ONE] - c) - (c - source[j - ONE])))
            j += ROW
            target[j] = d + r * (((source[j + ROW] - d) - cd) + ((source[j + ONE] - d) - (d - source[j - ONE])))
        i += FOUR_ROWS
    for _ in range(height % 4):
        for k in range(n):
            j = i + k
            here = source[j]
            lap = ((source[j + ROW] - here) - (here - source[j - ROW])) + (
                (source[j + ONE] - here) - (here - source[j - ONE])
            )
            target[j] = here + r * lap
        i += ROW


@njit(cache=True, nogil=True)
def _last_step(source, begin, out, y0, y1, x0, x1, r):  # type: ignore[no-untyped-def]
    """Compute as _tile_step, from a tile to rows y0 … y1 and columns x0 … x1 (exclusive) of the grid."""
    s, n, left = np.uint64(begin), np.uint64(x1 - x0), np.uint64(x0)
    for y in range(y0, y1):
        row = out[y]
        for k in range(n):
            j = s + k
            here = source[j]
            lap = ((source[j + ROW] - here) - (here - source[j - ROW])) + (
                (source[j + ONE] - here) - (here - source[j - ONE])
            )
            row[left + k] = here + r * lap
        s += ROW


@njit(cache=True, nogil=True)
def _load(u, tile, top, left, rows, columns, kind):  # type: ignore[no-untyped-def]
    """Copy the rows and columns (first, last) of u into a tile, with ghost cells by `kind`."""
    ny, nx = u.shape
    first, last = max(columns[0], 0), min(columns[1], nx)
    for i in range(rows[0], rows[1]):
        here = _place(i - top, -left)
        inside = 0 <= i < ny
        if not inside and kind == ZERO_DIRICHLET:
            tile[here + columns[0] : here + columns[1]] = 0
            continue
        row = u[i] if inside else (u[i % ny] if kind == PERIODIC else u[min(max(i, 0), ny - 1)])
        tile[here + first : here + last] = row[first:last]
        for j in range(columns[0], first):
            tile[here + j] = row[j % nx] if kind == PERIODIC else (row[0] if kind == ZERO_FLUX else 0)
        for j in range(last, columns[1]):
            tile[here + j] = row[j % nx] if kind == PERIODIC else (row[nx - 1] if kind == ZERO_FLUX else 0)


@njit(cache=True, nogil=True)
def _refresh_ghosts(tile, top, left, rows, columns, shape, mirror):  # type: ignore[no-untyped-def]
    """Update the ghost cells next to those rows and columns (first, last) of a tile that are at an edge of the grid."""
    width = columns[1] - columns[0]
    for edge, ghost, cell in ((0, -1, 0), (shape[0], shape[0], shape[0] - 1)):
        if edge == rows[min(edge, 1)]:
            to, here = _place(ghost - top, columns[0] - left), _place(cell - top, columns[0] - left)
            if mirror:
                tile[to : to + width] = tile[here : here + width]
            else:
                tile[to : to + width] = 0
    for edge, ghost, cell in ((0, -1, 0), (shape[1], shape[1], shape[1] - 1)):
        if edge == columns[min(edge, 1)]:
            for i in range(rows[0], rows[1]):
                tile[_place(i - top, ghost - left)] = tile[_place(i - top, cell - left)] if mirror else 0


@njit(cache=True, nogil=True)
def _tile(u, out, tiles, place, r, kind, steps):  # type: ignore[no-untyped-def]
    """Compute `steps` steps of place = rows y0 … y1 and columns x0 … x1 (exclusive) from u to out."""
    y0, y1, x0, x1 = place
    top, left = y0 - APRON, x0 - APRON
    here, there = tiles[0], tiles[1]
    # The computed region: with periodic edges, ghost cells are computed like other cells; otherwise they are set from
    # their neighbours after each step. Invalid columns of the apron are computed as well.
    beyond = APRON if kind == PERIODIC else 0
    ghost = 0 if kind == PERIODIC else 1
    ny, nx = u.shape
    columns = max(x0 - APRON, -beyond), min(x1 + APRON, nx + beyond)
    rows = max(y0 - steps, -beyond - ghost), min(y1 + steps, ny + beyond + ghost)
    _load(u, here, top, left, rows, (max(left, -beyond - ghost), min(x1 + APRON, nx + beyond + ghost)), kind)
    for remaining in range(steps - 1, 0, -1):
        rows = max(y0 - remaining, -beyond), min(y1 + remaining, ny + beyond)
        begin = _place(rows[0] - top, columns[0] - left)
        _tile_step(here, there, begin, rows[1] - rows[0], columns[1] - columns[0], r)
        if kind != PERIODIC:
            _refresh_ghosts(there, top, left, rows, columns, (ny, nx), kind == ZERO_FLUX)
        here, there = there, here
    _last_step(here, _place(APRON, APRON), out, y0, y1, x0, x1, r)


@njit(cache=True, nogil=True)
def _run_of_tiles(u, out, tiles, run, size, r, kind, steps):  # type: ignore[no-untyped-def]
    """Compute the tiles of `run`, the first number and the last (exclusive); size: (height, width) of each."""
    ny, nx = u.shape
    across = -(-nx // size[1])
    for k in range(run[0], run[1]):
        y, x = k // across * size[0], k % across * size[1]
        _tile(u, out, tiles, (y, min(y + size[0], ny), x, min(x + size[1], nx)), r, kind, steps)


@njit(cache=True, nogil=True, parallel=True)
def _tiles(u, out, scratch, size, r, kind, steps):  # type: ignore[no-untyped-def]
    """Compute all tiles, a run of them per worker."""
    workers, tiles = scratch.shape[0], -(-u.shape[0] // size[0]) * -(-u.shape[1] // size[1])
    for worker in prange(workers):
        k = np.int64(worker)  # prange counts unsigned, and unsigned - signed is a float
        run = k * tiles // workers, (k + 1) * tiles // workers
        _run_of_tiles(u, out, scratch[k], run, size, r, kind, steps)


# -- one step in a pass, and the Laplacian


@njit(cache=True, nogil=True)
def _laplace(here, above, below, left, right):  # type: ignore[no-untyped-def]
    """Return the Laplacian of a cell: differences of the fluxes through its faces; see cpu_numpy.py."""
    return ((above - here) - (here - below)) + ((right - here) - (here - left))


@njit(cache=True, nogil=True)
def _neighbour_row(u, i, kind):  # type: ignore[no-untyped-def]
    """Return row i of u, which may be one outside the grid."""
    ny = u.shape[0]
    if kind == PERIODIC:
        return u[(i + ny) % ny]
    if kind == ZERO_FLUX or 0 <= i < ny:
        return u[min(max(i, 0), ny - 1)]
    return np.zeros_like(u[0])  # not derived from a cell: a non-finite one would affect the opposite edge


@njit(cache=True, nogil=True)
def _edge_row(u, out, i, r, only_laplacian, kind):  # type: ignore[no-untyped-def]
    """Compute the first or the last row, without its two ends."""
    row, above, below = u[i], _neighbour_row(u, i + 1, kind), _neighbour_row(u, i - 1, kind)
    for j in range(1, row.size - 1):
        lap = _laplace(row[j], above[j], below[j], row[j - 1], row[j + 1])
        out[i, j] = lap if only_laplacian else row[j] + r * lap


@njit(cache=True, nogil=True)
def _ends(u, out, i, above, below, r, only_laplacian, kind):  # type: ignore[no-untyped-def]
    """Compute the two ends of row i, between the rows above and below."""
    row, last = u[i], u.shape[1] - 1
    before, after = row[last], row[0]
    if kind != PERIODIC:
        before = row[0] if kind == ZERO_FLUX else u.dtype.type(0)
        after = row[last] if kind == ZERO_FLUX else u.dtype.type(0)
    for j, left, right in (
        (0, before, row[1] if last else after),
        (last, row[last - 1] if last else before, after),
    ):
        lap = _laplace(row[j], above[j], below[j], left, right)
        out[i, j] = lap if only_laplacian else row[j] + r * lap


@njit(cache=True, nogil=True)
def _inner_step(u, out, first, last, r):  # type: ignore[no-untyped-def]
    """Compute rows first … last (exclusive) without their two ends; unsigned indices as in _tile_step."""
    i, n = np.uint64(first), np.uint64(u.shape[1] - 2)
    for _ in range(last - first):
        for k in range(n):
            j = k + ONE
            here = u[i, j]
            lap = ((u[i + ONE, j] - here) - (here - u[i - ONE, j])) + ((u[i, j + ONE] - here) - (here - u[i, j - ONE]))
            out[i, j] = here + r * lap
        i += ONE


@njit(cache=True, nogil=True)
def _inner_laplacian(u, out, first, last):  # type: ignore[no-untyped-def]
    """Compute as _inner_step, but the Laplacian only."""
    i, n = np.uint64(first), np.uint64(u.shape[1] - 2)
    for _ in range(last - first):
        for k in range(n):
            j = k + ONE
            here = u[i, j]
            out[i, j] = ((u[i + ONE, j] - here) - (here - u[i - ONE, j])) + (
                (u[i, j + ONE] - here) - (here - u[i, j - ONE])
            )
        i += ONE


@njit(cache=True, nogil=True)
def _rows(u, out, first, last, r, only_laplacian, kind):  # type: ignore[no-untyped-def]
    """Compute rows first … last (exclusive)."""
    ny, nx = u.shape
    inner = max(first, 1), min(last, ny - 1)
    if nx > 2 and inner[0] < inner[1]:
        if only_laplacian:
            _inner_laplacian(u, out, inner[0], inner[1])
        else:
            _inner_step(u, out, inner[0], inner[1], r)
    for i in range(first, last):
        if not 0 < i < ny - 1:
            _edge_row(u, out, i, r, only_laplacian, kind)
        _ends(u, out, i, _neighbour_row(u, i + 1, kind), _neighbour_row(u, i - 1, kind), r, only_laplacian, kind)


@njit(cache=True, nogil=True, parallel=True)
def _sweep(u, out, r, only_laplacian, kind):  # type: ignore[no-untyped-def]
    """Write one step of u, or its Laplacian, to out."""
    ny = u.shape[0]
    shares = -(-ny // SHARE)
    for share in prange(shares):
        first = np.int64(share) * SHARE  # prange counts unsigned, and unsigned - signed is a float
        _rows(u, out, first, min(first + SHARE, ny), r, only_laplacian, kind)


VARIANTS: dict[str, Callable[..., None]] = {"T-step": step, "one-step": one_step}
