"""The bookmarks of the page: each has a picture and leads to its view."""

from __future__ import annotations

import io
from decimal import Decimal
from math import nan

import numpy as np
import pytest
from PIL import Image

from app.labs.mandelbrot.bookmarks import FOLDER, HEIGHT, WIDTH, file_of, places, renew, small, webp
from app.labs.mandelbrot.parts import facts, power_of_two
from app.labs.mandelbrot.places import iterations
from app.tab.plots import palette
from compute.lab.frames import Frame
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.views import VIEWS, Landmark
from compute.measure.timing import Timing


def test_every_view_of_the_lab_is_offered_with_its_picture():
    offered = list(places().values())
    assert [name for name, view in VIEWS.items() if name != "home" and view not in offered] == []
    depths = [Decimal(view.zoom) for view in offered]
    assert depths == sorted(depths)
    assert {path.name for path in FOLDER.iterdir()} == {file_of(title) for title in places()}


@pytest.mark.parametrize("title", places())
def test_a_place_is_valid_and_its_picture_shows_something(title):
    view = places()[title]
    Place.of(view.center, view.zoom, 600, 600)
    low, high = Mandelbrot.param["max_iterations"].bounds
    assert low <= view.max_iterations <= high
    with Image.open(FOLDER / file_of(title)) as picture:
        assert picture.size == (WIDTH, HEIGHT)
        grey = np.asarray(picture.convert("L"))
    assert grey.std() > 20  # of 255: neither black nor uniform


def test_points_with_a_formula_lie_where_it_says():
    nucleus = complex(*map(float, places()["Island of period 3"].center))
    assert abs(nucleus**3 + 2 * nucleus**2 + nucleus + 1) < 1e-12  # z_3 = 0
    c = complex(*map(float, places()["Branching point"].center))
    z = [0j]
    for _ in range(5):
        z.append(z[-1] ** 2 + c)
    assert abs(z[4] + z[3]) < 1e-10
    assert abs(z[5] - z[4]) < 1e-10


def test_thumbnails_can_be_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr("app.labs.mandelbrot.bookmarks.places", lambda: {"One": Landmark(("-0.75", "0.0"), "1.5", 50)})
    (tmp_path / "stale.webp").write_bytes(b"")
    renew(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.webp"]


def test_a_thumbnail_is_the_middle_the_right_way_up():
    levels = np.zeros((300, 300), np.uint8)
    levels[150:] = 254  # upper half: row 0 is the lowest
    levels[:, :20] = 255  # the left edge is inside the set
    with Image.open(io.BytesIO(webp(small(levels), palette("Grey")))) as picture:
        grey = np.asarray(picture.convert("L")).astype(int)
    assert grey.shape == (HEIGHT, WIDTH)
    assert grey[10, WIDTH // 2] > 200
    assert grey[-10, WIDTH // 2] < 60
    assert grey[10, 4] < 60  # the set is black


@pytest.mark.parametrize(
    ("log2", "text"),
    [(0.0, "1.0"), (-1.0, "0.50"), (10.0, "1.0e3"), (-10.0, "9.8e-4"), (-1000.0, "9.3e-302"), (-3321.93, "1.0e-1000")],
)
def test_powers_read_at_any_depth(log2, text):
    assert power_of_two(log2) == text


def facts_of(**known):
    """Return the texts of the status bar for a complete picture with these facts."""
    known = {
        "spacing_log2": -40.0, "limit": 1000.0, "samples": 1.0, "finished": 1.0, "progress": 1.0,
        "area_wanted": 0.0, "area": nan, "area_error": nan, **known,
    }  # fmt: skip
    words = {"zoom": "1e9", "precision": "float32", "warning": known.pop("warning", "")}
    return facts(Frame({}, known, Timing("cpu_numpy", "", 1, 1), notes=words))


def test_an_exhausted_precision_is_marked_in_the_status_bar():
    assert ("precision", "float32", "") in facts_of()
    assert ("precision", "float32 exhausted", "bad") in facts_of(warning="float32 is exhausted: …")


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({"area_wanted": 1.0, "finished": 0.0}, "after the picture"),
        ({"area_wanted": 1.0}, "measuring"),
        ({"area_wanted": 1.0, "area": 1.507, "area_error": nan}, "measuring"),
        ({"area_wanted": 1.0, "area": 1.5068123, "area_error": 0.000321}, "1.50681 ± 0.00032"),
        ({"area": 1.5068123, "area_error": 0.000321}, None),  # measured earlier; the request has ended
    ],
)
def test_the_area_that_is_asked_for_is_said_in_the_status_bar(known, text):
    said = {label: value for label, value, _ in facts_of(**known)}
    assert said.get("area of the set") == text


def test_iterations_that_cannot_be_are_named():
    assert iterations("1e7") == 10_000_000
    for text in ("", "abc", "nan", "0", "1.5", "1e9"):
        with pytest.raises(ValueError, match="max_iterations must be a whole number from 1 to 100000000"):
            iterations(text)
