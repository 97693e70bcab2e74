"""A view always has a size that its plots accept, for any window that a browser reports, including none."""

from __future__ import annotations

import panel as pn
import pytest
from bokeh.document import Document

from app.tab.lab_tab import LEAST_VIEW, LabTab, view_size
from compute.labs import LABS

# px, as a browser can report them: none, invalid, a watch, phones, a strip
WINDOWS = (0, 0), (-5, 10**6), (1, 1), (200, 240), (300, 200), (320, 240), (390, 844), (844, 390), (1280, 90)
BARS = (True, True, 40), (False, False, 66), (True, True, 4096)  # of a page, of a phone, and forged


@pytest.fixture(scope="module", params=LABS, ids=lambda lab: lab.LAB)
def tab(request):
    """Return a tab of each lab with plots that count as drawn, so that they follow every size."""
    tab = LabTab(request.param, Document(), (1280, 720))
    for pane in tab.lab_view.panel.select(pn.pane.Bokeh):
        pane.object.trigger("inner_width", 0, 600)
    tab.session.later = lambda call: call()
    assert tab.lab_view.drawn
    return tab


def negative_sizes(tab: LabTab) -> list[tuple[str, float]]:
    """Return (name, px) for each negative size of the view's parts or plots."""
    parts = [*tab.lab_view.panel.select(), *(pane.object for pane in tab.lab_view.panel.select(pn.pane.Bokeh))]
    sizes = [(part, getattr(part, side, None)) for part in parts for side in ("width", "height")]
    # Only reported parts are converted to text: the conversion takes longer than all other work.
    return [(f"{part}"[:80], size) for part, size in sizes if size is not None and not size >= 0]


ROOMS = [view_size(window, *bars) for window in WINDOWS for bars in BARS]


def test_a_view_is_never_smaller_than_the_least():
    assert all(width >= LEAST_VIEW[0] and height >= LEAST_VIEW[1] for width, height in ROOMS)


@pytest.mark.parametrize("alone", [False, True], ids=["page", "picture alone"])
@pytest.mark.parametrize("presenter", [False, True], ids=["", "presenter"])
def test_every_lab_takes_every_size(tab, presenter, alone):
    """Bokeh and Panel refuse a size below 0, and a plot 0 px wide draws nothing."""
    view = tab.lab_view
    view.alone = alone
    view.fit(view.size, False, presenter)
    for title in getattr(view, "views", [""]):
        if title:
            view.show_view(title)
        for room in ROOMS:
            view.resize(*room)
            assert not negative_sizes(tab), (title, room)


def test_the_plot_keeps_a_room_that_can_be_seen(tab):
    """Even in the smallest view, each lab draws its main picture, at least as large as can be read."""
    tab.lab_view.alone = False
    tab.lab_view.fit(tab.lab_view.size, False, False)
    if hasattr(tab.lab_view, "views"):
        tab.lab_view.show_view("Crossover")
    tab.lab_view.resize(*LEAST_VIEW)
    shown = [pane.object for pane in tab.lab_view.panel.select(pn.pane.Bokeh) if pane.visible]
    assert max(plot.height for plot in shown if plot.visible) >= 120
