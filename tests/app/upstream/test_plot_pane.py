"""A plot handles pointer events after its pane was removed from a page and added again."""

from __future__ import annotations

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.events import Tap
from bokeh.plotting import figure

from app.upstream.plot_pane import PlotPane


@pytest.mark.parametrize("times", [0, 1, 3])
def test_callbacks_survive_a_change_of_tab(times):
    plot, heard, document = figure(x_range=(0, 1)), [], Document()
    plot.on_event(Tap, lambda event: heard.append(event.x))
    plot.on_change("tags", lambda attr, old, new: heard.append(new))
    pane = PlotPane(plot)
    column = pn.Column(pane, pn.pane.Str("other"))
    column.server_doc(document)
    for _ in range(times):
        column.objects = [pn.pane.Str("another")]
        assert plot.document is None
        column.objects = [pane]
    assert plot.document is document
    document.callbacks.trigger_event(Tap(plot, x=0.25))
    plot.tags = ["changed"]
    assert heard == [0.25, ["changed"]]


def test_panels_own_pane_still_loses_the_callbacks():
    """The reason for PlotPane; once this test fails, pn.pane.Bokeh can be used again."""
    plot, heard, document = figure(), [], Document()
    plot.on_event(Tap, heard.append)
    pane = pn.pane.Bokeh(plot)
    column = pn.Column(pane)
    column.server_doc(document)
    column.clear()
    column.append(pane)
    document.callbacks.trigger_event(Tap(plot, x=0.25))
    assert heard == []
