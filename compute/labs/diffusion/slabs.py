"""Diffusion on several devices, as arithmetic without devices: the rows of each device, and the order of the work.

The rows of the grid are cut into slabs, one per device. A slab also stores `ghost` rows on either side of its own:
copies of its neighbours' rows. After a launch of T steps a row is valid if T rows on either side of it were valid
before, so each launch invalidates T ghost rows. Before too few are valid, and at the end, neighbours exchange them.

For an exchange a slab first computes the rows that the neighbours need, its edge strips; they are copied while it
computes the rest. So a plan is a list of launches and copies, each with the works that must be finished before it.
Every execution that respects this order gets the same bits, in one memory (tests) or on streams of several GPUs
(gpu_slabs.py).

A slab is computed like a separate grid: at its artificial ends the kernel applies edge conditions of the grid, but only
rows out of their reach are used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

FEWEST_GHOSTS = 8  # ghost rows per side: as many as the steps of the longest launch


@dataclass(frozen=True)
class Slab:
    """Rows `first` to `last` (exclusive) of the grid, in an array with `ghost` further rows on either side of them."""

    first: int
    last: int
    ghost: int

    @property
    def rows(self) -> int:
        """Number of rows that it owns."""
        return self.last - self.first

    @property
    def height(self) -> int:
        """Number of rows of its array."""
        return self.rows + 2 * self.ghost

    @property
    def own(self) -> slice:
        """Its own rows in its array."""
        return slice(self.ghost, self.ghost + self.rows)

    def place(self, row: int) -> int:
        """Return the row of its array that contains row `row` of the grid."""
        return row - self.first + self.ghost


@dataclass(frozen=True)
class Launch:
    """`steps` steps of slab `slab` from its array number `source` to the other one.

    bands: the rows of its array to compute, in bands of equal height that do not touch; strip: whether they are edge
    strips that the neighbours need; after: the numbers of the works that must be finished before.
    """

    slab: int
    steps: int
    source: int
    bands: tuple[tuple[int, int], ...]
    strip: bool
    after: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """`rows` rows of array number `array`, from row `start` of slab `slab` to row `target` of slab `to`."""

    slab: int
    to: int
    array: int
    start: int
    target: int
    rows: int
    after: tuple[int, ...]


SlabWork = Launch | Copy


@dataclass(frozen=True)
class SlabLayout:
    """The distribution of `ny` rows over `count` devices, with `ghost` ghost rows per side.

    Sizes of slabs differ by at most one row. Raise ValueError if a slab would have fewer rows than the ghost rows of
    its neighbour. A single slab has no ghost rows.
    """

    ny: int
    count: int
    ghost: int

    def __post_init__(self) -> None:
        if self.count < 1 or self.ghost < 1:
            raise ValueError(f"count and ghost must be at least 1, not {self.count} and {self.ghost}")
        least = self.count * self.ghost
        if self.count > 1 and self.ny < least:
            raise ValueError(
                f"ny must be at least {least} on {self.count} devices, not {self.ny}: "
                f"each passes {self.ghost} rows of its own on to its neighbours"
            )

    @cached_property
    def slabs(self) -> tuple[Slab, ...]:
        """The slabs, starting with row 0."""
        ends = [number * self.ny // self.count for number in range(self.count + 1)]
        ghost = self.ghost if self.count > 1 else 0
        return tuple(Slab(first, last, ghost) for first, last in pairwise(ends))

    def before(self, number: int, periodic: bool) -> int | None:
        """Return the slab with the rows before those of slab `number`; None at the edge of the grid."""
        if self.count == 1:
            return None
        return (number - 1) % self.count if number or periodic else None

    def behind(self, number: int, periodic: bool) -> int | None:
        """Return the slab with the rows after those of slab `number`; None at the edge of the grid."""
        if self.count == 1:
            return None
        return (number + 1) % self.count if number + 1 < self.count or periodic else None

    def span(self, number: int, periodic: bool) -> tuple[int, int]:
        """Return first and last (exclusive) used row of a slab's array: no ghosts beyond the grid's edge."""
        slab = self.slabs[number]
        first = slab.ghost if self.before(number, periodic) is None else 0
        return first, slab.height - (slab.ghost if self.behind(number, periodic) is None else 0)

    def owner(self, row: int) -> int:
        """Return the slab that owns a row of the grid."""
        return next(number for number, slab in enumerate(self.slabs) if row < slab.last)

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield (slab, first, last) of the parts of rows `first` to `last` of the grid, in rows of the grid."""
        for number, slab in enumerate(self.slabs):
            low, high = max(first, slab.first), min(last, slab.last)
            if low < high:
                yield number, low, high

    def exchange(self, periodic: bool, array: int = 0) -> list[Copy]:
        """Return copies that update every ghost row of array number `array` and wait for nothing."""
        return [copy for number in range(self.count) for copy in self._sent(number, periodic, array)]

    def _sent(self, number: int, periodic: bool, array: int) -> Iterator[Copy]:
        """Yield the copies from a slab: its first rows to the previous slab, its last rows to the next."""
        slab, slabs = self.slabs[number], self.slabs
        before, behind = self.before(number, periodic), self.behind(number, periodic)
        if before is not None:
            target = slabs[before].own.stop
            yield Copy(number, before, array, slab.ghost, target, slab.ghost, ())
        if behind is not None:
            yield Copy(number, behind, array, slab.own.stop - slab.ghost, 0, slab.ghost, ())

    def strips(self, number: int, periodic: bool) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return (strips, middle) of a slab's own rows: those to copy, and the rest; a thin slab has no middle."""
        slab = self.slabs[number]
        low, high = slab.own.start, slab.own.stop
        first = low + (slab.ghost if self.before(number, periodic) is not None else 0)
        last = high - (slab.ghost if self.behind(number, periodic) is not None else 0)
        if first >= last:
            return [(low, high)], []
        return [band for band in ((low, first), (last, high)) if band[0] < band[1]], [(first, last)]


@dataclass
class _Finished:
    """The works of a slab in one turn, by number."""

    launches: tuple[int, ...] = ()
    readers: tuple[int, ...] = ()  # launches that read ghost rows
    sent: tuple[int, ...] = ()
    arrived: tuple[int, ...] = ()


def plan(layout: SlabLayout, periodic: bool, sizes: Sequence[int]) -> list[SlabWork]:
    """Return launches of `sizes` steps and the copies between them, in an order in which they can be executed.

    At the beginning all ghost rows of array 0 of each slab are valid, at the end those of array len(sizes) % 2. Raise
    ValueError for a launch of more steps than ghost rows.
    """
    if layout.count > 1 and max(sizes) > layout.ghost:
        raise ValueError(f"a launch must take at most {layout.ghost} steps, as there are ghost rows, not {max(sizes)}")
    made: list[SlabWork] = []
    past: dict[int, _Finished] = defaultdict(_Finished)  # of the previous turn, by slab
    sent: dict[int, tuple[int, ...]] = {}  # copies of the turn before that
    right = layout.ghost
    for turn, steps in enumerate(sizes):
        right -= steps
        passing = layout.count > 1 and (turn + 1 == len(sizes) or right < sizes[turn + 1])
        now = [_Finished() for _ in range(layout.count)]
        for number in range(layout.count):
            old = past[number]
            needed = tuple(sorted({*old.launches, *old.arrived, *sent.get(number, ())}))
            if passing:
                strips, middle = layout.strips(number, periodic)
                now[number].readers = _launch(made, number, steps, turn, strips, True, needed)
                rest = _launch(made, number, steps, turn, middle, False, old.launches)
                now[number].launches = now[number].readers + rest
            else:
                band = _reach(layout, number, periodic, max(0, right))
                now[number].launches = _launch(made, number, steps, turn, [band], False, needed)
                now[number].readers = now[number].launches
        if passing:
            for copy in layout.exchange(periodic, (turn + 1) % 2):
                after = now[copy.slab].readers + past[copy.to].readers
                now[copy.slab].sent += (len(made),)
                now[copy.to].arrived += (len(made),)
                made.append(Copy(copy.slab, copy.to, copy.array, copy.start, copy.target, copy.rows, after))
            right = layout.ghost
        sent = {number: past[number].sent for number in range(layout.count)}
        past = defaultdict(_Finished, enumerate(now))
    return made


def _launch(
    made: list[SlabWork],
    slab: int,
    steps: int,
    turn: int,
    bands: list[tuple[int, int]],
    strip: bool,
    after: tuple[int, ...],
) -> tuple[int, ...]:
    """Append the launch that computes the bands, and return (number,), or () without bands."""
    if not bands:
        return ()
    made.append(Launch(slab, steps, turn % 2, tuple(bands), strip, after))
    return (len(made) - 1,)


def _reach(layout: SlabLayout, number: int, periodic: bool, right: int) -> tuple[int, int]:
    """Return the rows of a slab's array to compute so that `right` ghost rows are valid."""
    first, last = layout.span(number, periodic)
    own = layout.slabs[number].own
    return max(first, own.start - right), min(last, own.stop + right)
