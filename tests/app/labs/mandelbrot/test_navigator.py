"""Exact navigation: no precision is lost at any depth, and views align with the pixels of the previous picture."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.labs.mandelbrot.navigator import (
    CALM,
    DRIFT,
    MOST_STEPS,
    Navigator,
    Viewport,
    decimal,
    log10,
    scientific,
)
from app.labs.mandelbrot.pan_zoom_view import Anchor
from compute.labs.mandelbrot.place import number
from compute.labs.mandelbrot.views import VIEWS

DEPTHS = (0, 1, 7, 14, 40, 113, 323, 1000)
SHAPES = ((600, 600), (601, 799), (390, 584), (7, 9))
DEEP = VIEWS["dive e1007"].center


class Lab:
    """The values of a session, with a manual clock."""

    def __init__(self, center=("-0.75", "0.0"), zoom="1e0", ny=600, nx=600):
        self.values = {"center": center, "zoom": zoom, "ny": ny, "nx": nx, "max_iterations": 1000}
        self.now, self.changes = 0.0, []
        self.navigator = Navigator(self.change, self.values, lambda: self.now)

    def change(self, **values):
        self.changes.append(values)
        self.values.update(values)

    def calm(self):
        self.now += 10 * CALM


def fraction(text):
    return Fraction(Decimal(text))


def pixels(lab, before, after):
    """Return by how many pixels (of the current spacing) the lab's centre has moved: (right, up)."""
    step = 4 / (fraction(lab.values["zoom"]) * lab.values["ny"])
    return [(fraction(b) - fraction(a)) / step for a, b in zip(before, after, strict=True)]


depths = st.sampled_from(DEPTHS)
shapes = st.sampled_from(SHAPES)
moves = st.tuples(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3))  # in views: the edge of the plane stays far away


def checked(*strategies):
    """Return `given` with fewer examples: numbers of a thousand digits are slow."""
    return lambda test: settings(max_examples=40, deadline=None)(given(*strategies)(test))


parts = st.floats(0, 1)


def at(depth, shape=(600, 600)):
    return Lab(DEEP, f"1e{depth}", *shape)


@checked(depths, shapes, st.lists(moves, max_size=5))
def test_panning_there_and_back_returns_exactly(depth, shape, parts):
    lab = at(depth, shape)
    moves = [(round(right * shape[1]), round(up * shape[0])) for right, up in parts]
    lab.navigator.pan_pixels(0, 1)
    lab.navigator.pan_pixels(0, -1)
    before, aim = lab.navigator.center, lab.navigator.aim
    for dx, dy in (*moves, *((-dx, -dy) for dx, dy in moves)):
        lab.navigator.pan_pixels(dx, dy)
    assert lab.navigator.center == before
    assert lab.navigator.aim == aim


@checked(depths, shapes, moves)
def test_a_pan_is_a_whole_number_of_pixels_in_what_the_lab_gets(depth, shape, move):
    lab = at(depth, shape)
    dx, dy = (round(part * size) for part, size in zip(move, reversed(shape), strict=True))
    before = lab.navigator.center
    lab.navigator.pan_pixels(dx, dy)
    moved = pixels(lab, before, lab.navigator.center)
    assert [float(m) for m in moved] == pytest.approx([dx, dy], abs=1e-4)


@checked(depths, shapes, parts, parts, st.floats(0.01, 100).filter(lambda f: abs(f - 2) > 1e-6 and abs(f - 0.5) > 1e-6))
def test_zooming_keeps_the_point_under_the_pointer(depth, shape, fx, fy, factor):
    lab = at(depth, shape)
    assume(abs(factor - 1) > 1e-6)
    assume(10 ** min(depth, 9) * factor > 0.5)  # a gesture stops at the edge of the lab's plane
    point = under(lab, fx, fy)
    lab.navigator.zoom_at(fx, fy, factor)
    height = 4 / fraction(lab.values["zoom"])
    for old, new in zip(point, under(lab, fx, fy), strict=True):
        assert abs(old - new) / height < Fraction(1, 10**9) * (1 + Fraction(factor))


def under(lab, fx, fy):
    """Return the point of the plane at fractions fx, fy of the lab's view."""
    ny, nx = lab.values["ny"], lab.values["nx"]
    height = 4 / fraction(lab.values["zoom"])
    offsets = (Fraction(fx) - Fraction(1, 2)) * height * nx / ny, (Fraction(fy) - Fraction(1, 2)) * height
    return [fraction(c) + o for c, o in zip(lab.values["center"], offsets, strict=True)]


def centres(lab):
    """Return the exact positions of the first pixels' centres in x and y, and the spacing."""
    ny, nx = lab.values["ny"], lab.values["nx"]
    step = 4 / (fraction(lab.values["zoom"]) * ny)
    return [fraction(c) - Fraction(n - 1, 2) * step for c, n in zip(lab.values["center"], (nx, ny), strict=True)], step


@checked(depths, shapes, parts, parts)
def test_twice_the_zoom_puts_old_pixel_centres_on_new_pixels_of_even_index(depth, shape, fx, fy):
    lab = at(depth, shape)
    (old, _), point = centres(lab), under(lab, fx, fy)
    before = fraction(lab.values["zoom"])
    lab.navigator.zoom_at(fx, fy, 2)
    (new, step), moved = centres(lab), under(lab, fx, fy)
    assert fraction(lab.values["zoom"]) == 2 * before
    for a, b in zip(old, new, strict=True):
        index = (a - b) / step
        assert abs(index - round(index)) < 1e-4
        assert round(index) % 2 == 0
    assert max(abs(a - b) for a, b in zip(point, moved, strict=True)) <= Fraction(10001, 10000) * step


@checked(depths, shapes, parts, parts)
def test_half_the_zoom_puts_new_pixel_centres_on_old_ones(depth, shape, fx, fy):
    lab = at(depth, shape)
    old, step = centres(lab)
    lab.navigator.zoom_at(fx, fy, 0.5)
    new, _ = centres(lab)
    for a, b in zip(old, new, strict=True):
        index = (b - a) / step
        assert abs(index - round(index)) < 1e-4


@checked(shapes, st.floats(0.2, 0.8), st.floats(0.2, 0.8))
def test_many_steps_in_at_one_point_do_not_drift_away_from_it(shape, fx, fy):
    lab = Lab(DEEP, "1e0", *shape)
    aim = lab.navigator.aim
    point = [
        aim.re + (Fraction(fx) - Fraction(1, 2)) * aim.height * Fraction(shape[1], shape[0]),
        aim.im + (Fraction(fy) - Fraction(1, 2)) * aim.height,
    ]
    for _ in range(120):
        lab.navigator.zoom_at(fx, fy, 2)
    drift = max(abs(a - b) for a, b in zip(point, under(lab, fx, fy), strict=True))
    assert drift <= (1 + Fraction(1, 1000)) * lab.navigator.spacing


def test_wheel_steps_follow_the_numbers_of_a_browser():
    lab = Lab()
    anchor = Anchor.near(lab.navigator.aim)
    x, y, height = anchor.count(lab.navigator.aim)
    for _ in range(40):
        height /= 2**0.25
        lab.navigator.set_view(Viewport(*anchor.place(x, y), 4 / (Fraction(height) * anchor.unit)))
    assert float(fraction(lab.values["zoom"])) == pytest.approx(2.0**10)
    assert len(lab.values["zoom"]) <= 18


@checked(depths, st.floats(-2.4, 2.4), st.floats(-2.4, 2.4), st.sampled_from([1, 2, 4, 0.39]))
def test_a_drag_in_a_browser_is_whole_pixels_and_stays_near_the_aim(depth, right, up, grain):
    lab = at(depth, (600, 800))
    lab.navigator.zoom_at(0.31, 0.77, 2)  # the view shown and the aim now differ
    anchor = Anchor.near(lab.navigator.aim)
    before = lab.navigator.center
    x, y, height = anchor.count(lab.navigator.aim)
    for part in (0.3, 1.0, 0.7):
        place = anchor.place(x + part * right * height, y + part * up * height)
        lab.navigator.set_view(Viewport(*place, lab.navigator.aim.zoom))
    for moved in pixels(lab, before, lab.navigator.center):
        assert abs(moved - round(moved)) < 1e-4
    aim, shown = lab.navigator.aim, lab.navigator.shown
    assert max(abs(aim.re - shown.re), abs(aim.im - shown.im)) <= (DRIFT + 1) * lab.navigator.spacing


def test_a_box_is_shown_with_square_pixels():
    lab = Lab(ny=400, nx=800)
    lab.navigator.box(0.5, 0.5, 0.75, 0.6)  # a quarter of the width decides
    assert lab.values["zoom"] == "4e0"
    assert [float(fraction(c)) for c in lab.values["center"]] == pytest.approx([-0.75 + 0.125 * 8, 0.05 * 4])
    with pytest.raises(ValueError, match="corners"):
        lab.navigator.box(0.5, 0.5, 0.5, 0.5)


# -- history


def test_a_burst_is_one_step_and_a_calm_ends_it():
    lab = Lab()
    for _ in range(8):
        lab.navigator.zoom_at(0.2, 0.6, 1.3)
        lab.now += CALM / 2
    after = lab.navigator.center
    lab.calm()
    lab.navigator.pan_pixels(3, 4)
    lab.navigator.undo()
    assert lab.navigator.center == after
    lab.navigator.undo()
    assert lab.values["center"] == ("-0.75", "0")
    assert not lab.navigator.can_undo
    lab.navigator.undo()
    lab.navigator.redo()
    assert lab.navigator.center == after
    assert lab.navigator.can_redo


@checked(st.lists(st.sampled_from(["pan", "zoom", "box", "home", "go"]), min_size=1, max_size=8))
def test_undo_and_redo_walk_the_same_views(moves):
    lab = Lab()
    seen = [state(lab)]
    acts = {
        "pan": lambda: lab.navigator.pan_pixels(17, -4),
        "zoom": lambda: lab.navigator.zoom_at(0.3, 0.9, 2),
        "box": lambda: lab.navigator.box(0.2, 0.2, 0.5, 0.6),
        "home": lab.navigator.home,
        "go": lambda: lab.navigator.go(VIEWS["e113"].center, "5E113", 35494),
    }
    for move in moves:
        acts[move]()
        lab.calm()
        if state(lab) != seen[-1]:
            seen.append(state(lab))
    for view in reversed(seen[:-1]):
        lab.navigator.undo()
        assert state(lab) == view
    assert not lab.navigator.can_undo
    for view in seen[1:]:
        lab.navigator.redo()
        assert state(lab) == view


def state(lab):
    return tuple(map(fraction, (*lab.values["center"], lab.values["zoom"]))), lab.values["max_iterations"]


def test_a_new_move_drops_what_was_undone_and_history_has_an_end():
    lab = Lab()
    for _ in range(MOST_STEPS + 5):
        lab.navigator.pan_pixels(1, 0)
        lab.calm()
    lab.navigator.undo()
    lab.navigator.pan_pixels(0, 1)
    assert not lab.navigator.can_redo
    for _ in range(MOST_STEPS):
        lab.navigator.undo()
    assert not lab.navigator.can_undo


def test_a_move_that_changes_nothing_is_no_step():
    lab = Lab()
    heard = []
    lab.navigator.changed.subscribe(lambda view: heard.append(1))
    lab.navigator.pan_pixels(0, 0)
    assert (heard, lab.changes, lab.navigator.can_undo) == ([], [], False)
    lab.navigator.pan_pixels(1, 0)
    assert heard == [1]


# -- limits and refusals


def test_gestures_stop_at_the_deepest_and_the_shallowest_zoom_and_at_the_edge():
    lab = at(1999)
    for _ in range(12):
        lab.navigator.zoom_at(0.5, 0.5, 3)
    assert lab.values["zoom"] == "1e2000"
    lab = Lab()
    for _ in range(12):
        lab.navigator.zoom_at(0.5, 0.5, 0.3)
        lab.navigator.pan_pixels(400, 0)
    assert lab.values["zoom"] == "1e-2"
    assert lab.values["center"][0] == "8"


@pytest.mark.parametrize(
    ("center", "zoom", "words"),
    [
        (("x", "0"), "1", r"center\[0\] must be a decimal number"),
        (("0", "9"), "1", r"center\[1\] must be from -8 to 8"),
        (("0", "0"), "0", "zoom must be from"),
        (("0", "nan"), "1", r"center\[1\] must be a decimal"),
    ],
)
def test_a_bad_place_is_refused_in_the_labs_words_and_changes_nothing(center, zoom, words):
    lab = Lab()
    with pytest.raises(ValueError, match=words):
        lab.navigator.go(center, zoom)
    with pytest.raises(ValueError, match="max_iterations must be from 1"):
        lab.navigator.go(("0", "0"), "1", 10**9)
    assert lab.changes == []


# -- the browser's numbers


@checked(depths, st.floats(0.01, 30), parts, parts)
def test_an_anchor_tells_places_of_its_view_apart_at_any_depth(depth, factor, fx, fy):
    view = Viewport.parse(DEEP, f"1e{depth}")
    anchor = Anchor.near(view)
    right, down = view.height * Fraction(fx), view.height * Fraction(fy)
    near = Viewport(view.re + right, view.im - down, view.zoom * Fraction(factor))
    assert anchor.serves(view)
    x, y, height = anchor.count(near)
    re, im = anchor.place(x, y)
    assert max(abs(re - near.re), abs(im - near.im)) < near.height / 10**9
    assert height == pytest.approx(float(near.height / anchor.unit))
    assert not anchor.serves(Viewport(view.re, view.im, view.zoom * 2**20))
    assert not anchor.serves(Viewport(view.re, view.im, view.zoom / 100))


@checked(depths, st.floats(-3, 3), st.floats(-3, 3), st.integers(-60, 60))
def test_numbers_move_from_one_anchor_to_another(depth, x, y, steps):
    here = Anchor.near(Viewport.parse(DEEP, f"1e{depth}"))
    there = Anchor.near(Viewport(*here.place(0.3, -1.7), Fraction(10) ** depth * Fraction(2) ** steps))
    step = here.step_to(there)
    if abs(steps) > 33:
        assert step is None
    elif abs(steps) < 20:
        dx, dy, scale = step
        moved = there.place((x - dx) * scale, (y - dy) * scale)
        for a, b in zip(here.place(x, y), moved, strict=True):
            assert abs(a - b) <= max(here.unit, there.unit) / 10**12


def test_an_anchor_lies_on_a_multiple_of_its_unit_so_that_ticks_are_round():
    anchor = Anchor.near(Viewport.parse(DEEP, "3e113"))
    assert anchor.unit == Fraction(10) ** -112
    assert (anchor.re / anchor.unit).denominator == 1
    assert not anchor.can_draw(Viewport.parse(("0", "0"), "1"))


@checked(st.decimals(-8, 8, allow_nan=False, places=30), st.integers(1, 40))
def test_decimal_rounds_as_python_does(value, places):
    exact = Fraction(value)
    assert fraction(decimal(exact, places)) == Fraction(round(exact * 10**places), 10**places)
    assert len(decimal(exact, places)) <= places + 3


def test_numbers_in_words():
    assert [decimal(Fraction(-3, 4), 9), decimal(Fraction(-1, 10**12), 9)] == ["-0.75", "0"]
    assert [scientific(Fraction(320000), 12), scientific(Fraction(1, 3), 5)] == ["3.2e5", "3.3333e-1"]
    assert log10(Fraction(10) ** 1500) == pytest.approx(1500)
    assert number("zoom", scientific(Fraction(5) * 10**1999, 24)) == Fraction(5) * 10**1999
