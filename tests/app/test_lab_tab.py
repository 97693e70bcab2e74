"""A lab's tab follows the page's scheme, also one that was chosen before its plots were drawn."""

from __future__ import annotations

import panel as pn
import pytest
from bokeh.document import Document

from app.lab_tab import LabTab
from app.theme import DARK, LIGHT
from compute.labs import LABS


def ink(tab: LabTab) -> str:
    """The colour in which a tab marks a place in its main plot."""
    plot = tab.lab_view.plot
    return (plot.span if tab.session.lab.LAB == "crossover" else plot.ring.glyph).line_color


def pass_time(document: Document) -> None:
    """Run what was put off until the document's next tick, and what that puts off."""
    while later := [call for call in document.session_callbacks if type(call).__name__ == "NextTickCallback"]:
        for call in later:
            document.callbacks.remove_session_callback(call)
            call.callback()


@pytest.mark.parametrize("name", ["crossover", "l_curve"])
def test_a_scheme_chosen_before_the_plots_are_drawn_colours_them_once_they_are(name):
    (lab,) = (lab for lab in LABS if name == lab.LAB)
    tab = LabTab(lab, Document(), (1280, 720))
    tab.set_theme(True, False)
    pass_time(tab.session.document)
    assert ink(tab) == LIGHT["ink"]  # changing a plot before the browser has drawn it is an error there
    for pane in tab.lab_view.panel.select(pn.pane.Bokeh):
        pane.object.trigger("inner_width", 0, 600)
    pass_time(tab.session.document)
    assert tab.drawn
    assert ink(tab) == DARK["ink"]
