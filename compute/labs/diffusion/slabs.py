"""Diffusion on several devices, as arithmetic: who owns which rows, and what is done after what. No device is touched.

The rows of the grid are cut into slabs, one a device, which holds `ghost` further rows on either side of its own:
copies of its neighbours' rows. A launch of T steps makes a row right if T rows on either side of it were right; so T
ghost rows less are right after it. Before there are too few, and at the end, neighbours pass each other new ones.

Before that happens a slab makes those of its rows first that the neighbours want, its edge strips; they travel while it
makes the rest. So a plan is a list of launches and copies, each with what must be finished before it begins. Whatever
obeys that gets the same bits, in one memory (tests) or on streams of several GPUs (gpu_slabs.py).

A slab is computed as if it were a grid of its own: at its artificial ends the kernel sees edges that are not there, but
no row is asked for that these could reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

FEWEST_GHOSTS = 8  # ghost rows a side: as many as most launches take steps


@dataclass(frozen=True)
class Slab:
    """Rows `first` to `last` (exclusive) of the grid, in an array with `ghost` further rows before and behind them."""

    first: int
    last: int
    ghost: int

    @property
    def rows(self) -> int:
        """How many rows it owns."""
        return self.last - self.first

    @property
    def height(self) -> int:
        """Rows of its array."""
        return self.rows + 2 * self.ghost

    @property
    def own(self) -> slice:
        """Its own rows in its array."""
        return slice(self.ghost, self.ghost + self.rows)

    def place(self, row: int) -> int:
        """Where row `row` of the grid lies in its array."""
        return row - self.first + self.ghost


@dataclass(frozen=True)
class Launch:
    """`steps` steps of slab `slab` from its array number `source` to the other one.

    Made are the rows of its array in `bands`, which are equally high and do not touch; `strip`: they are what the
    neighbours wait for; after: the numbers of the works that must be finished before.
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
class Layout:
    """How `ny` rows lie on `count` devices, with `ghost` ghost rows a side.

    Sizes of slabs differ by one row at most. Raises ValueError where a slab would have fewer rows than the ghost rows
    that its neighbour wants of it. One slab alone has no ghost rows.
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
        """From row 0 on."""
        ends = [number * self.ny // self.count for number in range(self.count + 1)]
        ghost = self.ghost if self.count > 1 else 0
        return tuple(Slab(first, last, ghost) for first, last in pairwise(ends))

    def before(self, number: int, periodic: bool) -> int | None:
        """The slab whose rows come before those of slab `number`; None at the edge of the grid."""
        if self.count == 1:
            return None
        return (number - 1) % self.count if number or periodic else None

    def behind(self, number: int, periodic: bool) -> int | None:
        """The slab whose rows follow those of slab `number`; None at the edge of the grid."""
        if self.count == 1:
            return None
        return (number + 1) % self.count if number + 1 < self.count or periodic else None

    def span(self, number: int, periodic: bool) -> tuple[int, int]:
        """First and last (exclusive) row of a slab's array that hold something: no ghosts beyond the grid's edge."""
        slab = self.slabs[number]
        first = slab.ghost if self.before(number, periodic) is None else 0
        return first, slab.height - (slab.ghost if self.behind(number, periodic) is None else 0)

    def owner(self, row: int) -> int:
        """The slab that owns a row of the grid."""
        return next(number for number, slab in enumerate(self.slabs) if row < slab.last)

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield (slab, first, last) of what rows `first` to `last` of the grid consist of; rows of the grid."""
        for number, slab in enumerate(self.slabs):
            low, high = max(first, slab.first), min(last, slab.last)
            if low < high:
                yield number, low, high

    def exchange(self, periodic: bool, array: int = 0) -> list[Copy]:
        """Every ghost row anew, of array number `array`: copies that wait for nothing."""
        return [copy for number in range(self.count) for copy in self._sent(number, periodic, array)]

    def _sent(self, number: int, periodic: bool, array: int) -> Iterator[Copy]:
        """What a slab passes on: its first rows to the one before it, its last rows to the one behind it."""
        slab, slabs = self.slabs[number], self.slabs
        before, behind = self.before(number, periodic), self.behind(number, periodic)
        if before is not None:
            target = slabs[before].own.stop
            yield Copy(number, before, array, slab.ghost, target, slab.ghost, ())
        if behind is not None:
            yield Copy(number, behind, array, slab.own.stop - slab.ghost, 0, slab.ghost, ())

    def strips(self, number: int, periodic: bool) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """(strips, middle) of a slab's own rows: what is passed on, and what is left; a thin slab has no middle."""
        slab = self.slabs[number]
        low, high = slab.own.start, slab.own.stop
        first = low + (slab.ghost if self.before(number, periodic) is not None else 0)
        last = high - (slab.ghost if self.behind(number, periodic) is not None else 0)
        if first >= last:
            return [(low, high)], []
        return [band for band in ((low, first), (last, high)) if band[0] < band[1]], [(first, last)]


@dataclass
class _Finished:
    """What a slab has done in one turn, by the numbers of the works."""

    launches: tuple[int, ...] = ()
    readers: tuple[int, ...] = ()  # those launches that read ghost rows
    sent: tuple[int, ...] = ()
    arrived: tuple[int, ...] = ()


def plan(layout: Layout, periodic: bool, sizes: Sequence[int]) -> list[SlabWork]:
    """Launches of `sizes` steps and the copies between them, in an order in which they can be done.

    At the beginning array 0 of each slab has all its ghost rows, at the end array len(sizes) % 2. Raises ValueError for
    a launch of more steps than there are ghost rows.
    """
    if layout.count > 1 and max(sizes) > layout.ghost:
        raise ValueError(f"a launch must take at most {layout.ghost} steps, as there are ghost rows, not {max(sizes)}")
    made: list[SlabWork] = []
    past: dict[int, _Finished] = defaultdict(_Finished)  # of the turn before, by slab
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
    """Add the launch that makes the bands, if there are any; return its number."""
    if not bands:
        return ()
    made.append(Launch(slab, steps, turn % 2, tuple(bands), strip, after))
    return (len(made) - 1,)


def _reach(layout: Layout, number: int, periodic: bool, right: int) -> tuple[int, int]:
    """Rows of a slab's array that are made when `right` ghost rows shall be right."""
    first, last = layout.span(number, periodic)
    own = layout.slabs[number].own
    return max(first, own.start - right), min(last, own.stop + right)
