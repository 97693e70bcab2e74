"""The λ slider and the kept solution: how the views draw both."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from bokeh.models import ColorBar, LinearAxis
from PIL import Image

from app.labs.l_curve.controls import LCurveControls
from app.labs.l_curve.labels import short
from app.labs.l_curve.linked_plots import CAPTIONS, same_colours
from app.labs.l_curve.parts import FIRST
from app.labs.l_curve.view import LCurveView
from app.tab.controls import UNDO
from compute.lab.frames import NOT_FINITE, Raster
from compute.labs.l_curve import LCurve
from tests.direct import DirectSession


class Tab:
    """Controls and view of one session with a finished curve and plots that count as drawn."""

    def __init__(self, **values):
        self.session = DirectSession(LCurve(**{**FIRST, "n": 40, "backend": "cpu_numpy", **values}))
        self.lab_view = LCurveView(self.session, (1200, 800))
        self.controls = LCurveControls(self.session, self.lab_view, None)
        self.session.value_changes.subscribe(self.controls.show_values)
        while not self.session.live.status.resting:
            self.session.live.advance(8)
        self.see()

    def see(self):
        """Deliver the next frame, simulate the browser's layout of new plots and run the periodic callbacks."""
        self.session.see()
        for _ in range(2):  # the first layout of a plot can add other plots
            for figure in [self.lab_view.plot.figure, *self.linked.figures]:
                figure.trigger("inner_width", 0, 200)
        self.lab_view.tick()
        self.controls.tick()

    @property
    def linked(self):
        return self.lab_view.linked_plots

    def slide(self, lam):
        """Move the slider to λ, rounded to its steps; return that λ."""
        slide = self.controls.lambda_choice.slide
        slide.value = round(float(np.log10(lam)), 2)
        self.see()
        return 10.0**slide.value

    def press(self, key):
        self.controls.keys[key]()
        self.see()

    def line(self, name):
        """Return (x, y) that the glyph of this line draws, None if the line is hidden."""
        plot = self.linked.solution.line
        index = ("solution", "truth", "kept").index(name)
        renderer = plot.figure.renderers[index]
        if not renderer.visible:
            return None
        data, glyph = renderer.data_source.data, renderer.glyph
        return np.array(data[glyph.x]), np.array(data[glyph.y])


@pytest.fixture
def tab():
    tab = Tab()
    yield tab
    tab.session.live.close()


# -- the λ slider


def test_the_slider_picks_its_lambda_and_every_view_follows(tab):
    before = tab.line("solution")[1]
    lam = tab.slide(0.1)
    frame = tab.session.latest
    assert tab.session.values["lam"] == frame.facts["lam"] == pytest.approx(lam)
    np.testing.assert_array_equal(tab.line("solution")[1], frame.curves["solution"].y)
    assert np.abs(tab.line("solution")[1] - before).max() > 0.01 * np.abs(before).max()
    ring = [column[0] for column in tab.lab_view.plot.ring.data_source.data.values()]
    assert ring == pytest.approx([frame.facts["residual"], frame.facts["solution"]], rel=0.02)
    assert [hair.location for hair in tab.lab_view.plot.hairs] == ring
    views = [view for view in tab.linked.drawn_views() if view.view.over == "λ"]
    assert views
    assert all(view.hair.visible and view.hair.location == pytest.approx(lam) for view in views)
    choice = tab.controls.lambda_choice
    assert (choice.rule.value, choice.lam.panel.value) == ("", f"{lam:.4g}")
    assert choice.slide.value_label == tab.lab_view.notation.words(lam)


def test_an_error_of_the_typed_lambda_stays_until_the_user_chooses_lambda(tab):
    field = tab.controls.lambda_choice.lam.panel
    shown = field.value
    assert float(shown) == pytest.approx(tab.session.latest.facts["lam"], rel=1e-5)  # that of the rule
    tab.lab_view.take_rule("gcv")
    field.value = "-1"
    tab.see()  # a frame with the λ of the rule
    assert (field.value, field.error_state) == ("-1", True)
    lam = tab.slide(0.01)
    assert (float(field.value), field.error_state) == (pytest.approx(lam, rel=1e-5), False)


def test_the_slider_spans_the_curve_and_follows_what_is_picked_elsewhere(tab):
    slide, grid = tab.controls.lambda_choice.slide, tab.session.latest.curves["width"].x
    assert (slide.start, slide.end) == pytest.approx(np.log10(grid[[0, -1]]), abs=0.006)
    tab.session.changes.clear()
    tab.lab_view.pick(3e-2)
    tab.see()
    assert slide.value == round(float(np.log10(3e-2)), 2)
    assert tab.session.changes == [{"lam": 3e-2}]  # a value that it follows is not set a second time
    tab.press("c")
    assert slide.value == pytest.approx(np.log10(tab.session.latest.facts["lam"]), abs=0.006)
    assert tab.session.values["lam"] is None


def test_the_limit_of_steps_is_a_whole_number(tab):
    limit = tab.controls.lambda_choice.most
    limit.panel.value = "57"
    assert (tab.session.live.steps_at_most, limit.panel.error_state) == (57, False)
    limit.panel.value = "57.5"
    assert limit.panel.helper_text == "Maximum steps must be a whole number from 1 to 100000, not '57.5'"
    assert tab.session.live.steps_at_most == 57


# -- a solution on a line


def test_the_kept_solution_is_drawn_and_stays_while_lambda_moves(tab):
    assert tab.line("kept") is None
    first, lam = tab.line("solution"), tab.session.latest.facts["lam"]
    tab.press("n")
    np.testing.assert_array_equal(tab.line("kept"), first)
    assert tab.controls.lambda_choice.keep.label == f"Comparison: {tab.lab_view.notation.words(lam)}"
    tab.slide(10 * lam)
    np.testing.assert_array_equal(tab.line("kept"), first)
    assert (tab.line("solution")[1] != first[1]).any()
    legend = tab.linked.solution.line.figure.legend[0]
    assert legend.visible
    tab.press("n")
    assert tab.line("kept") is None


def test_another_problem_takes_the_kept_solution_away(tab):
    tab.press("n")
    tab.session.change(problem="shaw")
    tab.see()
    assert tab.line("kept") is None
    assert not tab.controls.lambda_choice.keep.value


# -- a solution that is a picture


@pytest.fixture
def imaged():
    tab = Tab(problem="blur", n=16)
    tab.see()
    yield tab
    tab.session.live.close()


def levels(tab, name):
    """Return the levels that the picture `name` draws."""
    return np.array(tab.linked.solution.picture(name).source.data[name][0])


def caption(tab, name):
    """Return the picture's heading."""
    return tab.linked._captions[name].object


def seen(tab):
    """Return the names of the visible pictures."""
    return [name for name in CAPTIONS if name in tab.linked._columns and tab.linked._columns[name].visible]


def test_the_kept_picture_stands_beside_the_present_one_in_the_same_colours(imaged):
    assert seen(imaged) == ["solution", "truth"]
    lam = imaged.slide(1e-3)
    first = levels(imaged, "solution")
    imaged.press("n")
    assert seen(imaged) == ["solution", "kept", "truth"]
    np.testing.assert_array_equal(levels(imaged, "kept"), first)
    assert f"Kept, {imaged.lab_view.notation.words(lam)}" in caption(imaged, "kept")
    imaged.slide(1.0)
    np.testing.assert_array_equal(levels(imaged, "kept"), first)
    assert (levels(imaged, "solution") != first).any()
    pictures = [imaged.linked.solution.picture(name) for name in CAPTIONS]
    assert {picture.values.low for picture in pictures} == {imaged.session.latest.rasters["truth"].low}
    assert {picture.values.high for picture in pictures} == {imaged.session.latest.rasters["truth"].high}
    assert len({picture.plot.mapper.id for picture in pictures}) == 1
    imaged.press("a")
    assert f"Kept, α = {short(lam**2)}" in caption(imaged, "kept")
    imaged.press("n")
    assert seen(imaged) == ["solution", "truth"]


def png(pixel):
    """Return the bytes of a grey PNG of 16 x 16 pixels, all of that brightness except one corner."""
    image, out = Image.new("L", (16, 16), pixel), BytesIO()
    image.putpixel((0, 0), 255 - pixel)
    image.save(out, "PNG")
    return out.getvalue()


def test_another_image_of_the_same_size_takes_the_kept_picture_away(imaged):
    imaged.session.change(options={"image": png(80)})
    imaged.see()
    imaged.press("n")
    assert seen(imaged) == ["solution", "kept", "truth"]
    imaged.session.change(options={"image": png(200)})
    imaged.see()
    assert seen(imaged) == ["solution", "truth"]
    assert not imaged.controls.lambda_choice.keep.value


def test_a_view_that_had_no_room_marks_what_was_picked_meanwhile(imaged):
    imaged.linked.resize(656, 220)
    imaged.see()
    (view,) = imaged.linked.drawn_views()
    imaged.press("n")  # the kept picture takes up its room
    assert imaged.linked.drawn_views() == []
    lam = imaged.slide(0.1)
    imaged.press("n")
    assert imaged.linked.drawn_views() == [view]
    assert view.hair.location == pytest.approx(lam)


def test_a_kept_picture_of_other_limits_is_drawn_in_those_of_the_present_one():
    made = np.array([[0, 127, 254, NOT_FINITE]], np.uint8)
    raster = Raster(made, 0.0, 2.0, (0, 0, 4, 1))
    assert same_colours(raster, 0.0, 2.0) is raster
    other = same_colours(raster, 0.0, 4.0)
    assert other.span == (0.0, 4.0)
    assert other.levels.tolist() == [[0, 64, 127, NOT_FINITE]]
    assert same_colours(raster, 1.0, 1.5).levels.tolist() == [[0, 0, 254, NOT_FINITE]]


def test_pictures_have_axes_with_titles_and_one_colour_bar(imaged):
    first, last = (imaged.linked.solution.picture(name) for name in ("solution", "truth"))
    assert (first.figure.below[0].axis_label, first.figure.left[0].axis_label) == ("column [pixels]", "row [pixels]")
    assert first.figure.below[0].visible
    assert first.figure.left[0].visible
    assert (last.figure.below[0].visible, last.figure.left[0].visible) == (True, False)
    shown = [one for picture in (first, last) for one in picture.figure.right if one.visible]
    (bar,) = (one for one in shown if isinstance(one, ColorBar))
    assert bar in last.figure.right
    assert bar.color_mapper.palette == last.plot.mapper.palette
    assert (bar.color_mapper.low, bar.color_mapper.high) == imaged.session.latest.rasters["truth"].span
    assert [one.axis_label for one in shown if isinstance(one, LinearAxis)] == ["grey value"]


SIZES = [(656, 220), (1296, 380), (300, 200), (640, 150), (1900, 500)]


@pytest.mark.parametrize("presenter", [False, True], ids=["", "presenter"])
@pytest.mark.parametrize("size", SIZES)
def test_pictures_and_views_fit_into_their_row(imaged, size, presenter):
    for kept in (False, True):
        if kept:
            imaged.press("n")
        imaged.lab_view.fit((1200, 800), False, presenter)
        imaged.linked.resize(*size)
        for _ in range(3):
            imaged.linked.resize(*size)
            imaged.see()
            imaged.linked.resize(*size)
        columns = [column for column in imaged.linked._columns.values() if column.visible]
        assert sum(column.width for column in columns) <= size[0]
        assert max(column.height for column in columns) <= max(size[1], 160)
        assert seen(imaged)[:2] == ["solution", "kept" if kept else "truth"]
        sides = {imaged.linked.solution.picture(name).figure.frame_width for name in seen(imaged)}
        assert len(sides) == 1
        assert min(sides) >= 64


# -- the penalty


def test_another_penalty_renames_the_axis_and_keeps_the_solution_for_comparison(tab):
    tab.press("n")
    kept = tab.line("kept")
    tab.slide(tab.session.latest.facts["lam"] * 3)
    tab.controls.problem.penalty.value = 2
    tab.see()
    assert tab.session.live.derivative == 2
    assert tab.session.values["lam"] is tab.session.values["lambdas"] is None  # λ has other units
    assert tab.lab_view.plot.figure.yaxis[0].axis_label.endswith("‖x″‖")
    assert "<mi>x″</mi>" in tab.lab_view.title.object
    np.testing.assert_array_equal(tab.line("kept"), kept)
    assert tab.line("solution")[1].size == 40
    tab.press(UNDO)
    assert (tab.session.live.derivative, tab.controls.problem.penalty.value) == (0, 0)
    assert tab.lab_view.plot.figure.yaxis[0].axis_label.endswith("‖x‖")


def test_a_picture_has_no_penalty_and_the_next_line_has_the_last_one(tab):
    problem = tab.controls.problem
    problem.penalty.value = 1
    problem.problem.value = "blur"
    tab.see()
    assert (tab.session.live.derivative, problem.penalty.visible) == (0, False)
    problem.problem.value = "shaw"
    tab.see()
    assert (tab.session.live.derivative, problem.penalty.value, problem.penalty.visible) == (1, 1, True)
