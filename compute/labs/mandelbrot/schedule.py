"""In which order the pixels of a picture are iterated: coarse to fine, shallow to deep, in slices of bounded work."""

from __future__ import annotations

from dataclasses import dataclass

from compute.labs.mandelbrot.state import Part

STRIDES = (8, 4, 2, 1)  # pixels between those of a pass; each pass adds to the ones before
FIRST_LIMIT, GROWTH = 4096, 8  # iterations that all pixels get before any gets more, and how that limit grows
SHORTEST = 256  # iterations of a slice at least: reading and writing a pixel's state then costs little


@dataclass(frozen=True)
class Pass:
    """All unfinished pixels at multiples of `stride`, up to `limit` iterations."""

    stride: int
    limit: int


class Schedule:
    """Deals out the parts of one picture of ny x nx pixels.

    strides: of the passes up to the first limit. stride: of the finest pass that is complete up to it, 0 before the
    first; finished: nothing is left.
    """

    def __init__(
        self, ny: int, nx: int, max_iterations: int, shortcuts: bool, strides: tuple[int, ...] = STRIDES
    ) -> None:
        self._ny, self._nx, self._top, self._shortcuts = ny, nx, max_iterations, shortcuts
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
        """Iterations up to which pixels are being brought now."""
        return self._passes[min(self._at, len(self._passes) - 1)].limit

    @property
    def progress(self) -> float:
        """Part of the passes that is complete, from 0 to 1; every pass counts as if no pixel escaped."""
        if self.finished:
            return 1.0
        now = self._passes[self._at]
        depth = self._depth + self._sweep * self._row / self._rows(now)
        return (self._at + min(1.0, depth / now.limit)) / len(self._passes)

    def part(self, budget: int) -> Part:
        """The next part, of at most about `budget` iterations (pixels x iterations, as if none escaped)."""
        now = self._passes[self._at]
        rows, columns = self._rows(now), -(-self._nx // now.stride)
        iterations = min(max(SHORTEST, budget // (rows * columns)), now.limit)
        count = max(1, budget // (columns * iterations))
        last = min(rows, self._row + count)
        return Part(self._row, last, now.stride, iterations, now.limit, self._top, self._shortcuts)

    def did(self, part: Part, left: int) -> None:
        """Note that `part` was done and left that many pixels below its limit."""
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
        """A new pass: the next row, pixels left so far, iterations all have done, and what this sweep adds to them."""
        self._row = self._left = self._depth = self._sweep = 0

    def _rows(self, which: Pass) -> int:
        return -(-self._ny // which.stride)


def passes(max_iterations: int, strides: tuple[int, ...] = STRIDES) -> list[Pass]:
    """First all `strides` (the last one is 1) up to the first limit, then the full picture up to ever higher limits."""
    limit = min(FIRST_LIMIT, max_iterations)
    found = [Pass(stride, limit) for stride in strides]
    while limit < max_iterations:
        limit = min(limit * GROWTH, max_iterations)
        found.append(Pass(1, limit))
    return found
