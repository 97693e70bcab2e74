"""Images of a user as initial values and walls of typed equations."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from compute.export import render
from compute.export.link import packed, unpacked
from compute.export.scene import Scene, SceneError, read, scene_of
from compute.files.images import LoadedPicture
from compute.labs.equations import Equations
from compute.labs.equations.language import read as system_of
from compute.labs.equations.rewriting import with_image
from compute.labs.equations.tree import EquationError
from tests.hostile_files import photograph, png, rows

TEXT = "u_t = 0.1*lap(u); v_t = 0*v; u(0) = 1 - 0.5*image; v(0) = a*image; a = 2 in [0, 4]; wall = 0.5 - image; dt = 1"
LEVELS = np.array([[0, 51, 102, 153], [204, 255, 10, 20], [100, 150, 200, 250]], np.uint8)  # row 0 at the top
IMAGE = png(4, 3, rows(LEVELS))


@pytest.fixture
def make():
    labs = []

    def made(text=TEXT, ny=3, nx=4, **values):
        labs.append(Equations(backend="cpu_numpy", text=text, ny=ny, nx=nx, **{"dtype": "float64", **values}))
        return labs[-1]

    yield made
    for lab in labs:
        lab.close()


def scene(lab):
    """Return the scene that the page makes of the lab, after a round trip through a file."""
    told = lab.HISTORY.of(Equations, lab.values(), pickle.loads(pickle.dumps(lab.snapshot())))
    made = Scene("equations", told.values, (24, 32), told.steps, history=told.entries, missing=told.missing)
    return scene_of(read(json.dumps(made.plain())))


def test_an_image_is_its_brightness_in_initial_values_and_walls(make):
    lab = make()
    assert (lab.field("u") == 1).all()  # 0 without an image
    assert lab.field("wall").all()
    lab.load_image(IMAGE)
    bright = LEVELS[::-1] / 255
    np.testing.assert_allclose(lab.field("u"), 1 - 0.5 * bright, rtol=1e-15)
    np.testing.assert_allclose(lab.field("v"), 2 * bright, rtol=1e-15)
    assert np.array_equal(lab.field("wall"), bright < 0.5)
    notes = lab.frame().notes
    assert notes["image"] == LoadedPicture.read(IMAGE).fingerprint
    assert notes["kept"] == "4 3 0 0 4 3"
    lab.advance(3)
    lab.set(a=3)  # not at the beginning
    lab.act("reset")
    np.testing.assert_allclose(lab.field("v"), 3 * bright, rtol=1e-15)
    lab.set(a=1)
    np.testing.assert_allclose(lab.field("v"), bright, rtol=1e-15)
    lab.act("forget_image")
    assert (lab.field("v") == 0).all()
    assert lab.frame().notes["image"] == ""


def test_an_image_is_fitted_to_another_grid_and_stays_while_the_text_changes(make):
    lab = make()
    lab.load_image(IMAGE)
    lab.update(ny=6, nx=8)
    again = make(ny=6, nx=8)
    again.load_image(IMAGE)
    assert np.array_equal(lab.field("v"), again.field("v"))
    assert len(np.unique(lab.field("v"))) > 12
    lab.update(text="heat")
    assert lab.image is None
    assert lab.frame().notes["image"] == ""
    assert lab.history.entries == []
    lab.update(text=TEXT)
    assert np.array_equal(lab.field("v"), again.field("v"))


def test_a_photograph_is_evaluated_in_blocks_of_rows(make, monkeypatch):
    lab = make(ny=40, nx=60)
    lab.load_image(photograph(200))
    before = lab.field("v")
    monkeypatch.setattr("compute.labs.equations.reference.BLOCK", 60 * 7)
    lab.reset()
    assert np.array_equal(lab.field("v"), before)
    assert np.ptp(before) > 0.3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"no image", "image must be a PNG or JPEG file; this file is neither"),
        (photograph(64)[:600], "image is damaged and cannot be read"),
        (png(2**16, 1), "image must have at most 32,768 pixels a side, not 65536 x 1"),
        (png(30_000, 30_000), "image must have at most 50,000,000 pixels, not 30000 x 30000"),
    ],
)
def test_a_file_out_of_bounds_is_refused_and_the_lab_stays_as_it_is(make, data, words):
    lab = make()
    lab.act("load_image", data=IMAGE)
    lab.advance(2)
    before = lab.field()
    with pytest.raises(ValueError, match=words):
        lab.act("load_image", data=data)
    assert (lab.steps, lab.frame().notes["image"]) == (2, LoadedPicture.read(IMAGE).fingerprint)
    assert np.array_equal(lab.field(), before)


def test_an_image_without_effect_is_refused(make):
    with pytest.raises(ValueError, match=r"image has no effect: text must use it, for example u\(0\) = image"):
        make("heat").load_image(IMAGE)
    with pytest.raises(EquationError, match="column 7: image is allowed in initial values and walls only"):
        system_of("u_t = image*u")
    with pytest.raises(EquationError, match="the name 'image' belongs to the language"):
        system_of("u_t = u; image = 2")


def test_a_small_image_is_part_of_a_link_and_a_photograph_of_a_file(make):
    for image, ny, nx in ((IMAGE, 3, 4), (photograph(600), 50, 70)):
        lab = make(ny=ny, nx=nx)
        lab.load_image(image)
        lab.act("paint", points=[(1, 1)], value=4.0, radius=1.0, field="v")
        lab.advance(3)
        made = scene(lab)
        assert made.missing == ""
        made.check()
        with render.opened_at(made) as again:
            for name in ("u", "v", "wall"):
                np.testing.assert_array_equal(again.field(name), lab.field(name))
            assert again.steps == lab.steps == 3
    with pytest.raises(SceneError, match="and a link has 8000 at most: save it as a file"):
        packed(made)
    lab = make()
    lab.load_image(IMAGE)
    assert unpacked(packed(scene(lab))).history == scene(lab).history


def test_what_a_file_cannot_hold_is_said(make):
    lab = make(ny=1500, nx=1500, dtype="float32")
    lab.load_image(LoadedPicture.read(photograph(1500)))
    assert scene(lab).missing == "the image that was loaded is too large for a file"
    lab.set(a=1)  # begins again
    assert lab.field("v").max() <= 1


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([{"step": 0, "do": "load_image", "with": {"data": "?"}}], "data of load_image must be base64"),
        ([{"step": 0, "do": "load_image", "with": {"data": "QUJD"}}], "image must be a PNG or JPEG"),
        ([{"step": 0, "do": "load_image", "with": {"file": "x"}}], "load_image needs data, not file"),
        ([{"step": 3, "do": "load_image", "with": {"data": "QUJD"}}], "load_image can only be the first entry"),
    ],
)
def test_hostile_images_in_a_file_are_refused_without_decoding(history, words, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("an image was decoded"))
    with pytest.raises(SceneError, match=words):
        scene_of({"schema": "fieldlab-scene/1", "lab": "equations", "values": {"text": TEXT}, "history": history})


def test_images_are_undone_and_redone(make):
    lab = make()
    lab.act("load_image", data=IMAGE)
    first = lab.field("v")
    lab.advance(2)
    lab.act("load_image", data=png(4, 3, rows(LEVELS[::-1])))
    second = lab.field("v")
    assert not np.array_equal(first, second)
    lab.act("undo")
    assert np.array_equal(lab.field("v"), first)
    assert lab.steps == 2
    assert lab.image == LoadedPicture.read(IMAGE)
    lab.act("redo")
    assert np.array_equal(lab.field("v"), second)


@pytest.mark.parametrize(
    ("text", "array", "after"),
    [
        ("u_t = u\nu(0) = x # ramp\n", "u", "u_t = u\nu(0) = image # ramp\n"),
        ("u_t = u; u ( 0 )= x; dt = 1", "u", "u_t = u; u(0) = image; dt = 1"),
        ("u_t = u\n", "u", "u_t = u\nu(0) = image\n"),
        ("u_t = u; uu_t = u\nuu(0) = 1 # u(0) = 3", "u", "u_t = u; uu_t = u\nuu(0) = 1 # u(0) = 3\nu(0) = image"),
        ("u_t = u\nwall: zero-flux\nwall = y", "wall", "u_t = u\nwall: zero-flux\nwall = 0.5 - image"),
        ("u_t = u\nwall: zero-flux", "wall", "u_t = u\nwall: zero-flux\nwall = 0.5 - image"),
    ],
)
def test_a_text_begins_with_the_image_instead(text, array, after):
    assert with_image(text, array) == after
    assert system_of(after).wall is not None or "u" in system_of(after).initial
