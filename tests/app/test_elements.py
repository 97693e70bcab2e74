"""A lab's frame as an element of HoloViews, and a lab's parameters as widgets of Panel."""

from __future__ import annotations

from contextlib import closing

import holoviews as hv
import numpy as np
import panel as pn
import pytest

from app.elements import element, values
from compute.lab.frames import Raster
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve


def test_an_image_has_the_values_of_the_field_in_its_place():
    field = np.linspace(-1, 3, 20 * 32).reshape(20, 32)
    with closing(Diffusion(backend="cpu_numpy", ny=20, nx=32, dtype="float64")) as lab:
        lab.load(field)
        picture = element(lab)
    assert isinstance(picture, hv.Image)
    assert picture.bounds.lbrt() == (0, 0, 32, 20)
    read = picture.dimension_values("value", flat=False)  # by HoloViews: rows from the lowest y up
    assert np.abs(read - field).max() <= 4 / 254 / 2 + 1e-12  # half a level
    assert picture[31.5, 19.5] == pytest.approx(3)
    assert picture.kdims[0].label == "x [cells]"


def test_pixels_without_a_value_are_nan():
    levels = np.array([[0, 127, 253, 254, 255]], np.uint8)
    whole, waiting = (Raster(levels, 1.0, 2.0, (0, 0, 5, 1), waiting=waiting) for waiting in (False, True))
    assert np.array_equal(values(whole), [[1, 1.5, 1 + 253 / 254, 2, np.nan]], equal_nan=True)
    assert np.array_equal(values(waiting), [[1, 1 + 127 / 253, 2, np.nan, np.nan]], equal_nan=True)


def test_lines_become_curves_with_the_numbers_of_the_frame():
    with closing(LCurve(backend="cpu_numpy", problem="shaw", n=16)) as lab:
        lab.solve()
        overlay, frame = element(lab, "l-curve"), lab.frame()
        line = lab.panels(frame)["l-curve"].lines[0]
        curve = next(each for each in overlay if each.label == (line.label or line.curve))
        x, y = line.points(frame)
        assert np.array_equal(curve.dimension_values("x"), x)
        assert np.array_equal(curve.dimension_values("y"), y)
        with pytest.raises(ValueError, match=r"panel must be one of .*l-curve"):
            element(lab, "no such panel")


def test_widgets_of_panel_change_the_lab_within_its_bounds():
    with closing(Diffusion(backend="cpu_numpy", ny=8, nx=8)) as lab:
        r, preset = (pn.Param(lab, parameters=[name])[1] for name in ("r", "preset"))
        assert (r.start, r.end) == (0, 0.25)
        seen = []
        lab.param.watch(lambda event: seen.append(element(lab).dimension_values("value")), "preset", precedence=2)
        preset.value = "step"
        r.value = 0.1
        assert (lab.preset, lab.r) == ("step", 0.1)
        assert np.array_equal(seen[0], element(lab).dimension_values("value"))  # after the lab's own watchers
