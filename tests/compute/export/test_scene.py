"""Scenes and films as plain values: their contents, their interpolation, and refusals."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from bokeh.palettes import Inferno256, Magma256, Viridis256

from app.tab.plots import PALETTES, palette
from compute.devices.devices import Host
from compute.display import palettes
from compute.export import scene
from compute.export.film import Film, Key, film_of
from compute.export.scene import APART, Scene, SceneError, Style, coloured, read, scene_of
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import center_between, zoom_between

SCENE = Scene(
    "mandelbrot", {"center": ("-0.75", "0.1"), "zoom": "3e0", "samples": 2}, (45, 80), look=Style("Magma", True)
)
TARGET = ("-0.743643887037158704752191506114774", "0.131825904205311970493132056385139")
ZOOM = Film(
    SCENE,
    7,
    keys=(
        Key(0, {"zoom": "1", "center": ("-0.75", "0"), "max_iterations": 300}),
        Key(1, {"zoom": "1e30", "center": TARGET, "max_iterations": 30_000}),
    ),
)


@pytest.mark.parametrize("film", [ZOOM, Film(Scene("diffusion", {"r": 0.1}, steps=3), 5, 24.5, every=7, easing="even")])
def test_what_goes_through_json_comes_back(film):
    assert film_of(read(json.dumps(film.plain()))) == film
    assert scene_of(read(json.dumps({**film.scene.plain(), "made": {"date": "today"}}))) == film.scene


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "fieldlab-scene/9"}, "schema must be"),
        ({"lab": "chess"}, "lab must be one of diffusion"),
        ({"values": {"zoom": "1", "rabbit": 3}}, "no parameter 'rabbit'"),
        ({"values": [1]}, "values must be an object, not .1."),
        ({"size": [10, 10, 10]}, r"size must be a list of length 2, not \[10, 10, 10\]"),
        ({"size": [True, 10]}, r"size\[0\] must be a whole number, not True"),
        ({"size": [100_000, 100_000]}, "size must be 1 to"),
        ({"steps": -1}, "steps must be from 0"),
        ({"look": {"palette": "Jet"}}, "palette must be one of"),
        ({"look": {"offset": float("nan")}}, "offset must be from 0 to 1"),
        ({"look": {"gamma": 2}}, "no entry 'gamma'"),
        ({"surprise": 1}, "no entry 'surprise'"),
    ],
)
def test_a_document_that_is_no_scene_is_refused_in_words(change, says):
    with pytest.raises(SceneError, match=says):
        scene_of(SCENE.plain() | change)


def test_a_text_beyond_a_million_characters_is_refused():
    with pytest.raises(SceneError):
        read("x" * 1_000_001)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"zoom": "0"}, "zoom must be from"),
        ({"center": ("NaN", "0")}, r"center\[0\] must be a decimal number"),
        ({"max_iterations": 10**9}, "max_iterations"),
        ({"backend": "cpu_abacus"}, "backend"),
    ],
)
def test_values_are_checked_against_the_lab_s_own_bounds(values, says):
    with pytest.raises(ValueError, match=says):
        Scene("mandelbrot", values).check()


@pytest.mark.parametrize(
    ("free", "allowed", "says"),
    [(2**30, 2**40, r"this needs 2.* GiB on host, but 0"), (2**40, 2**30, r"this scene needs 3.* GiB; 1 GiB are")],
)
def test_a_scene_beyond_the_memory_is_refused_before_it_is_tried(monkeypatch, free, allowed, says):
    monkeypatch.setattr(Host, "free_bytes", lambda self: free)
    monkeypatch.setattr(scene, "MOST_BYTES", allowed)
    values = {"max_iterations": 10**7, "zoom": "1e100", "precision": "perturbation"}
    with pytest.raises(ValueError, match=says):
        Scene("mandelbrot", values, (4320, 7680)).check()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"frames": 0}, "frames must be from 1"),
        ({"rate": 0.0}, "rate must be from 1"),
        ({"every": -1}, "every must be 0 or more"),
        ({"every": 1}, "has steps between its frames .every. or keys, not both"),
        ({"easing": "bouncy"}, "easing must be one of"),
        ({"keys": [{"at": 0.5, "values": {}}]}, "keys must rise from 0 to 1"),
        ({"keys": [{"at": 0, "values": {"zoom": "1"}}, {"at": 1, "values": {}}]}, "all keys must have values"),
        ({"film": 1}, "no entry 'film'"),
    ],
)
def test_a_document_that_is_no_film_is_refused_in_words(change, says):
    with pytest.raises(SceneError, match=says):
        film_of(ZOOM.plain() | change)


def test_both_ends_of_a_film_are_met_exactly():
    for at, key in ((0, ZOOM.keys[0]), (6, ZOOM.keys[1])):
        values = ZOOM.at(at).values
        assert {name: values[name] for name in key.values} == key.values
    with pytest.raises(IndexError):
        ZOOM.at(7)


def test_an_even_zoom_multiplies_by_the_same_factor_each_frame():
    film = Film(SCENE, 5, keys=ZOOM.keys, easing="even")
    zooms = [math.log10(float(film.at(i).values["zoom"])) for i in range(5)]
    np.testing.assert_allclose(np.diff(zooms), 7.5, rtol=1e-12)
    assert [film.at(i).values["max_iterations"] for i in range(5)] == [300, 949, 3000, 9487, 30_000]


def test_an_eased_film_begins_and_ends_slowly():
    film = Film(SCENE, 101, keys=ZOOM.keys)
    zooms = np.array([math.log10(float(film.at(i).values["zoom"])) for i in range(101)])
    pace = np.diff(zooms)
    assert pace.argmax() in (49, 50)
    assert max(pace[0], pace[-1]) < 0.05 * pace.max()
    np.testing.assert_allclose(zooms, 30 - zooms[::-1], atol=1e-9)


@pytest.mark.parametrize("last", ["1e30", "1e300", "2.5"])
def test_a_zoom_leads_to_the_point_that_lies_at_the_same_place_of_both_views(last):
    """From theory: the fixed point of the map between the two views, in exact arithmetic."""
    first, ends = "0.5", (("-0.5", "0.25"), TARGET)
    low, high = (1 / Fraction(text) for text in (first, last))
    a, b = ([Fraction(part) for part in end] for end in ends)
    fixed = [(a[k] * high - b[k] * low) / (high - low) for k in range(2)]
    for part in (0.1, 0.5, 0.9, 0.99):
        zoom = zoom_between(first, last, part)
        center = center_between(*ends, (first, last), zoom, part)
        for k in range(2):
            where = (Fraction(center[k]) - fixed[k]) * Fraction(zoom)
            assert float(where) == pytest.approx(float((a[k] - fixed[k]) / low), abs=1e-9)


def test_a_pan_at_one_depth_is_even():
    keys = Key(0, {"center": ("0", "0")}), Key(1, {"center": ("1e-40", "2e-40")})
    film = Film(Scene("mandelbrot", {"zoom": "1e41"}, (4, 4)), 5, keys=keys, easing="even")
    places = [Fraction(film.at(i).values["center"][1]) * 10**40 for i in range(5)]
    assert places == [0, Fraction(1, 2), 1, Fraction(3, 2), 2]


def test_what_is_no_number_jumps_at_the_end():
    first, last = {"colouring": "smooth", "shortcuts": True}, {"colouring": "distance", "shortcuts": False}
    assert Mandelbrot.between(first, last, 0.99) == first


def rgb(colours):
    """Return colours such as #0a0b0c as rows of three numbers."""
    return np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in colours])


def test_palettes_are_those_of_the_page():
    assert set(palettes.PALETTES) == set(PALETTES)
    for name in PALETTES:
        np.testing.assert_array_equal(palettes.table(name), rgb(palette(name)))


@pytest.mark.parametrize(("name", "known"), [("Viridis", Viridis256), ("Inferno", Inferno256), ("Magma", Magma256)])
def test_palettes_are_the_ones_that_everybody_knows_by_the_name(name, known):
    ours, truth = palettes.table(name).astype(int), rgb(known)
    for half in (slice(127), slice(-127, None)):  # ours has a colour less
        assert np.abs(ours[half] - truth[half]).max() <= 1


def test_levels_are_coloured_from_the_top_down_and_turned():
    levels = np.array([[0, 254], [127, 255]], np.uint8)
    plain = coloured(levels, Style("Grey"))
    assert plain[1].tolist() == [[0, 0, 0], [254, 254, 254]] or plain[1, 1].min() > 250
    assert plain[0, 1].tolist() == list(APART)
    reverse = coloured(levels, Style("Grey", reverse=True))
    assert reverse[1].tolist() == plain[1, ::-1].tolist()
    turned = coloured(levels, Style("Grey", offset=0.5))
    assert 110 < turned[1, 0, 0] < 145
