"""Slabs in one memory: their plan, run in any permitted order, gives the bits of one grid."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from compute.labs.diffusion import cpu_numpy
from compute.labs.diffusion.scheme import EDGES
from compute.labs.diffusion.slabs import Copy, Launch, SlabLayout, plan

DTYPES = ("float32", "float64")
R = 0.23


class Memory:
    """Two arrays per slab. Unwritten rows are NaN, and rows that a launch cannot know become NaN again."""

    def __init__(self, layout, field, edges):
        self.layout, self.edges = layout, edges
        self.arrays = [
            [np.full((slab.height, field.shape[1]), np.nan, field.dtype) for slab in layout.slabs] for _ in range(2)
        ]
        for slab, array in zip(layout.slabs, self.arrays[0], strict=True):
            array[slab.own] = field[slab.first : slab.last]
        self.do(layout.exchange(edges == "periodic"), [])

    def do(self, works, order):
        for work in (works[number] for number in order or range(len(works))):
            self.copy(work) if isinstance(work, Copy) else self.launch(work)

    def copy(self, work):
        arrays = self.arrays[work.array]
        rows = arrays[work.slab][work.start : work.start + work.rows]
        arrays[work.to][work.target : work.target + work.rows] = rows

    def launch(self, work):
        source, target = (self.arrays[number][work.slab] for number in (work.source, 1 - work.source))
        low, high = self.layout.span(work.slab, self.edges == "periodic")
        u = source[low:high].copy()
        out = np.empty_like(u)
        with np.errstate(invalid="ignore"):
            cpu_numpy.step(u, out, R, self.edges, work.steps)
        if low == 0 and self.layout.count > 1:  # this end is not an edge of the grid
            out[: work.steps] = np.nan
        if high == len(source) and self.layout.count > 1:
            out[len(out) - work.steps :] = np.nan
        for first, last in work.bands:
            target[first:last] = out[first - low : last - low]

    def field(self, number):
        pairs = zip(self.layout.slabs, self.arrays[number], strict=True)
        return np.concatenate([array[slab.own] for slab, array in pairs])

    def ghosts_are_right(self, number):
        """Check that every ghost row equals the row that it copies."""
        field = self.field(number)
        for index, slab in enumerate(self.layout.slabs):
            low, high = self.layout.span(index, self.edges == "periodic")
            rows = (np.arange(low, high) - slab.ghost + slab.first) % len(field)
            np.testing.assert_array_equal(self.arrays[number][index][low:high], field[rows])


def shuffled(works, seed):
    """Return another order that respects the dependencies: each work is drawn from those that are ready."""
    rng, left, done, order = random.Random(seed), set(range(len(works))), set(), []
    while left:
        ready = sorted(number for number in left if done.issuperset(works[number].after))
        order.append(rng.choice(ready))
        left.remove(order[-1])
        done.add(order[-1])
    return order


def whole(field, edges, steps):
    out = np.empty_like(field)
    cpu_numpy.step(field.copy(), out, R, edges, steps)
    return out


SHAPES = [(41, 7), (83, 12)]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slabs_give_the_bits_of_one_grid_in_any_permitted_order(shape, edges, count):
    fitting = [ghost for ghost in (8, 16) if shape[0] >= count * ghost]
    for dtype, ghost, sizes in product(DTYPES, fitting, ((8, 8, 8), (8, 4, 2), (8, 8, 8, 8, 4, 1), (1,))):
        field = np.random.default_rng(shape[0]).normal(size=shape).astype(dtype)
        layout = SlabLayout(shape[0], count, ghost)
        works = plan(layout, edges == "periodic", sizes)
        truth = whole(field, edges, sum(sizes))
        for seed in range(2):
            memory = Memory(layout, field, edges)
            memory.do(works, shuffled(works, seed) if seed else [])
            np.testing.assert_array_equal(memory.field(len(sizes) % 2), truth)
            memory.ghosts_are_right(len(sizes) % 2)


@pytest.mark.parametrize(("ny", "count"), [(1, 1), (16, 2), (17, 2), (25, 3), (40, 5), (41, 5), (1000, 5)])
def test_every_row_has_one_owner_and_sizes_are_even(ny, count):
    layout = SlabLayout(ny, count, 8)
    rows = [row for slab in layout.slabs for row in range(slab.first, slab.last)]
    assert rows == list(range(ny))
    assert max(slab.rows for slab in layout.slabs) - min(slab.rows for slab in layout.slabs) <= 1
    assert [layout.owner(row) for row in (0, ny - 1)] == [0, count - 1]
    for first, last in ((0, ny), (ny // 3, ny // 3 + 1), (ny // 4, ny - ny // 4)):
        pieces = list(layout.pieces(first, last))
        assert [row for _, low, high in pieces for row in range(low, high)] == list(range(first, last))


def test_too_thin_slabs_are_refused():
    with pytest.raises(ValueError, match=r"ny must be at least 40 on 5 devices, not 39: each passes 8 rows"):
        SlabLayout(39, 5, 8)
    with pytest.raises(ValueError, match=r"a launch must take at most 8 steps, .*not 9"):
        plan(SlabLayout(64, 2, 8), False, (9,))
    assert SlabLayout(3, 1, 8).slabs[0].height == 3  # a single slab has no ghosts, so any grid is valid


@pytest.mark.parametrize("edges", EDGES)
def test_strips_come_first_and_inner_rows_wait_for_no_ghosts(edges):
    works = plan(SlabLayout(100, 2, 8), edges == "periodic", (8,) * 6)
    launches = [work for work in works if isinstance(work, Launch)]
    copies = {number for number, work in enumerate(works) if isinstance(work, Copy)}
    assert len(copies) == 6 * (4 if edges == "periodic" else 2)
    for work in launches:
        assert work.strip or not copies & set(work.after)
    for number in copies:
        made = [works[before] for before in works[number].after]
        assert made
        assert all(work.strip for work in made)


def test_more_ghost_rows_mean_fewer_exchanges():
    copies = [
        sum(isinstance(work, Copy) for work in plan(SlabLayout(1000, 3, ghost), False, (8,) * 9)) for ghost in (8, 24)
    ]
    assert copies == [9 * 4, 3 * 4]
