"""A view always has a size that its plots accept, for any window that a browser reports, including none."""

from __future__ import annotations

import panel as pn
import pytest
from bokeh.document import Document

from app.tab.lab_tab import LEAST_VIEW, LabTab, view_size
from app.tab.lab_view import Size
from compute.labs import LABS

# px, as a browser can report them: none, invalid, a watch, phones, a strip
WINDOWS = (0, 0), (-5, 10**6), (1, 1), (200, 240), (300, 200), (320, 240), (390, 844), (844, 390), (1280, 90)
BARS = {"page": (True, True, 40), "phone": (False, False, 66), "a bar that says it is huge": (True, True, 4096)}


@pytest.fixture(scope="module", params=LABS, ids=lambda lab: lab.LAB)
def tab(request):
    """Return a tab of each lab with plots that count as drawn, so that they follow every size."""
    tab = LabTab(request.param, Document(), (1280, 720))
    for pane in tab.lab_view.panel.select(pn.pane.Bokeh):
        pane.object.trigger("inner_width", 0, 600)
    tab.session.later = lambda call: call()
    assert tab.lab_view.drawn
    return tab


def sizes_below_0(tab: LabTab) -> list[tuple[str, float]]:
    """Return (name, px) for each negative size of the view's parts or plots."""
    parts = [*tab.lab_view.panel.select(), *(pane.object for pane in tab.lab_view.panel.select(pn.pane.Bokeh))]
    sizes = [(part, getattr(part, side, None)) for part in parts for side in ("width", "height")]
    # Only reported parts are converted to text: the conversion takes longer than all other work.
    return [(f"{part}"[:80], size) for part, size in sizes if size is not None and not size >= 0]


def rooms() -> dict[str, Size]:
    """Return the sizes of the view in each window, with each set of bars."""
    return {f"{window}, {name}": view_size(window, *bars) for window in WINDOWS for name, bars in BARS.items()}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("bars", BARS.values(), ids=BARS)
def test_a_view_is_never_smaller_than_the_least(window, bars):
    width, height = view_size(window, *bars)
    assert width >= LEAST_VIEW[0]
    assert height >= LEAST_VIEW[1]


@pytest.mark.parametrize("alone", [False, True], ids=["page", "picture alone"])
@pytest.mark.parametrize("presenter", [False, True], ids=["", "presenter"])
def test_every_lab_takes_every_size(tab, presenter, alone):
    """Bokeh and Panel refuse a size below 0, and a plot 0 px wide draws nothing."""
    view = tab.lab_view
    view.alone = alone
    view.fit(view.size, False, presenter)
    titles = getattr(view, "views", {"": None})
    for title in titles:
        if title:
            view.show_view(title)
        for where, room in rooms().items():
            view.resize(*room)
            assert not sizes_below_0(tab), (title, where, room)


def test_the_plot_keeps_a_room_that_can_be_seen(tab):
    """Even in the smallest view, each lab draws its main picture, at least as large as can be read."""
    tab.lab_view.alone = False
    tab.lab_view.fit(tab.lab_view.size, False, False)
    if hasattr(tab.lab_view, "views"):
        tab.lab_view.show_view("Crossover")
    tab.lab_view.resize(*LEAST_VIEW)
    shown = [pane.object for pane in tab.lab_view.panel.select(pn.pane.Bokeh) if pane.visible]
    assert max(plot.height for plot in shown if plot.visible) >= 120
