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

# Models of one lab's tab when it opens, some 10 % above the present number: each costs time in every message.
MOST = {"diffusion": 266, "mandelbrot": 202, "l_curve": 305, "crossover": 212, "equations": 260}
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


def test_equal_models_are_shared_and_unused_ones_removed_unless_they_have_state_or_can_be_used(plot):
    other = figure(title="Field", tools=[TapTool(), BoxZoomTool()])
    line = other.line([0, 1], [0, 1], muted_alpha=0.1, legend_label="line")
    other.legend.click_policy = "mute"
    for axis in plot.axis:
        axis.js_on_change("axis_label", CustomJS(code="same"))
        axis.js_on_change("visible", CustomJS(args={"mine": axis}, code="of one axis"))
    plot.ygrid.visible = False
    lighten([plot, other])
    source = plot.renderers[0].data_source
    assert plot.x_scale is other.y_scale
    assert source.selection_policy is line.data_source.selection_policy
    assert source.selected is not line.data_source.selected  # a selection is state
    callbacks = [axis.js_property_callbacks for axis in plot.axis]
    assert callbacks[0]["change:axis_label"][0] is callbacks[1]["change:axis_label"][0]
    assert [each["change:visible"][0].args["mine"] for each in callbacks] == list(plot.axis)
    assert (plot.title, plot.renderers[0].nonselection_glyph) == (None, None)
    assert [part.dimension for part in plot.center if isinstance(part, Grid)] == [0]
    assert [type(tool) for tool in plot.toolbar.tools] == [PanTool]
    assert (other.title.text, len(other.toolbar.tools)) == ("Field", 2)
    assert line.nonselection_glyph is not None
    assert line.muted_glyph is not None


@pytest.mark.parametrize("other", [{"x": [0.0, 2.0]}, {"x": [0.0]}, {"z": [0.0, np.nan]}, {"x": [0.0, "1"]}])
def test_columns_are_sent_only_if_they_have_changed(other):
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


def test_columns_forged_by_a_browser_are_overwritten():
    source = ColumnDataSource({"x": [[1.0], [2.0, 3.0]]})
    rewrite(source, {"x": np.array([1.0])})
    assert source.data["x"].tolist() == [1.0]
