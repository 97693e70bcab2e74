"""Curves: HoloViews draws each plot once, then its Bokeh sources are written (20 ms a redraw against 2 ms a write)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.models import BasicTicker, ColumnDataSource, CustomJSTickFormatter
from bokeh.plotting import figure
from numpy.typing import NDArray

from app.plot_type import SHORT_NUMBER, keep_type
from app.theme import colours

hv.extension("bokeh")
hv.renderer("bokeh").webgl = False  # streamed curves are short, and canvas starts faster

SLACK = 0.08  # part of the span left free above and below a curve
SHRINK = 0.5  # the axis tightens once the curve fills less than this part of it
Line = tuple[NDArray[np.float64], NDArray[np.float64]]


def draw(element: hv.Element) -> figure:
    """`element` as a bokeh figure of its own.

    HoloViews ties what it draws to a document, by default the process-wide one, which never lets it go.
    """
    plot = hv.renderer("bokeh").get_plot(element)
    plot.document = None
    return plot.state


class CurvePlot:
    """One or two lines over a common abscissa, with axes that follow without twitching."""

    def __init__(self, x_label: str, y_label: str, names: Sequence[str]) -> None:
        styles: tuple[dict[str, Any], ...] = ({"line_width": 2.5}, {"line_width": 2, "line_dash": "dashed"})
        lines = [
            hv.Curve(([0.0, 1.0], [0.0, 1.0]), x_label, y_label, label=name).opts(**style)
            for name, style in zip(names, styles, strict=False)
        ]
        overlay = hv.Overlay(lines).opts(
            title="", toolbar=None, default_tools=[], show_legend=len(names) > 1, legend_position="top_right"
        )
        self.figure = draw(overlay)
        self.figure.update(sizing_mode="stretch_width", height=180, min_border_left=64, min_border_right=16)
        self.figure.toolbar.logo = None
        self.figure.xgrid.visible = False
        self.figure.outline_line_color = None
        self.figure.xaxis.ticker = BasicTicker(desired_num_ticks=4)
        self.figure.yaxis.ticker = BasicTicker(desired_num_ticks=4)
        self.figure.axis.formatter = CustomJSTickFormatter(code=SHORT_NUMBER)
        keep_type(self.figure)
        self.sources: list[ColumnDataSource] = [renderer.data_source for renderer in self.figure.renderers]
        self._columns = [(renderer.glyph.x, renderer.glyph.y) for renderer in self.figure.renderers]
        self._renderers = self.figure.renderers

        self.set_theme(dark=False)

    def set_theme(self, dark: bool) -> None:
        """Colour the lines for the light or the dark scheme."""
        scheme = colours(dark)
        for renderer, name in zip(self._renderers, ("accent", "gpu"), strict=False):
            renderer.glyph.line_color = scheme[name]

    def show(self, lines: Sequence[Line | None]) -> None:
        """Draw `lines`, one for each name; None hides it. Values that are not finite leave gaps."""
        drawn = []
        for source, (x, y), renderer, line in zip(self.sources, self._columns, self._renderers, lines, strict=True):
            renderer.visible = line is not None
            if line is not None:
                source.data = {x: line[0], y: line[1]}
                drawn.append(line)
        if self.figure.legend:
            self.figure.legend.visible = len(drawn) > 1
        if drawn:
            self._fit(drawn)

    def _fit(self, lines: Sequence[Line]) -> None:
        x = np.concatenate([line[0] for line in lines])
        y = np.concatenate([line[1] for line in lines])
        y = y[np.isfinite(y)]
        if x.size:
            self.figure.x_range.update(start=float(x.min()), end=float(max(x.max(), x.min() + 1)))
        if not y.size:
            return
        low, high = float(y.min()), float(y.max())
        span = high - low or abs(high) or 1.0
        axis = self.figure.y_range
        if low < axis.start or high > axis.end or high - low < SHRINK * (axis.end - axis.start):
            axis.update(start=low - SLACK * span, end=high + SLACK * span)
