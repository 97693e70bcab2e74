"""Figures with axes: contents of the file, reproducible bytes, positions of the numbers."""

from __future__ import annotations

import io
import json
import re
from contextlib import closing
from functools import partial
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from msgspec import structs
from PIL import Image

from compute.__main__ import main
from compute.display.palettes import PALETTES, table
from compute.export import figures, render, tasks
from compute.export.film import Film, Key, frame
from compute.export.formats import STILLS, write_drawing, write_picture
from compute.export.jobs import FILE, Job, JobQueue
from compute.export.scene import NOT_COMPUTED, Scene, Style, colours_of, scene_of
from compute.lab.frames import WAITING
from compute.labs.diffusion import Diffusion
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.views import VIEWS

pytestmark = pytest.mark.extended

SVG = "{http://www.w3.org/2000/svg}"
SEAHORSES = VIEWS["seahorses"]
HEAT = Scene("diffusion", {"ny": 30, "nx": 40}, (300, 400), 20, look=Style("Inferno"))
CURVE = Scene("l_curve", {"problem": "shaw", "n": 32}, (300, 400))


def test_a_curve_as_svg_has_its_bounds_and_says_how_it_was_made(tmp_path):
    path, again = tmp_path / "curve.svg", tmp_path / "again.svg"
    arguments = ["--set", "problem=shaw", "--set", "n=32", "--size", "500x400"]
    assert main(["render", "l_curve", "--out", str(path), *arguments]) == 0
    root = ET.parse(path).getroot()
    assert root.get("viewBox") == "0 0 540 432"  # in points: 6 inches high, in the shape of the size
    plan = next(element.text for element in root.iter() if element.tag.endswith("description"))
    assert json.loads(plan)["values"] == {"problem": "shaw", "n": 32}
    dashed = [path for path in root.iter(f"{SVG}path") if "stroke-dasharray" in (path.get("style") or "")]
    assert len(dashed) >= 2
    assert main(["render", f"{path}.json", "--out", str(again)]) == 0
    assert again.read_bytes() == path.read_bytes()


def test_a_legend_names_what_has_a_label_and_no_other_panel_has_one():
    named = {}
    with closing(CURVE.open()) as lab:
        lab.advance(60)
        frame = lab.frame()
        for part, panel in lab.panels(frame).items():
            made = figures.drawn(lab, frame, structs.replace(CURVE, part=part))
            legends = [legend for legend in (made.axes[0].get_legend(), *made.legends) if legend]
            named[part] = sorted(text.get_text() for legend in legends for text in legend.get_texts())
            lines = [line.label for line in panel.lines if line.label and line.curve in frame.curves]
            assert named[part] == sorted(lines + [mark.label for mark in panel.marks])
            assert len(legends) == bool(named[part])
    assert [] in named.values()
    assert any(len(names) > 1 for names in named.values())


def test_a_pdf_is_one(tmp_path):
    path = tmp_path / "picard.pdf"
    write_drawing(structs.replace(CURVE, part="picard"), path)
    data = path.read_bytes()
    assert data.startswith(b"%PDF-")
    assert b"/MediaBox [ 0 0 576 432 ]" in data
    assert not re.search(rb"/CreationDate", data)


def test_a_picture_with_axes_has_the_field_s_values_at_its_colour_bar(tmp_path):
    with closing(HEAT.open()) as lab:
        lab.advance(20)
        frame = lab.frame()
        made = figures.drawn(lab, frame, HEAT)
        raster = frame.rasters["field"]
    picture, bar = made.axes
    assert picture.get_xlim() == (raster.extent[0], raster.extent[2])
    assert bar.get_ylim() == pytest.approx((raster.low, raster.high))
    shown = picture.images[0].get_array()
    assert shown.shape == (30, 40, 3)
    truth = Diffusion(ny=30, nx=40)
    truth.advance(20)
    warmest = np.unravel_index(truth.field().argmax(), (30, 40))
    assert shown[warmest].sum() == shown.sum(axis=2).max()  # Inferno grows lighter; row 0 is the lowest
    truth.close()


@pytest.mark.parametrize(("steps", "words"), [(0, []), (60, ["not finite"])])
def test_the_colour_of_what_is_not_finite_is_named_where_it_is_seen(steps, words):
    """A checkerboard of 1e20 at r = 1/2 grows threefold per step: float32 overflows after some 40 steps."""
    with closing(Diffusion(ny=30, nx=40, unstable=True, r=0.5, backend="cpu_numba")) as lab:
        lab.load(1e20 * (np.indices((30, 40)).sum(axis=0) % 2))
        if steps:
            lab.advance(steps)
        made = figures.drawn(lab, lab.frame(), HEAT)
    legend = made.axes[0].get_legend()
    assert [text.get_text() for text in (legend.get_texts() if legend else [])] == words
    if legend:
        (patch,) = legend.get_patches()
        assert tuple(round(255 * part) for part in patch.get_facecolor()[:3]) == lab.APART


def test_files_of_a_picture_that_is_not_finished_tell_what_waits_from_the_set():
    """Deep in a valley no pixel escapes in the first passes: none is computed yet, and none is in the set either."""
    scene = Scene("mandelbrot", {}, size=(24, 32))
    values = {"center": SEAHORSES.center, "zoom": SEAHORSES.zoom, "max_iterations": 10**6}
    with closing(Mandelbrot(ny=24, nx=32, backend="cpu_numba", **values)) as lab:
        shown = render.current_pixels(lab, scene)
        made = figures.drawn(lab, lab.frame(), scene)
    assert (shown == NOT_COMPUTED).all()
    assert [text.get_text() for text in made.axes[0].get_legend().get_texts()] == ["not computed yet"]
    with closing(Mandelbrot(ny=24, nx=32, backend="cpu_numba", center=("-0.1", "0.0"), zoom="200")) as lab:
        lab.counts()
        assert (render.current_pixels(lab, scene) == lab.APART).all()
        assert figures.drawn(lab, lab.frame(), scene).axes[0].get_legend() is None


@pytest.mark.parametrize("name", PALETTES)
def test_the_colour_of_what_waits_is_none_of_a_palette_s(name):
    assert not (table(name) == NOT_COMPUTED).all(axis=1).any()
    plain, waiting = colours_of(Style(name)), colours_of(Style(name), waiting=True)
    assert tuple(waiting[WAITING]) == NOT_COMPUTED
    np.testing.assert_array_equal(waiting[:WAITING], plain[:WAITING])


def test_a_picture_with_axes_is_centred_and_says_its_step_and_r():
    scene = Scene("diffusion", {"r": 0.125, "ny": 30, "nx": 30}, size=(300, 534), axes=True, part="field")
    with closing(Diffusion(ny=30, nx=30, r=0.125, backend="cpu_numba")) as lab:
        lab.advance(1234)
        frame = lab.frame()
        made = figures.drawn(lab, frame, scene)
        shown = figures.pixels(lab, frame, scene)
    assert made.get_supxlabel() == "step 1,234, r = 0.125"
    inked = np.flatnonzero((shown != 255).any(axis=(0, 2)))
    left, right = inked[0], shown.shape[1] - 1 - inked[-1]
    assert abs(left - right) <= 4  # px of 534


def test_a_png_says_how_it_was_made_and_with_axes_it_may_be_transparent(tmp_path):
    """In the iTXt chunk that a page reads from a dropped file, before the pixels."""
    write_drawing(HEAT, tmp_path / "heat.png", transparent=True)
    write_picture(HEAT, tmp_path / "plain.png")
    for name in ("heat.png", "plain.png"):
        data = (tmp_path / name).read_bytes()
        found = data.index(b"iTXtfieldlab\0\0\0\0\0{")
        assert found < data.index(b"IDAT")
        assert b"tEXt" not in data[: data.index(b"IDAT")]
        with Image.open(tmp_path / name) as picture:
            assert scene_of(json.loads(picture.text["fieldlab"])) == HEAT
    with Image.open(tmp_path / "heat.png") as picture:
        assert (picture.size, picture.mode) == ((400, 300), "RGBA")
        assert picture.getpixel((1, 1))[3] == 0


def test_a_film_of_drawings_is_drawn_like_one_drawing(tmp_path):
    film = Film(structs.replace(CURVE, size=(302, 400)), 3, keys=(Key(0, {"noise": 1e-4}), Key(1, {"noise": 0.1})))
    frames = [frame(film.plain(), number)[1] for number in range(3)]
    assert len({*frames}) == 3
    write_drawing(film.at(1), tmp_path / "one.png")
    with Image.open(tmp_path / "one.png") as alone, Image.open(io.BytesIO(frames[1])) as made:
        assert made.size == (400, 302)
        np.testing.assert_array_equal(np.asarray(made), np.asarray(alone.convert("RGB")))
    with_axes = render.pixels(structs.replace(HEAT, axes=True))
    assert with_axes.shape == (300, 400, 3)
    assert (with_axes[0] == 255).all()  # white background around it


def test_a_process_that_has_made_other_files_makes_the_same_bytes(tmp_path):
    """Earlier figures do not influence matplotlib's output."""
    queue, drawings = JobQueue(), [form for form in STILLS if form.axes]
    heat = structs.replace(HEAT, values={**HEAT.values, "backend": "cpu_numpy"})
    curve = structs.replace(CURVE, values={**CURVE.values, "backend": "cpu_numpy"})
    wanted = [*((form, heat, True) for form in drawings), *((form, curve, False) for form in drawings)]

    def made(form, scene, transparent, keeps):
        path = tmp_path / f"a{form.ending}"
        job = Job(partial(tasks.still, form, scene, path, None, transparent), FILE, queue=queue, keeps=keeps)
        job.start()
        assert job.join(240)
        assert (job.state, job.text) == ("done", "")
        return path.read_bytes()

    order = [*wanted, *reversed(wanted)]  # each after others of both labs, with and without a background
    kept = [made(*one, keeps=True) for one in order]
    process = queue.used.take()
    assert process.tasks == len(order)
    process.close()
    alone = [made(*one, keeps=False) for one in wanted]
    for one, other in zip(kept, [*alone, *reversed(alone)], strict=True):
        assert one == other
