"""Pixels that a new view reuses from the previous one: the same counts as from scratch, with less work."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.schedule import CLOSE, overlap
from compute.labs.mandelbrot.views import VIEWS

NY, NX = 50, 80  # 4 / 50 is a finite decimal: a pan by pixels is exact
HOME = {"ny": NY, "nx": NX, "center": ("-0.75", "0.1"), "zoom": "2", "max_iterations": 300, "reuse": True}


def place(re="-0.75", im="0.1", zoom="2", ny=NY, nx=NX):
    return Place.of((re, im), zoom, ny, nx)


def centres(view):
    """Return all pixel centres, exactly."""
    columns = [view.re + (j - Fraction(view.nx - 1, 2)) * view.step for j in range(view.nx)]
    rows = [view.im + (i - Fraction(view.ny - 1, 2)) * view.step for i in range(view.ny)]
    return rows, columns


def coincide(old, new):
    """Return the old index of each new row and column with the same position, -1 if there is none."""
    found = []
    for were, are in zip(centres(old), centres(new), strict=True):
        known = {where: k for k, where in enumerate(were)}
        found.append([known.get(where, -1) for where in are])
    return found


def mapped(shared, size, start, was):
    places = np.arange(size) * shared.num + start
    good = (places % shared.den == 0) & (places >= 0) & (places // shared.den < was)
    return np.where(good, places // shared.den, -1)


@given(
    st.integers(-30, 30),
    st.integers(-20, 20),
    st.sampled_from(["1", "2", "4"]),
    st.integers(30, 61),
    st.integers(40, 81),
)
def test_the_overlap_is_where_pixel_centres_coincide(right, up, zoom, ny, nx):
    old = place()
    step = 2 / Fraction(NY)
    new = Place(old.re + right * step, old.im + up * step, Fraction(zoom) * NY / ny, ny, nx)
    assert new.step in (old.step / 2, old.step, old.step * 2)
    shared = overlap(old, new)
    if shared is None:
        return
    rows, columns = coincide(old, shared.place)
    np.testing.assert_array_equal(mapped(shared, ny, shared.y0, NY), rows)
    np.testing.assert_array_equal(mapped(shared, nx, shared.x0, NX), columns)
    assert max(abs(shared.place.re - new.re), abs(shared.place.im - new.im)) <= CLOSE * new.step


def test_only_pans_by_whole_pixels_and_zooms_by_two_share_anything():
    step = place().step
    assert overlap(place(), place(zoom="2.5")) is None
    assert overlap(place(), Place(place().re + step / 3, place().im, Fraction(2), NY, NX)) is None
    assert overlap(place(), Place(place().re + 70 * step, place().im, Fraction(2), NY, NX)) is None
    near = overlap(place(), Place(place().re + 7 * step + step / 2000, place().im, Fraction(2), NY, NX))
    assert near.place.re == place().re + 7 * step


FAR = {"center": ("-3", "9e-2")}


@pytest.mark.parametrize(
    "change",
    [
        {"center": ("-0.55", "0.06")},
        {"zoom": "4", "center": ("-0.74", "0.11")},  # the centre is between pixels: half a pixel aligns them
        {"zoom": "1", "center": ("-0.73", "0.12")},
        FAR,
    ],
)
def test_counts_are_those_from_scratch(make, change):
    lab, fresh = make(**HOME), make(**{**HOME, **change})
    lab.counts()
    lab.update(**change)
    reused = lab.painting.reused
    same = lab.counts() == fresh.counts()
    assert same.mean() >= 0.999
    np.testing.assert_allclose(lab.smooth()[same], fresh.smooth()[same], rtol=1e-3)
    if change == FAR:
        assert reused == 0
    else:
        assert reused > 0.2
        assert lab.iterations < fresh.iterations


def test_an_unfinished_picture_continues_after_a_pan(make):
    values = {**HOME, "max_iterations": 100_000, "shortcuts": False, "ny": 20, "nx": 32, "zoom": "0.5"}
    lab, fresh = make(**values), make(**{**values, "center": ("-0.35", "0.1")})
    lab.painting.advance(20 * 32 * 5000)
    assert not lab.finished
    lab.update(center=("-0.35", "0.1"))  # one pixel is 0.4
    assert lab.painting.reused > 0.9
    np.testing.assert_array_equal(lab.counts(), fresh.counts())
    assert lab.iterations < fresh.iterations


@pytest.mark.parametrize("name", ["e14", "e113"])
def test_a_deep_pan_keeps_orbit_and_pixels(make, name):
    view = VIEWS[name]
    values = {"ny": 20, "nx": 32, "zoom": view.zoom, "max_iterations": view.max_iterations, "reuse": True}
    lab = make(center=view.center, **values)
    lab.counts()
    orbit, step = lab.painting.builder.orbit, lab.place.step
    near = (_decimal(lab.place.re + 5 * step), _decimal(lab.place.im - 2 * step))
    lab.update(center=near)
    assert lab.painting.builder.orbit is orbit
    assert lab.painting.reused > 0.7
    np.testing.assert_array_equal(lab.counts(), make(center=near, **values).counts())


def test_a_table_of_a_deeper_view_is_not_used_for_a_wider_one():
    """Its jumps would be too long for more distant pixels."""
    view = VIEWS["e14"]
    values = {"ny": 24, "nx": 40, "center": view.center, "max_iterations": view.max_iterations, "reuse": True}
    lab = Mandelbrot(zoom="1e40", **values)
    lab.counts()
    orbit = lab.painting.builder.orbit
    lab.update(zoom=view.zoom)
    assert lab.painting.builder.orbit is orbit
    np.testing.assert_array_equal(lab.counts(), Mandelbrot(zoom=view.zoom, **values).counts())


def _decimal(number):
    """Return enough digits for a millionth of a pixel of every view here."""
    scaled = round(number * 10**140)
    return f"{'-' if scaled < 0 else ''}{abs(scaled)}e-140"
