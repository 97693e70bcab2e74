"""The λ slider, and the solution that is kept beside the present one: what the views draw of them."""

from __future__ import annotations

import numpy as np
import pytest

from app.labs.l_curve.controls import LCurveControls
from app.labs.l_curve.parts import FIRST
from app.labs.l_curve.view import LCurveView
from compute.labs.l_curve import LCurve
from tests.direct import DirectSession


class Tab:
    """Controls and view of one session whose curve is done and whose plots a browser would have drawn."""

    def __init__(self, **values):
        self.session = DirectSession(LCurve(**{**FIRST, "n": 40, "backend": "cpu_numpy", **values}))
        self.lab_view = LCurveView(self.session, (1200, 800))
        self.controls = LCurveControls(self.session, self.lab_view, None)
        self.session.on_values = self.controls.show_values
        while not self.session.live.resting:
            self.session.live.advance(8)
        self.see()

    def see(self):
        """The next frame arrives, the browser draws what is new, and the page's loop comes round."""
        self.session.see()
        for _ in range(2):  # a plot that is drawn for the first time may bring others
            for figure in [self.lab_view.plot.figure, *self.linked.figures]:
                figure.trigger("inner_width", 0, 200)
        self.lab_view.tick()
        self.controls.tick()

    @property
    def linked(self):
        return self.lab_view.linked_plots

    def slide(self, lam):
        """The slider is moved by hand to λ, as exactly as its steps allow; returns that λ."""
        slide = self.controls.lambda_choice.slide
        slide.value = round(float(np.log10(lam)), 2)
        self.see()
        return 10.0**slide.value

    def press(self, key):
        self.controls.keys[key]()
        self.see()

    def line(self, name):
        """(x, y) that the glyph of this line draws, None where it is hidden."""
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


def test_the_slider_spans_the_curve_and_follows_what_is_picked_elsewhere(tab):
    slide, grid = tab.controls.lambda_choice.slide, tab.session.latest.curves["width"].x
    assert (slide.start, slide.end) == pytest.approx(np.log10(grid[[0, -1]]), abs=0.006)
    tab.session.changes.clear()
    tab.lab_view.pick(3e-2)
    tab.see()
    assert slide.value == round(float(np.log10(3e-2)), 2)
    assert tab.session.changes == [{"lam": 3e-2}]  # what it follows it does not pick once more
    tab.press("c")
    assert slide.value == pytest.approx(np.log10(tab.session.latest.facts["lam"]), abs=0.006)
    assert tab.session.values["lam"] is None


# -- a solution on a line


def test_the_kept_solution_is_drawn_and_stays_while_lambda_moves(tab):
    assert tab.line("kept") is None
    first, lam = tab.line("solution"), tab.session.latest.facts["lam"]
    tab.press("n")
    np.testing.assert_array_equal(tab.line("kept"), first)
    assert tab.controls.lambda_choice.keep.label == f"Kept beside: {tab.lab_view.notation.words(lam)}"
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
