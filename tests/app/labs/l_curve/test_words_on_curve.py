"""The labels at the ends of the L-curve cover nothing that is drawn, at any size; without free room they are hidden."""

from __future__ import annotations

import numpy as np
import pytest
from bokeh.document import Document

from app.labs.l_curve.free_places import FreeRoom
from app.labs.l_curve.l_curve_plot import LCurvePlot
from app.labs.l_curve.view import rules_of
from app.page.theme import type_size
from compute.labs.l_curve.lab import LCurve

SIZES = {"laptop": (418, 300), "small": (544, 272), "full HD": (1050, 520), "low": (380, 250), "tiny": (180, 110)}
PROBLEMS = {"heat": 1e-2, "shaw": 1e-3, "gravity": 1e-1, "phillips": 1e-4}


@pytest.fixture(scope="module", params=PROBLEMS)
def frame(request):
    """Yield the complete curve of a problem, with its rules."""
    values = {"problem": request.param, "n": 40, "noise": PROBLEMS[request.param], "backend": "cpu_numpy"}
    lab = LCurve(**values)
    while not (frame := lab.frame()).facts["finished"]:
        lab.advance()
    yield frame
    lab.close()


def box(plot: LCurvePlot, label) -> tuple[float, float, float, float]:
    """Return (left, bottom, right, top) in px of a label, with letters counted as half as wide as high."""
    size = type_size(plot._presenter)
    x, y = np.add(plot._px(label.x, label.y), (label.x_offset, label.y_offset))
    wide = 0.46 * size * len(label.text)
    left = x - wide if label.text_align == "right" else x
    return left, y, left + wide, y + size


def plot_of(frame, size, presenter) -> LCurvePlot:
    """Return the plot of a frame's curve with the badges of its rules, at that size."""
    plot = LCurvePlot(Document(), print)
    plot.set_theme(False, presenter)
    plot.resize(*size)
    plot.show(frame)
    plot.mark_rules(rules_of(frame))
    plot.mark(None)
    return plot


def apart(one, other) -> bool:
    """Return whether two boxes have no point in common."""
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("presenter", [False, True], ids=["", "presenter"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_words_lie_over_no_curve_no_badge_and_not_over_each_other(frame, size, presenter):
    plot = plot_of(frame, size, presenter)
    curve = np.array([plot._px(x, y) for x, y in plot.path.points()])
    places = np.column_stack([np.interp(np.linspace(0, len(curve) - 1, 2000), range(len(curve)), curve[:, i])
                              for i in (0, 1)])  # fmt: skip
    badges = plot.badges.data_source.data
    half = plot.badges.glyph.size / 2
    middles = [plot._px(x, y) for x, y in zip(badges["x"], badges["y"], strict=True)]
    things = [(x - half, y - half, x + half, y + half) for x, y in middles] + [(x, y, x, y) for x, y in places]
    assert len(middles) > 2  # rules that have a λ
    words = [box(plot, label) for label in (plot.noise, plot.smoothing) if label.visible]
    assert all(apart(one, thing) for one in words for thing in things)
    assert len(words) < 2 or apart(*words)
    assert all(one[0] >= 0 and one[1] >= 0 and one[2] <= plot.inner[0] and one[3] <= plot.inner[1] for one in words)
    if size == SIZES["full HD"]:
        assert len(words) == 2


@pytest.mark.parametrize("presenter", [False, True], ids=["", "presenter"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_words_lie_over_no_cross_hair_and_not_over_the_ring(frame, size, presenter):
    """For each λ along the curve in turn, as in a drag, and at another size of the plot."""
    plot = plot_of(frame, size, presenter)
    seen = 0
    for lam in 10 ** np.linspace(plot.path.lam[0], plot.path.lam[-1], 60):
        plot.mark(lam)
        x, y = plot._px(plot.hairs[0].location, plot.hairs[1].location)
        half = plot.ring.glyph.size / 2
        wide, high = plot.inner
        things = [(x, 0, x, high), (0, y, wide, y), (x - half, y - half, x + half, y + half)]
        words = [box(plot, label) for label in (plot.noise, plot.smoothing) if label.visible]
        assert all(apart(one, thing) for one in words for thing in things), lam
        seen += len(words)
    if size == SIZES["full HD"]:
        assert seen == 120
    plot.mark(None)
    assert [label.visible for label in (plot.noise, plot.smoothing)] == [True, True] or size != SIZES["full HD"]


def test_words_stay_where_they_are_free_and_leave_where_they_are_not():
    room, size = FreeRoom(400, 300), (100, 20)
    assert room.nearest(size, (0.0, 0.0)) == (0.0, 0.0)
    assert room.nearest(size, (0.0, 0.0), (40.0, 0.0)) == (40.0, 0.0)
    assert room.nearest(size, (0.0, 0.0), (200.0, 0.0)) == (0.0, 0.0)  # too far from the end that the label describes
    room.take_box((40, 0), (10, 10))
    assert room.nearest(size, (0.0, 0.0), (40.0, 0.0)) != (40.0, 0.0)
    room.take_line(np.array([[0.0, 0.0], [400.0, 300.0]]), 400)
    assert room.nearest(size, (0.0, 0.0)) is None
    assert FreeRoom(40, 10).nearest(size, (0.0, 0.0)) is None
