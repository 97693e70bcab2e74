"""The order in which the pixels of a picture are iterated: coarse to fine, shallow to deep, in bounded slices.

A new view reuses the pixels of the last view whose centres coincide: after a pan by whole pixels all pixels that are in
both views, after a zoom by 2 a quarter of the new pixels. Their counts are kept; an unfinished pixel continues from its
last iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.state import LaunchPart

STRIDES = (8, 4, 2, 1)  # distance in pixels between the pixels of a pass; each pass adds to the previous passes
FIRST_LIMIT, GROWTH = 4096, 8  # first iteration limit, reached by all pixels before any gets more, and its growth
SHORTEST = 256  # minimum iterations of a slice, so that reading and writing a pixel's state costs little

CLOSE = Fraction(1, 1000)  # of a pixel: maximum distance at which a new centre counts as an old one
LEAST = 0.25  # minimum part of the new view that the old one must cover; below it, no pixel is reused
RATIOS = {Fraction(1): (1, 1), Fraction(1, 2): (1, 2), Fraction(2): (2, 1)}  # pixel spacings, new to old


@dataclass(frozen=True)
class RefinementPass:
    """All unfinished pixels at multiples of `stride`, up to `limit` iterations."""

    stride: int
    limit: int


class Schedule:
    """Divides one picture of ny x nx pixels into the parts of its launches.

    strides: the strides of the passes up to the first limit. fresh: whether no pixel has been iterated. stride: of the
    finest pass that is complete up to the first limit, 0 before the first; finished: whether all passes are complete.
    """

    def __init__(
        self,
        ny: int,
        nx: int,
        max_iterations: int,
        shortcuts: bool,
        strides: tuple[int, ...] = STRIDES,
        *,
        fresh: bool = False,
    ) -> None:
        self._ny, self._nx, self._top, self._shortcuts = ny, nx, max_iterations, shortcuts
        self._fresh = fresh
        self._passes = passes(max_iterations, strides)
        self._at = 0
        self._row = self._left = self._depth = self._sweep = 0
        self.stride = 0

    @property
    def finished(self) -> bool:
        """Whether every pixel has its count."""
        return self._at == len(self._passes)

    @property
    def limit(self) -> int:
        """Iteration limit of the current pass."""
        return self._passes[min(self._at, len(self._passes) - 1)].limit

    @property
    def progress(self) -> float:
        """The completed part of the passes, from 0 to 1; every pass counts as if no pixel escaped."""
        if self.finished:
            return 1.0
        now = self._passes[self._at]
        depth = self._depth + self._sweep * self._row / self._rows(now)
        return (self._at + min(1.0, depth / now.limit)) / len(self._passes)

    def part(self, budget: int) -> LaunchPart:
        """Return the next part, of at most about `budget` iterations (pixels x iterations, as if none escaped)."""
        now = self._passes[self._at]
        rows, columns = self._rows(now), -(-self._nx // now.stride)
        iterations = min(max(SHORTEST, budget // (rows * columns)), now.limit)
        count = max(1, budget // (columns * iterations))
        last = min(rows, self._row + count)
        fresh = self._fresh and self._at == 0 and self._depth == 0  # the first sweep of the first pass
        return LaunchPart(self._row, last, now.stride, iterations, now.limit, self._top, self._shortcuts, fresh)

    def did(self, part: LaunchPart, left: int) -> None:
        """Record that `part` was computed and left `left` pixels below its limit."""
        self._left += left
        self._row = part.last
        self._sweep = min(self._sweep or part.iterations, part.iterations)
        if self._row < self._rows(self._passes[self._at]):
            return
        if not self._left:
            self.stride = part.stride
            self._at += 1
            self._begin()
        else:
            self._row, self._left, self._depth, self._sweep = 0, 0, self._depth + self._sweep, 0

    def _begin(self) -> None:
        """Start a pass: reset next row, unfinished pixels, iterations of all pixels, and iterations of this sweep."""
        self._row = self._left = self._depth = self._sweep = 0

    def _rows(self, which: RefinementPass) -> int:
        return -(-self._ny // which.stride)


def passes(max_iterations: int, strides: tuple[int, ...] = STRIDES) -> list[RefinementPass]:
    """Return the passes: all `strides` (the last one is 1) up to the first limit, then stride 1 up to rising limits."""
    limit = min(FIRST_LIMIT, max_iterations)
    found = [RefinementPass(stride, limit) for stride in strides]
    while limit < max_iterations:
        limit = min(limit * GROWTH, max_iterations)
        found.append(RefinementPass(1, limit))
    return found


# -- pixels that a new view reuses


@dataclass(frozen=True)
class Overlap:
    """Pixel (i, j) of the new view is pixel ((i num + y0) / den, (j num + x0) / den) of the old view, if integer.

    place: the new view with its centre moved by at most CLOSE pixels, so that the centres coincide exactly. share: the
    part of the new view's pixels that the old view contains.
    """

    place: Place
    num: int
    den: int
    y0: int
    x0: int
    share: float

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the passes for a picture that starts with these pixels."""
        return (1,) if self.num == self.den else (2, 1) if self.den == 2 else (8, 4, 2, 1)


def overlap(old: Place, new: Place) -> Overlap | None:
    """Return the overlap of `new` with `old`; None if it is too small, or if no centres coincide closely enough."""
    ratio = RATIOS.get(new.step / old.step)
    if ratio is None:
        return None
    num, den = ratio
    x0, right = _whole(old.re, new.re, old, (old.nx, new.nx), ratio)
    y0, up = _whole(old.im, new.im, old, (old.ny, new.ny), ratio)
    if max(abs(right), abs(up)) > CLOSE * num:
        return None
    unit = old.step / den
    place = replace(new, re=new.re - right * unit, im=new.im - up * unit)
    part = [_part(size, was, start, num, den) for size, was, start in ((new.nx, old.nx, x0), (new.ny, old.ny, y0))]
    covered = part[0] * part[1]
    if covered < LEAST:
        return None
    return Overlap(place, num, den, y0, x0, covered / (den * den))


def _whole(
    was: Fraction, now: Fraction, old: Place, sizes: tuple[int, int], ratio: tuple[int, int]
) -> tuple[int, Fraction]:
    """Return the new view's first pixel relative to the old one's, in 1 / den old pixels, and the remainder."""
    num, den = ratio
    start = Fraction(sizes[0] - 1, 2) * den + (now - was) / old.step * den - Fraction(sizes[1] - 1, 2) * num
    return round(start), start - round(start)


def _part(size: int, was: int, start: int, num: int, den: int) -> float:
    """Return the part of the new view's `size` pixels that is within the old view, along one axis."""
    first = max(0, -(start // num))
    last = min(size - 1, ((was - 1) * den - start) // num)
    return max(0, last - first + 1) / size
