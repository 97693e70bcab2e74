"""Plots with few models, because the cost of a document grows with the number of its models.

Bokeh and HoloViews create separate, identical, stateless helpers for each axis, line and source, and for each line
extra glyphs for selections. `lighten` makes the plots of a tab share the helpers and removes the extra glyphs.
`rewrite` sends a source's columns only if they have changed: a browser repaints a plot after every message.
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

ALIKE = (  # they have no state, and this project changes none of them after a plot has it
    *(AllIndices, AllLabels, BasicTicker, CustomJS, CustomJSTickFormatter, LinearScale, LogScale, LogTicker),
    *(NoOverlap, UnionRenderers),
)
_LABELS = ("ticker", "formatter", "major_label_policy")
PLACES: dict[type[Model], tuple[str, ...]] = {  # properties that refer to them
    Axis: _LABELS,
    ColorBar: _LABELS,
    Grid: ("ticker",),
    CDSView: ("filter",),
    ColumnDataSource: ("selection_policy",),
    figure: ("x_scale", "y_scale"),
}
PRESSED = (BoxZoomTool, ResetTool, SaveTool)  # tools that act only after a button of the toolbar was pressed
SELECTING = (BoxSelectTool, LassoSelectTool, PolySelectTool, TapTool)


def lighten(plots: Iterable[figure]) -> None:
    """Remove invisible and unused models from finished `plots`, and share identical ones between them."""
    kept: dict[tuple[type[Model], str], Model] = {}
    for plot in plots:
        _strip(plot)
        _share(plot, kept)


def rewrite(source: ColumnDataSource, columns: Mapping[str, Any]) -> None:
    """Set copies of `columns` on `source` if any of them has changed; the caller may modify its arrays afterwards."""
    before = source.data
    if before.keys() == columns.keys() and all(_equal(before[name], column) for name, column in columns.items()):
        return
    source.data = {name: np.array(one) if isinstance(one, np.ndarray) else one for name, one in columns.items()}


def _equal(one: Any, other: Any) -> bool:
    """Return True if two columns are equal; NaN, a gap, equals NaN."""
    try:
        a, b = np.asarray(one), np.asarray(other)
    except ValueError:  # ragged lists: no plot here has any, but a browser may have written one
        return False
    gaps = a.dtype.kind == b.dtype.kind == "f"
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=gaps)


def _strip(plot: figure) -> None:
    """Remove hidden grids, empty titles, the tools of a hidden toolbar, and glyphs for unselected and muted data."""
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
    """Replace each shareable model by the first identical one; `kept` collects the models of the tab."""

    def first(value: Any) -> Any:
        """Return the model to use for `value`; other values are returned unchanged."""
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
