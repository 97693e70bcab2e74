"""Presets as tiles, and About of a preset."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from app.labs.equations.preset_tiles import (
    FOLDER,
    HEIGHT,
    THUMBNAILS,
    WIDTH,
    PresetAbout,
    PresetTiles,
    Thumbnail,
    about_html,
    draw,
    renew,
    thumbnail,
)
from compute.labs.equations.presets import Preset, presets

OWN = Preset("own", "<b>Own</b>", ("A <i>source</i>, doi:10.1000/<x>'y.",), (), "u_t = lap(u)\n")


def tiles(shown):
    """Return tiles, and what is picked and explained."""
    picked, explained = [], []
    return PresetTiles(shown, picked.append, explained.append), picked, explained


def test_every_preset_has_a_tile_with_its_picture_or_its_equations():
    made, picked, explained = tiles(presets())
    assert [item["title"] for item in made.items] == [each.title for each in presets().values()]
    pictures = [item["picture"].startswith("data:image/webp") for item in made.items]
    assert pictures == [name in THUMBNAILS for name in presets()]
    assert all(item["line"] and bool(item["equation"]) != bool(item["picture"]) for item in made.items)
    assert set(presets()) >= set(THUMBNAILS) == {path.stem for path in FOLDER.iterdir()}
    first, second, *_ = presets()
    made._handle_msg({"pick": 1})
    made._handle_msg({"about": 0})
    assert [each.name for each in (*picked, *explained)] == [second, first]


@pytest.mark.parametrize(
    "message", [None, {}, {"pick": -1}, {"pick": 99}, {"pick": True}, {"about": "0"}, {"pick": [0]}]
)
def test_unexpected_messages_are_ignored(message):
    made, picked, explained = tiles(presets())
    made._handle_msg(message)
    assert picked == explained == []


def test_the_tile_of_the_present_text_is_marked():
    made, _, _ = tiles(presets())
    made.show(presets()["wave"].text)
    assert made.items[made.current]["title"] == presets()["wave"].title
    made.show("u_t = lap(u)")
    assert made.current == -1


def test_a_preset_without_a_picture_shows_its_equations():
    made, _, _ = tiles({"own": OWN})
    (item,) = made.items
    assert item["picture"] == ""
    assert "<math" in item["equation"]


@pytest.mark.parametrize("name", THUMBNAILS)
def test_a_picture_shows_something(name):
    with Image.open(FOLDER / f"{name}.webp") as picture:
        assert picture.size == (WIDTH, HEIGHT)
        assert np.asarray(picture.convert("RGB")).std() > 15  # of 255
    assert thumbnail(presets()[name])


def test_a_picture_is_the_field_with_row_0_at_the_bottom_and_grey_walls():
    text = "u_t = 0*u\nu(0) = y\nwall = step(1 - x)\ndt = 1\n"
    colours = draw(Preset("own", "Own", ("",), (), text), Thumbnail(3, "u", "Grey"), 20, 10)
    assert colours.shape == (20, 10, 3)
    assert (np.diff(colours[1:-1, 5, 0].astype(int)) < 0).all()  # darker downwards
    assert len(np.unique(colours[:, 0], axis=0)) == 1


def test_pictures_can_be_renewed(tmp_path):
    (tmp_path / "stale.webp").write_bytes(b"")
    renew(tmp_path, {"heat": Thumbnail(0, "u")})
    assert [path.name for path in tmp_path.iterdir()] == ["heat.webp"]


def test_about_shows_equations_hints_and_linked_sources():
    shown = about_html(presets()["gray_scott"])
    assert "<math" in shown
    assert "href='https://doi.org/10.1126/science.261.5118.189'" in shown
    assert all(word in shown for word in ("Pearson", "breaks up into spots", "What to try", "Sources"))
    assert all("<math" in about_html(each) for each in presets().values())


def test_markup_in_a_preset_is_shown_as_text():
    shown = about_html(OWN)
    assert not any(tag in shown for tag in ("<i>", "<x>", "'y"))


def test_about_loads_its_preset():
    loaded = []
    about = PresetAbout(loaded.append)
    about.open(presets()["heat"])
    assert (about.panel.open, about.panel.title) == (True, "Heat")
    (button,) = (each for each in about.panel.objects if hasattr(each, "clicks"))
    button.param.trigger("clicks")
    assert not about.panel.open
    assert [each.name for each in loaded] == ["heat"]
