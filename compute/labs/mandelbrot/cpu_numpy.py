"""The Mandelbrot set in NumPy: the reference. Every other backend exports the same functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from compute.labs.mandelbrot.bla import bla, normal, plus, scaled
from compute.labs.mandelbrot.formula import BLOCK, CLOSE2, FAR2, FAR_STEPS, FIRST, NEWTON, SLACK, STILL2
from compute.labs.mandelbrot.reference_orbit import ReferenceOrbit
from compute.labs.mandelbrot.state import MARGIN, LaunchPart, PixelArrays

__all__ = ["bla"]


Line = NDArray[Any]

Mask = NDArray[np.bool_]

Axis = NDArray[np.float64]
Points = NDArray[np.complex128]


def direct(state: PixelArrays, part: LaunchPart) -> None:
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


def perturbed(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate the pixels of `part` as differences from `reference`, in float64: pixel spacings down to 1e-290.

    Reads re and im (offsets in pixels); reads and writes z, place[0] and count; writes smooth; adds to totals. Computes
    every step without the table, so that it checks the other backends.
    """
    for n, rows, columns in _groups(state, part):
        i, j = rows, columns
        dc = _offset(state, reference, i, j)
        if n == 0 and part.shortcuts:
            c = dc + complex(*reference.centre)
            skip = _inside(c.real, c.imag)
            finish(state, i[skip], j[skip], part.max_iterations, np.nan)
            i, j, dc = i[~skip], j[~skip], dc[~skip]
        d, m, _ = _kept(state, n, i, j)
        _follow(state, part, reference, n, i, j, PlainNumbers(d), m, PlainNumbers(dc))


def far(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit) -> None:
    """Iterate like `perturbed`, with a separate exponent for each number: any pixel spacing. Also writes place[1]."""
    for n, i, j in _groups(state, part):
        d, m, power = _kept(state, n, i, j)
        dc = WideNumbers.of(_offset(state, reference, i, j), np.full(i.size, reference.exponent))
        _follow(state, part, reference, n, i, j, WideNumbers(d, power), m, dc)


def pick(values: Line, out: Line, stride: int) -> None:
    """Copy every stride-th value of values (ny, nx) in both directions, from (0, 0), to out (py, px); both float32."""
    out[...] = values[::stride, ::stride]


def unfinished(count: Line, part: LaunchPart) -> tuple[Line, Line, Line]:
    """Return the completed iterations, the row and the column of the pixels that `part` iterates."""
    rows = slice(part.first * part.stride, (part.last - 1) * part.stride + 1, part.stride)
    done = -1 - count[rows, :: part.stride].astype(np.int64)
    i, j = np.nonzero((done >= 0) & (done < part.limit))
    return done[i, j], (i + part.first) * part.stride, j * part.stride


def finish(state: PixelArrays, i: Line, j: Line, count: Any, smooth: Any) -> None:
    """Write the results of pixels (i, j)."""
    state.count[i, j] = count
    state.smooth[i, j] = smooth


def leave(state: PixelArrays, part: LaunchPart, i: Line, j: Line, n: int) -> bool:
    """Record that pixels (i, j) did n iterations without escape; return True if the caller must store their state."""
    if n >= part.max_iterations:
        finish(state, i, j, part.max_iterations, np.nan)
        return False
    state.count[i, j] = -1 - n
    state.totals[1] += i.size if n < part.limit else 0
    return True


def smooth_count(x: Line, y: Line, cr: Line, ci: Line, n: Line) -> Line:
    """Return n + 1 - log2(ln|z_n| / ln 2), computed in float64 a few steps later, where the formula is accurate."""
    x, y, cr, ci = (a.astype(np.float64) for a in (x, y, cr, ci))
    n = n.astype(np.float64)
    for _ in range(FAR_STEPS):
        near = x * x + y * y < FAR2
        if not near.any():
            break
        x, y = np.where(near, x * x - y * y + cr, x), np.where(near, 2 * x * y + ci, y)
        n += near
    return n + 1 - np.log2(np.log2(x * x + y * y) * 0.5)


def _run(state: PixelArrays, part: LaunchPart, n: int, *pixels: Line) -> None:
    """Iterate pixels i, j, cr, ci, x, y that all have n iterations; drop escaped pixels, block by block."""
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


def _replay(state: PixelArrays, n: int, *pixels: Line) -> None:
    """Repeat the block in which these pixels escape, step by step."""
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
    """Return z^2 + c, with the operations of formula.py in the same order."""
    t = cr - y * y
    return x * x + t, (x + x) * y + ci


def _groups(state: PixelArrays, part: LaunchPart) -> Iterator[tuple[int, Line, Line]]:
    """Yield the pixels that `part` iterates, grouped by their number n of completed iterations: (n, rows, columns)."""
    done, i, j = unfinished(state.count, part)
    for n in np.unique(done):
        yield int(n), i[done == n], j[done == n]


def _kept(state: PixelArrays, n: int, i: Line, j: Line) -> tuple[Line, Line, Line]:
    """Return delta, index in the reference and power of pixels with n iterations; all are 0 for n = 0."""
    if n == 0:
        return np.zeros(i.size, complex), np.zeros(i.size, np.int64), np.zeros(i.size, np.int64)
    m, power = state.place[:, i, j].astype(np.int64)
    return state.z[0, i, j] + 1j * state.z[1, i, j], m, power


def _offset(state: PixelArrays, reference: ReferenceOrbit, i: Line, j: Line) -> Line:
    return reference.spacing * (state.re[j] + 1j * state.im[i])


def _follow(state: PixelArrays, part: LaunchPart, reference: ReferenceOrbit, n: int, *pixels: Any) -> None:
    """Iterate pixels i, j, with deltas d at index m of the reference and offsets dc, by perturbation with rebasing."""
    i, j, d, m, dc = pixels
    centre = complex(*reference.centre)
    orbit = type(d).orbit(reference)
    last, end = reference.orbit.shape[0] - 1, min(n + part.iterations, part.limit)
    while n < end and i.size:
        here = orbit[m]
        d = d * (here + here + d) + dc
        m, n = m + 1, n + 1
        state.totals[0] += i.size
        z = orbit[m] + d
        value = z.value()
        out = ~(value.real**2 + value.imag**2 <= 4)
        if out.any():
            c = centre + dc.value()
            x, y, cr, ci = (part[out] for part in (value.real, value.imag, c.real, c.imag))
            finish(state, i[out], j[out], n, smooth_count(x, y, cr, ci, np.full(x.size, n)))
            i, j, m, d, dc, z = (each[~out] for each in (i, j, m, d, dc, z))
        rebase = z.smaller(d) | (m == last)
        d, m = d.where(rebase, z), np.where(rebase, 0, m)
    if i.size and leave(state, part, i, j, n):
        state.z[0, i, j], state.z[1, i, j] = d.a.real, d.a.imag
        state.place[0, i, j], state.place[1, i, j] = m, d.power


def _inside(cr: Line, ci: Line) -> Line:
    """Return whether c is in the main cardioid or in the disc of period 2, by at least MARGIN."""
    real = cr.dtype.type
    margin = real(MARGIN[cr.dtype.name])
    a, y2 = cr - real(0.25), ci * ci
    q = a * a + y2
    return (q * (q + a) + margin <= real(0.25) * y2) | ((cr + 1) * (cr + 1) + y2 + margin <= real(0.0625))


VARIANTS = {"block": direct}  # an escape test each block of steps; the first is the default
counts_only = None  # no kernel without smooth counts: only CUDA C has such a kernel, for timing


# -- arrays of complex numbers: plain float64, and with an exponent beyond its range


@dataclass(frozen=True)
class PlainNumbers:
    """(n,) complex128 numbers, with the operations of WideNumbers."""

    a: NDArray[np.complex128]
    power: Any = 0

    @classmethod
    def orbit(cls, reference: ReferenceOrbit) -> PlainNumbers:
        """Return Z_0 … Z_M."""
        return cls(reference.orbit[:, 0] + 1j * reference.orbit[:, 1])

    def __getitem__(self, which: Any) -> PlainNumbers:
        return PlainNumbers(self.a[which])

    def __add__(self, other: Self) -> PlainNumbers:
        return PlainNumbers(self.a + other.a)

    def __mul__(self, other: Self) -> PlainNumbers:
        return PlainNumbers(self.a * other.a)

    def value(self) -> NDArray[np.complex128]:
        """Return the numbers in float64."""
        return self.a

    def smaller(self, other: Self) -> Mask:
        """Return the mask where |self| < |other|, in the norm |x| + |y|."""
        return np.asarray(_size(self.a) < _size(other.a))

    def where(self, mask: Mask, other: Self) -> PlainNumbers:
        """Return `other` where mask is set, else self."""
        return PlainNumbers(np.where(mask, other.a, self.a))


@dataclass(frozen=True)
class WideNumbers:
    """(n,) numbers a 2^power with |a| around 1: complex128 and int64."""

    a: NDArray[np.complex128]
    power: NDArray[np.int64]

    @classmethod
    def of(cls, a: NDArray[np.complex128], power: NDArray[np.int64]) -> WideNumbers:
        """Return a 2^power with its mantissa near 1."""
        return cls(*normal(a, power))

    @classmethod
    def orbit(cls, reference: ReferenceOrbit) -> WideNumbers:
        """Return Z_0 … Z_M."""
        return cls.of(reference.orbit[:, 0] + 1j * reference.orbit[:, 1], reference.exponents.astype(np.int64))

    def __getitem__(self, which: Any) -> WideNumbers:
        return WideNumbers(self.a[which], self.power[which])

    def __add__(self, other: Self) -> WideNumbers:
        return WideNumbers(*plus(self.a, self.power, other.a, other.power))

    def __mul__(self, other: Self) -> WideNumbers:
        return WideNumbers.of(self.a * other.a, self.power + other.power)

    def value(self) -> NDArray[np.complex128]:
        """Return the numbers in float64; 0 where they are too small."""
        return scaled(self.a, self.power)

    def smaller(self, other: Self) -> Mask:
        """Return the mask where |self| < |other|, in the norm |x| + |y|."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log2(_size(self.a)) + self.power < np.log2(_size(other.a)) + other.power)

    def where(self, mask: Mask, other: Self) -> WideNumbers:
        """Return `other` where mask is set, else self."""
        return WideNumbers(np.where(mask, other.a, self.a), np.where(mask, other.power, self.power))


def _size(z: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.asarray(np.abs(z.real) + np.abs(z.imag))


# -- the attracting cycle; formula.py describes the algorithm


def multiplier(
    re: Axis, im: Axis, count: NDArray[Any], out: NDArray[Any], max_iterations: int, settle: int, longest: int
) -> None:
    """Write |product of 2 z over the attracting cycle|, 0 to 1, to out where the count is max_iterations.

    re (nx,), im (ny,): float64, the parts of c; count: int32 (ny, nx); out: float32 (ny, nx). NaN for the other pixels
    and where no cycle of up to `longest` points was found within `settle` iterations.
    """
    out[...] = np.nan
    i, j = np.nonzero(count == max_iterations)
    c = re[j] + 1j * im[i]
    z, n, limit = np.zeros_like(c), 0, FIRST
    with np.errstate(over="ignore", invalid="ignore"):
        while n < settle and c.size:
            for _ in range(min(limit, settle) - n):
                z = z * z + c
            n, limit = min(limit, settle), 2 * limit
            stays = np.abs(z) <= 2
            i, j, c, z = i[stays], j[stays], c[stays], z[stays]
            size = _attraction(z, c, min(longest, n))
            out[i, j] = size
            left = np.isnan(size)
            i, j, c, z = i[left], j[left], c[left], z[left]


def _attraction(z: Points, c: Points, longest: int) -> Axis:
    """Return |multiplier| of the attracting cycles near z, or NaN; tries the periods of closest return."""
    sizes, best, w, k = np.full(c.size, np.nan), np.full(c.size, np.inf), z, np.arange(c.size)
    for period in range(1, longest + 1):
        w = w * w + c[k]
        apart = np.abs(w - z[k])
        tries = k[apart < best]
        best = np.minimum(best, apart)
        if tries.size:
            sizes[tries] = strength(_settled(z[tries], c[tries], period), c[tries], period)
            left = np.isnan(sizes[k])
            k, w, best = k[left], w[left], best[left]
    return sizes


def _settled(z: Points, c: Points, period: int) -> Points:
    """Return the points near z that return after `period` steps, by Newton's method; NaN where it does not converge."""
    z, k = z.copy(), np.arange(z.size)
    move2 = np.full(z.size, np.inf)
    for _ in range(NEWTON):
        if not k.size:
            break
        w, slope = z[k], np.ones(k.size, complex)
        for _ in range(period):
            slope, w = 2 * w * slope, w * w + c[k]
        good = (slope != 1) & (np.abs(w) <= 4)
        move2[k[~good]] = np.inf
        k, w, slope = k[good], w[good], slope[good]
        move = (w - z[k]) / (slope - 1)
        z[k] -= move
        move2[k] = move.real**2 + move.imag**2
        k = k[~(move2[k] <= STILL2)]
    return np.where((move2 <= CLOSE2) & (np.abs(z) <= 2), z, np.nan)


def strength(z: Points, c: Points, period: int) -> Axis:
    """Return |product of 2 z| over the cycles of z, whose true period divides `period`; NaN where it is above 1."""
    w, slope, open_ = z, np.ones_like(z), np.ones(z.size, bool)
    for _ in range(period):
        slope = np.where(open_, 2 * w * slope, slope)
        w = w * w + c
        open_ &= ~(np.abs(w - z) ** 2 <= CLOSE2)
    size = np.abs(slope)
    return np.where(size <= 1 + SLACK, np.minimum(size, 1), np.nan)
