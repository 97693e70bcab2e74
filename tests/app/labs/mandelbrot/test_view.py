"""A picture that lies entirely in the set: its hint, and the histogram that it hides."""

from __future__ import annotations

import numpy as np
import pytest

from app.labs.mandelbrot.view import MandelbrotView
from app.tab.lab_tab import STATUS, view_size
from compute.labs.mandelbrot import Mandelbrot
from tests.direct import DirectSession

INSIDE = {"center": ("-0.1", "0.0"), "zoom": "200"}  # well within the cardioid
ACROSS = {"center": ("-0.75", "0.0"), "zoom": "1"}


class Tab:
    def __init__(self, **values):
        self.lab = Mandelbrot(**{"backend": "cpu_numpy", "ny": 24, "nx": 36, "max_iterations": 200, **values})
        self.session = DirectSession(self.lab)
        self.session.document.add_timeout_callback = lambda callback, wait: None
        self.lab_view = MandelbrotView(self.session, (900, 600))
        self.lab_view.histogram.figure.set_from_json("inner_width", 600)  # as the browser reports it
        self.lab.update(ny=24, nx=36)

    def see(self):
        self.session.see()
        self.lab_view.tick()

    def finish(self):
        while not self.lab.finished:
            self.lab.advance(1)
        self.see()

    def bars(self):
        return {name: np.array(column) for name, column in self.lab_view.histogram.source.data.items()}

    def hint(self):
        return self.lab_view.hint.object if self.lab_view.hint.visible else ""


@pytest.mark.parametrize("bar", [0, 43, 79])
@pytest.mark.parametrize("window", [(844, 390), (667, 375), (390, 844)])
def test_the_picture_and_its_colour_bar_end_above_the_bar_at_the_bottom(window, bar):
    """On a phone in portrait and landscape, with no, one or two lines in its bar."""
    size = view_size(window, False, False, bar + STATUS * (not bar))
    figure = MandelbrotView(Tab().session, size).picture.plot.figure
    assert figure.width <= size[0]
    assert figure.height <= size[1]


def test_the_orbit_of_the_point_under_the_pointer_is_drawn_and_its_first_points_are_larger():
    tab = Tab(**ACROSS)
    tab.session.change(orbit_length=8)
    picture = tab.lab_view.picture
    picture.pointer_state.pointer = [0.5, 0.5]
    tab.see()
    points, anchor, z = tab.lab_view.orbit.points.data, picture.anchor, [0.0]
    while len(z) < len(points["x"]):
        z.append(z[-1] ** 2 - 0.75)  # in the middle, c is -0.75
    assert len(z) >= 8
    np.testing.assert_allclose(float(anchor.re) + points["x"] * float(anchor.unit), z, atol=1e-12)
    np.testing.assert_allclose(float(anchor.im) + points["y"] * float(anchor.unit), 0.0, atol=1e-12)
    assert list(points["size"]) == sorted(points["size"], reverse=True)
    assert points["size"][0] > points["size"][-1]
    tab.session.change(orbit_length=0)
    tab.see()
    assert len(tab.lab_view.orbit.points.data["x"]) == 0


def test_a_black_picture_keeps_no_histogram_of_another_one():
    tab = Tab(**ACROSS)
    tab.finish()
    assert tab.bars()["top"].max() == 1.0
    assert tab.hint() == ""
    tab.lab.update(**INSIDE)
    tab.finish()
    assert tab.session.latest.facts["inside"] == 1.0
    assert [column.size for column in tab.bars().values()] == [0, 0, 0, 0]
    assert all(len(column) == 0 for column in tab.lab_view.histogram.shares.data.values())
    assert tab.lab_view.histogram.figure.xaxis[0].ticker.ticks == []
    assert tab.lab_view.bar.ticker.ticks == []
    tab.lab.update(**ACROSS)
    tab.finish()
    assert tab.bars()["top"].max() == 1.0
    assert len(tab.lab_view.bar.ticker.ticks) > 0


def test_a_black_picture_says_that_it_is_inside_and_what_that_means():
    tab = Tab(**INSIDE)
    tab.finish()
    assert "Inside the set" in tab.hint()
    assert "200 iterations" in tab.hint()


@pytest.mark.parametrize("iterations", [2, 200])
def test_nothing_is_said_of_a_picture_that_is_not_done_or_not_all_inside(iterations):
    """Before the first pixels have counts, a picture has one colour, too: that of pending pixels."""
    tab = Tab(**ACROSS, max_iterations=iterations)
    tab.see()
    assert not tab.lab.finished
    assert "Not computed yet" in tab.hint()
    assert "nside" not in tab.hint()
    tab.finish()
    assert tab.hint() == ""
