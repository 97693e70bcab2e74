"""The Mandelbrot set in NumPy: the reference. Every other backend exports the same functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.labs.mandelbrot.formula import BLOCK, FAR2, FAR_STEPS
from compute.labs.mandelbrot.state import MARGIN, Part, State

Line = NDArray[Any]


def direct(state: State, part: Part) -> None:
    """Iterate z^2 + c on the pixels of `part`, in the type of state.z (float32 or float64).

    Reads re and im; reads and writes z and count; writes smooth where a pixel finishes; adds to totals.
    """
    done, i, j = unfinished(state.count, part)
    cr, ci = state.re[j], state.im[i]
    if part.shortcuts:
        skip = (done == 0) & _inside(cr, ci)
        finish(state, i[skip], j[skip], part.max_iterations, np.nan)
        done, i, j, cr, ci = (a[~skip] for a in (done, i, j, cr, ci))
    x, y = (np.where(done == 0, a.dtype.type(0), a) for a in state.z[:, i, j])
    for begun in np.unique(done):
        group = np.flatnonzero(done == begun)
        chosen = (a[group] for a in (i, j, cr, ci, x, y))
        _run(state, part, int(begun), *chosen)


def pick(values: Line, out: Line, stride: int) -> None:
    """out (py, px) = every stride-th value of values (ny, nx) in both directions, from (0, 0) on; both float32."""
    out[...] = values[::stride, ::stride]


def unfinished(count: Line, part: Part) -> tuple[Line, Line, Line]:
    """Iterations done, row and column of the pixels that `part` works on."""
    rows = slice(part.first * part.stride, (part.last - 1) * part.stride + 1, part.stride)
    done = -1 - count[rows, :: part.stride].astype(np.int64)
    i, j = np.nonzero((done >= 0) & (done < part.limit))
    return done[i, j], (i + part.first) * part.stride, j * part.stride


def finish(state: State, i: Line, j: Line, count: Any, smooth: Any) -> None:
    """Write the results of pixels (i, j)."""
    state.count[i, j] = count
    state.smooth[i, j] = smooth


def leave(state: State, part: Part, i: Line, j: Line, n: int) -> bool:
    """Pixels (i, j) have done n iterations without escape: note it; True if the caller must keep their state."""
    if n >= part.max_iterations:
        finish(state, i, j, part.max_iterations, np.nan)
        return False
    state.count[i, j] = -1 - n
    state.totals[1] += i.size if n < part.limit else 0
    return True


def smooth_count(x: Line, y: Line, cr: Line, ci: Line, n: Line) -> Line:
    """n + 1 - log2(ln|z_n| / ln 2), read off a few steps later where it is accurate. Everything in float64."""
    x, y, cr, ci = (a.astype(np.float64) for a in (x, y, cr, ci))
    n = n.astype(np.float64)
    for _ in range(FAR_STEPS):
        near = x * x + y * y < FAR2
        if not near.any():
            break
        x, y = np.where(near, x * x - y * y + cr, x), np.where(near, 2 * x * y + ci, y)
        n += near
    return n + 1 - np.log2(np.log2(x * x + y * y) * 0.5)


def _run(state: State, part: Part, n: int, *pixels: Line) -> None:
    """Iterate pixels i, j, cr, ci, x, y that have all done n iterations; drop those that escape, block by block."""
    i, j, cr, ci, x, y = pixels
    end = min(n + part.iterations, part.limit)
    with np.errstate(over="ignore", invalid="ignore"):
        while n < end and i.size:
            size = min(BLOCK, end - n)
            begin_x, begin_y = x, y
            for _ in range(size):
                x, y = _step(x, y, cr, ci)
            stays = x * x + y * y <= 4
            out = ~stays
            if out.any():
                _replay(state, n, i[out], j[out], cr[out], ci[out], begin_x[out], begin_y[out])
                i, j, cr, ci, x, y = (a[stays] for a in (i, j, cr, ci, x, y))
            n += size
            state.totals[0] += size * i.size
    if i.size and leave(state, part, i, j, n):
        state.z[0, i, j], state.z[1, i, j] = x, y


def _replay(state: State, n: int, *pixels: Line) -> None:
    """Step by step through the block in which these pixels escape."""
    i, j, cr, ci, x, y = pixels
    while i.size:
        x, y = _step(x, y, cr, ci)
        n += 1
        state.totals[0] += i.size
        stays = x * x + y * y <= 4
        out = ~stays
        if out.any():
            smooth = smooth_count(x[out], y[out], cr[out], ci[out], np.full(out.sum(), n))
            finish(state, i[out], j[out], n, smooth)
            i, j, cr, ci, x, y = (a[stays] for a in (i, j, cr, ci, x, y))


def _step(x: Line, y: Line, cr: Line, ci: Line) -> tuple[Line, Line]:
    """z^2 + c, operation by operation as in formula.py."""
    t = cr - y * y
    return x * x + t, (x + x) * y + ci


def _inside(cr: Line, ci: Line) -> Line:
    """Whether c lies in the main cardioid or in the disc of period 2, by at least MARGIN."""
    real = cr.dtype.type
    margin = real(MARGIN[cr.dtype.name])
    a, y2 = cr - real(0.25), ci * ci
    q = a * a + y2
    return (q * (q + a) + margin <= real(0.25) * y2) | ((cr + 1) * (cr + 1) + y2 + margin <= real(0.0625))
