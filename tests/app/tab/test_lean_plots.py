"""Plots share equal models, drop parts that are never visible, and keep parts that a user can operate."""

from __future__ import annotations

import numpy as np
import panel as pn
import pytest
from bokeh.document import Document
from bokeh.models import BoxZoomTool, ColumnDataSource, CustomJS, Grid, PanTool, TapTool
from bokeh.plotting import figure

from app.tab.lab_tab import LabTab
from app.tab.lean_plots import lighten, rewrite
from compute.labs import LABS

# Of one lab's tab when it opens, without the page around it: some 10 % above the present number. An additional model
# costs time in each message, in each tab, as long as the tab is open.
MOST = {"diffusion": 226, "mandelbrot": 202, "l_curve": 279, "crossover": 212}
MOST_OF_ANOTHER = 300


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_a_tab_has_no_more_models_than_it_needs(lab):
    document = Document()
    tab = LabTab(lab, document, (1280, 720))
    root = pn.Column(*tab.main, tab.controls.panel, *tab.readout.panel).get_root(document)
    kinds = [type(model).__name__ for model in root.references()]
    most = MOST.get(lab.LAB, MOST_OF_ANOTHER)
    assert len(kinds) <= most, {kind: kinds.count(kind) for kind in sorted(set(kinds), key=kinds.count)}


@pytest.fixture
def plot():
    made = figure(tools=[PanTool(), BoxZoomTool()], toolbar_location=None)
    made.line([0, 1], [0, 1])
    return made


def test_what_is_alike_and_holds_no_state_is_one_model(plot):
    other = figure(toolbar_location=None)
    other.scatter([0], [0])
    lighten([plot, other])
    policies = {axis.major_label_policy for one in (plot, other) for axis in one.axis}
    assert len(policies) == 1
    assert plot.x_scale is other.y_scale
    assert plot.renderers[0].data_source.selection_policy is other.renderers[0].data_source.selection_policy
    assert plot.renderers[0].data_source.selected is not other.renderers[0].data_source.selected  # a selection is state


def test_callbacks_are_shared_if_they_do_the_same_to_the_same(plot):
    for axis in plot.axis:
        axis.js_on_change("axis_label", CustomJS(code="same"))
        axis.js_on_change("visible", CustomJS(args={"mine": axis}, code="of one axis"))
    lighten([plot])
    x, y = (axis.js_property_callbacks for axis in plot.axis)
    assert x["change:axis_label"][0] is y["change:axis_label"][0]
    assert [call["change:visible"][0].args["mine"] for call in (x, y)] == list(plot.axis)


def test_what_nobody_sees_goes(plot):
    plot.ygrid.visible = False
    lighten([plot])
    assert [part.dimension for part in plot.center if isinstance(part, Grid)] == [0]
    assert plot.title is None
    assert [type(tool) for tool in plot.toolbar.tools] == [PanTool]
    assert plot.renderers[0].nonselection_glyph is None


def test_what_can_be_used_stays():
    plot = figure(title="Field", tools=[TapTool(), BoxZoomTool()])
    line = plot.line([0, 1], [0, 1], muted_alpha=0.1, legend_label="line")
    plot.legend.click_policy = "mute"
    lighten([plot])
    assert plot.title.text == "Field"
    assert len(plot.toolbar.tools) == 2
    assert line.nonselection_glyph is not None
    assert line.muted_glyph is not None


@pytest.mark.parametrize("other", [{"x": [0.0, 2.0]}, {"x": [0.0]}, {"z": [0.0, np.nan]}, {"x": [0.0, "1"]}])
def test_columns_are_sent_if_they_are_others(other):
    """In a source that no plot shows, as in a document."""
    source, changes = ColumnDataSource({}), []
    source.on_change("data", lambda _attr, _old, new: changes.append(new))
    column = np.array([0.0, np.nan])
    rewrite(source, {"x": column})
    rewrite(source, {"x": column.copy()})
    assert len(changes) == 1
    column[0] = 5.0  # the array's owner reuses it
    rewrite(source, {"x": column})
    assert len(changes) == 2
    rewrite(source, other)
    assert len(changes) == 3


def test_what_no_plot_has_is_written_over():
    """A browser may write columns of its page; this used to raise an exception for each frame."""
    source = ColumnDataSource({"x": [[1.0], [2.0, 3.0]]})
    rewrite(source, {"x": np.array([1.0])})
    assert source.data["x"].tolist() == [1.0]
