"""Plots as sentences and tables, compared with numbers computed here by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from compute.lab.frames import NOT_FINITE, Curve, Frame, Raster
from compute.lab.panels import Line, Panel
from compute.lab.plot_text import ROWS, SIDE, sentences, tables
from compute.labs import LABS
from compute.labs.diffusion import Diffusion
from compute.measure.timing import Timing

LEVELS = np.array([[0, 127, 254], [254, 127, NOT_FINITE]], np.uint8)  # of values from 10 to 18
IMAGE = Panel("Heat", "x [m]", "y [m]", image="heat", extent=(0, 0, 30, 20))


def lab_with(*panels: Panel):
    """Return a lab with these panels."""
    drawn = {panel.title: panel for panel in panels}
    return SimpleNamespace(APART_WORDS="unknown", panels=lambda frame: drawn, extremes=lambda frame: {})


def frame_of(**parts) -> Frame:
    """Return a frame of these parts."""
    return Frame(parts, {}, Timing("cpu_numpy", "", 0, 0))


def test_a_picture_is_described_by_its_values_and_its_maximum():
    frame = frame_of(heat=Raster(LEVELS, 10.0, 18.0, (0, 0, 3, 2)))
    (said,) = sentences(lab_with(IMAGE), frame)
    # (10 + 14 + 18 + 18 + 14) / 5; the first pixel of the largest value is the third of the lowest row
    assert said == ("Heat: a picture of 3 × 2 pixels; from 10 to 18, mean 14.8, largest at x = 25, y = 5; 17% unknown.")


def test_a_picture_without_finite_values_is_described():
    blank = np.full((2, 2), NOT_FINITE, np.uint8)
    frame = frame_of(heat=Raster(blank, 0.0, 1.0, (0, 0, 2, 2)))
    assert sentences(lab_with(IMAGE), frame) == ("Heat: a picture of 2 × 2 pixels; 100% unknown.",)


def test_a_table_of_a_picture_begins_with_the_top_row():
    (table,) = tables(lab_with(IMAGE), frame_of(heat=Raster(LEVELS, 10.0, 18.0, (0, 0, 3, 2))))
    assert table.columns == ("y [m] \\ x [m]", "5", "15", "25")
    assert table.rows == (("15", "18", "14", "unknown"), ("5", "10", "14", "18"))


def test_tables_of_large_plots_are_shortened():
    levels = np.zeros((500, 400), np.uint8)
    x = np.arange(1000.0)
    panels = IMAGE, Panel("Line", "t", "u", lines=(Line("line"),))
    frame = frame_of(heat=Raster(levels, 0.0, 1.0, (0, 0, 1, 1)), line=Curve(x, x**2))
    picture, line = tables(lab_with(*panels), frame)
    assert (len(picture.rows), len(picture.columns)) == (SIDE, SIDE + 1)
    assert len(line.rows) == ROWS
    assert (line.rows[0], line.rows[-1]) == (("0", "0"), ("999", "9.98e+05"))
    assert line.note == f"{ROWS} of 1000 points."


def test_lines_with_the_same_x_share_a_table():
    x, nan = np.array([1.0, 2.0]), np.nan
    parts = {"a": Curve(x, x), "b": Curve(x, np.array([nan, 5.0])), "c": Curve(2 * x, x), "empty": Curve(x[:0], x[:0])}
    panel = Panel("Lines", "λ", "κ", lines=(Line("a", "A"), Line("b", "B"), Line("c"), Line("absent"), Line("empty")))
    both, own = tables(lab_with(panel), frame_of(**parts))
    assert both.columns == ("λ", "A", "B")
    assert both.rows == (("1", "1", "not finite"), ("2", "2", "5"))
    assert own.columns == ("λ", "κ")
    said = sentences(lab_with(panel), frame_of(**parts))
    assert said[:2] == (
        "Lines, A: 2 points, λ from 1 to 2; κ from 1 to 2, largest at 2.",
        "Lines, B: 2 points, λ from 1 to 2; κ from 5 to 5, largest at 2.",
    )


def test_a_line_against_another_uses_its_values_as_x():
    x = np.array([1.0, 2.0, 3.0])
    parts = {"flops": Curve(x, 10 * x), "intensity": Curve(x, x / 2)}
    panel = Panel("Roofline", "I", "P", lines=(Line("flops", "way", against="intensity", only=2.0),))
    assert sentences(lab_with(panel), frame_of(**parts)) == ("Roofline, way: one point, I 1, P 20.",)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_every_lab_describes_its_first_frame(lab):
    sides = {name: 16 for name in ("ny", "nx") if name in lab.param}
    one = lab(backend="cpu_numpy", **sides)
    try:
        frame = one.frame()
        assert all(words.endswith(".") for words in sentences(lab, frame))
        assert all(len(row) == len(table.columns) for table in tables(lab, frame) for row in table.rows)
    finally:
        one.close()


def test_a_described_field_equals_its_array():
    lab = Diffusion(backend="cpu_numpy", ny=8, nx=8, dtype="float64")
    field = np.zeros((8, 8))
    field[2, 5] = 1.0
    lab.load(field)
    said = sentences(Diffusion, lab.frame())[0]
    lab.close()
    assert "from 0 to 1, mean 0.01562" in said  # 1 / 64
    assert "largest at x = 5.5, y = 2.5" in said


def test_descriptions_name_extremes_hidden_by_block_means_and_colours():
    """A chequerboard of ±1e6 in blocks of 2 x 2: every mean is 0, and the colour scale ends at ±1."""
    lab = Diffusion(backend="cpu_numpy", ny=8, nx=8, dtype="float64", limits_field=(-1.0, 1.0))
    chequers = 1e6 * (1 - 2.0 * (np.indices((8, 8)).sum(axis=0) % 2))
    lab.load(chequers)
    field, laplacian, _ = sentences(Diffusion, lab.frame(pixels=(4, 4)))
    assert field.endswith("over all cells from -1e+06 to 1e+06.")
    assert "over all cells from -8e+06 to 8e+06." in laplacian  # the neighbours of each cell have the opposite sign
    assert "mean" not in field + laplacian
    whole, *_ = sentences(Diffusion, lab.frame())
    assert "u from -1 or less to 1 or more;" in whole
    assert "Values beyond the span" in tables(Diffusion, lab.frame())[0].note
    lab.update(limits_field=None)
    assert "u from -1e+06 to 1e+06, mean " in sentences(Diffusion, lab.frame())[0]
    lab.close()
