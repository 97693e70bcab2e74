"""Curves and their legends: no legend covers a curve."""

from __future__ import annotations

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import Legend

from app.labs.l_curve.linked_view import VIEWS, LinkedPlot
from app.tab.curve_plots import CurvePlot


def plots():
    """Return every plot with several curves that the labs draw, by name."""
    made = {
        "two": CurvePlot("place [cells]", "u", ("profile", "exact")),
        "three": CurvePlot("t", "x(t)", ("solution", "true", "kept")),
    }
    line = np.linspace(0.0, 1.0, 20)
    for plot in made.values():
        plot.show([(line, line**power) for power in range(1, len(plot.sources) + 1)])
    several = [name for name, view in VIEWS.items() if len(view.curves) > 1]
    views = {name: LinkedPlot(name, VIEWS[name], Document(), print) for name in several}
    return {name: plot.figure for name, plot in (made | views).items()}


PLOTS = plots()


@pytest.mark.parametrize("name", PLOTS)
def test_a_legend_stands_above_its_plot_in_one_line_of_text(name):
    """Above the plot it is outside the frame of the axes, where no curve can run."""
    plot = PLOTS[name]
    (legend,) = plot.legend
    assert legend in plot.above
    assert not [part for part in plot.center if isinstance(part, Legend)]
    assert legend.visible
    assert legend.orientation == "horizontal"
    assert len(legend.items) > 1


def test_a_legend_names_only_the_lines_that_are_drawn():
    plot = CurvePlot("t", "x(t)", ("solution", "true", "kept"))
    line = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    items = plot.figure.legend[0].items
    for kept in (None, line, None):
        plot.show([line, line, kept])
        assert [item.visible for item in items] == [True, True, kept is not None]
