"""Plots of as few models as their pictures need: what a document costs grows with the number of its models.

Bokeh and HoloViews give each axis, line and source helpers of its own that are all alike and hold no state, and each
line copies for when something is selected. `lighten` lets the plots of a tab share the former and drops the latter.
`rewrite` sends a source's columns when they are others than before: a browser paints a plot anew for whatever is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from bokeh.model import Model
from bokeh.models import (
    AllIndices,
    AllLabels,
    Axis,
    BasicTicker,
    BoxSelectTool,
    BoxZoomTool,
    CDSView,
    ColorBar,
    ColumnDataSource,
    CustomJS,
    CustomJSTickFormatter,
    GlyphRenderer,
    Grid,
    LassoSelectTool,
    LinearScale,
    LogScale,
    LogTicker,
    NoOverlap,
    PolySelectTool,
    ResetTool,
    SaveTool,
    TapTool,
    UnionRenderers,
)
from bokeh.plotting import figure

ALIKE = (  # none of them has a state, and nobody here changes one that a plot has
    *(AllIndices, AllLabels, BasicTicker, CustomJS, CustomJSTickFormatter, LinearScale, LogScale, LogTicker),
    *(NoOverlap, UnionRenderers),
)
_LABELS = ("ticker", "formatter", "major_label_policy")
PLACES: dict[type[Model], tuple[str, ...]] = {  # where a plot has them
    Axis: _LABELS,
    ColorBar: _LABELS,
    Grid: ("ticker",),
    CDSView: ("filter",),
    ColumnDataSource: ("selection_policy",),
    figure: ("x_scale", "y_scale"),
}
PRESSED = (BoxZoomTool, ResetTool, SaveTool)  # tools that do something only once a button of the toolbar was pressed
SELECTING = (BoxSelectTool, LassoSelectTool, PolySelectTool, TapTool)


def lighten(plots: Iterable[figure]) -> None:
    """Take from finished `plots` what nobody can see or use, and let them share what is alike in them."""
    kept: dict[tuple[type[Model], str], Model] = {}
    for plot in plots:
        _strip(plot)
        _share(plot, kept)


def rewrite(source: ColumnDataSource, columns: Mapping[str, Any]) -> None:
    """Give `source` copies of these columns, which may go on to change, if any of them is another one than it has."""
    before = source.data
    if before.keys() == columns.keys() and all(_equal(before[name], column) for name, column in columns.items()):
        return
    source.data = {name: np.array(one) if isinstance(one, np.ndarray) else one for name, one in columns.items()}


def _equal(one: Any, other: Any) -> bool:
    """Whether two columns hold the same; a gap, NaN, is like another."""
    try:
        a, b = np.asarray(one), np.asarray(other)
    except ValueError:  # lists of different lengths, which no plot of ours has, but a browser may have written
        return False
    gaps = a.dtype.kind == b.dtype.kind == "f"
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=gaps)


def _strip(plot: figure) -> None:
    """Drop hidden grids, an empty title, the tools of a toolbar that is not shown, glyphs of what is not selected."""
    plot.center = [part for part in plot.center if not isinstance(part, Grid) or part.visible]
    if plot.title is not None and not plot.title.text:
        plot.title = None
    if plot.toolbar_location is None:
        plot.toolbar.tools = [tool for tool in plot.toolbar.tools if not isinstance(tool, PRESSED)]
    if any(isinstance(tool, SELECTING) for tool in plot.toolbar.tools):
        return
    mutes = any(legend.click_policy == "mute" for legend in plot.legend)
    for renderer in plot.renderers:
        if isinstance(renderer, GlyphRenderer):
            renderer.nonselection_glyph = None
            renderer.muted_glyph = renderer.muted_glyph if mutes else None


def _share(plot: figure, kept: dict[tuple[type[Model], str], Model]) -> None:
    """Put the model that was met first in the place of those like it; `kept` has those of the tab so far."""

    def first(value: Any) -> Any:
        """The model to use for `value`; other values as they are."""
        if not isinstance(value, ALIKE):
            return value
        key = type(value), repr(sorted(value.properties_with_values(include_defaults=False).items()))
        return kept.setdefault(key, value)

    for model in plot.references():
        for name in next((names for kind, names in PLACES.items() if isinstance(model, kind)), ()):
            setattr(model, name, first(getattr(model, name)))
        if model.js_property_callbacks:
            model.js_property_callbacks = _shared(model.js_property_callbacks, first)


def _shared(callbacks: Mapping[str, Iterable[Any]], first: Any) -> dict[str, list[Any]]:
    return {event: [first(call) for call in calls] for event, calls in callbacks.items()}
