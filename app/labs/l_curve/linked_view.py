"""A small plot linked to the L-curve: all plots share one picked λ, which each can set.

HoloViews draws each plot once and reports taps and drags as streams. Changes by a frame or a pick are written into the
existing Bokeh sources, ten times as fast as a redraw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.document import Document
from bokeh.io import doc as current_document
from bokeh.models import BasicTicker, CustomJSTickFormatter, Range1d, Span
from bokeh.plotting import figure
from holoviews.streams import Draw, SingleTap
from numpy.typing import NDArray

from app.labs.l_curve.labels import LambdaNotation, rule_hue
from app.page.theme import SHORT_NUMBER, colours, keep_type, set_type
from app.tab.curve_plots import LogWindow, lay_legends_flat
from app.tab.lean_plots import rewrite
from compute.lab.frames import Frame

hv.extension("bokeh")
hv.renderer("bokeh").webgl = False


class PlotPointer:
    """Reports taps and drags on one plot as data coordinates (x, y).

    Only the latest position in each turn of the document's event loop is reported. HoloViews triggers its streams
    without the document's lock, and stops after an exception in a subscriber.
    """

    def __init__(self, element: hv.Element, document: Document, pointed: Callable[[float, float], None]) -> None:
        self._document, self._pointed = document, pointed
        self._place: tuple[float, float] | None = None
        self.streams = [SingleTap(source=element), Draw(source=element)]
        for stream in self.streams:
            stream.add_subscriber(self._on_stream)

    def _on_stream(self, x: Any = None, y: Any = None, **more: Any) -> None:
        if x is not None and y is not None and isfinite(x) and isfinite(y):
            if self._place is None:
                self._document.add_next_tick_callback(self._pass_on)
            self._place = float(x), float(y)

    def _pass_on(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            self._pointed(*place)


def draw_linked(element: hv.Element, document: Document, name: str) -> tuple[Any, figure]:
    """Return (HoloViews plot, Bokeh figure) of `element`; its streams are removed when `document`'s session ends."""
    with current_document.patch_curdoc(document):  # HoloViews uses the current document regardless of `doc`
        plot = hv.renderer("bokeh").get_plot(element)
    document.on_session_destroyed(lambda session_context: plot.cleanup())  # otherwise HoloViews keeps it forever
    drawn = plot.state
    drawn.update(name=name, title=None, outline_line_color=None, sizing_mode="fixed", output_backend="canvas")
    drawn.update(min_border_right=16, min_border_top=8)
    drawn.toolbar.update(tools=[], logo=None)
    drawn.toolbar_location = None
    for axis in drawn.axis:
        axis.update(minor_tick_line_color=None, axis_label_text_font_style="normal")
    keep_type(drawn)
    return plot, drawn


Vector = NDArray[np.float64]

SPECTRUM = "Picard's plot needs all singular values, which are worked out up to about 400 rows or columns."
TRUTH = "No true solution is known for this problem."


@dataclass(frozen=True)
class LinkedView:
    """Definition of one small plot.

    title, y_label: text; curves: names of a frame's curves -> labels; over: quantity of the x axis, "λ", "i" or "step";
    points: curves drawn as points; log: whether the y axis is logarithmic; rules: rules with a marked λ; absent: remark
    if a frame lacks one of the curves.
    """

    title: str
    y_label: str
    curves: Mapping[str, str]
    over: str = "λ"
    points: tuple[str, ...] = ()
    log: bool = True
    rules: tuple[str, ...] = ()
    absent: str = ""

    def lines(self, frame: Frame) -> dict[str, tuple[Vector, Vector]]:
        """Return name -> (x, y), float64 vectors, of the curves that the frame contains."""
        known = {name: frame.curves.get(name) for name in self.curves}
        return {name: (curve.x, curve.y) for name, curve in known.items() if curve is not None}


VIEWS: Mapping[str, LinkedView] = {
    "curvature": LinkedView(
        "Curvature", "curvature κ", {"curvature": "κ"}, log=False, rules=("curvature", "pruning", "triangle")
    ),
    "gcv": LinkedView("GCV", "GCV(λ)", {"gcv": "GCV", "weighted-gcv": "weighted"}, rules=("gcv", "weighted_gcv")),
    "picard": LinkedView(
        "Picard",
        "size",
        {"singular": "σᵢ", "picard-coefficients": "|uᵢᵀb|", "picard-ratio": "|uᵢᵀb| / σᵢ"},
        over="i",
        points=("picard-coefficients", "picard-ratio"),
        absent=SPECTRUM,
    ),
    "singular": LinkedView("Singular values", "σᵢ", {"singular": "σᵢ"}, over="i", points=("singular",)),
    "error": LinkedView(
        "Error",
        "‖x − true‖ / ‖true‖",
        {"error": "error"},
        rules=("curvature", "gcv", "discrepancy", "quasi_optimality", "ncp"),
        absent=TRUTH,
    ),
    "quasi": LinkedView(
        "Quasi-optimality", "|λ dx/dλ|", {"quasi-optimality": "|λ dx/dλ|"}, rules=("quasi_optimality",)
    ),
    "ribbon": LinkedView("Ribbon", "widest ribbon", {"history": "widest ribbon"}, over="step", points=("history",)),
}

AROUND = {False: (68, 56), True: (88, 72)}  # px left of and below the axes
TICK = {False: 52, True: 72}  # px of an axis per power of ten
TALL = 28  # px of height per tick
MARGIN = 0.06  # fraction of a linear y axis left free above and below
DEEPEST, HIGHEST = 17, 6  # decades below and above the first line's maximum; beyond are rounding errors
LINE_COLOURS = ("accent", "gpu", "muted")


class LinkedPlot:
    """A figure for `view`; picked(λ) is called for taps and drags at positions that define a λ."""

    def __init__(self, name: str, view: LinkedView, document: Document, picked: Callable[[float], None]) -> None:
        self.name, self.view, self._picked = name, view, picked
        self.notation = LambdaNotation()
        element = self._element()
        self._pointer = PlotPointer(element, document, self._pointed)
        self._plot, self.figure = draw_linked(element, document, f"{name} view")
        *lines, self._rules = self.figure.renderers
        self.lines = dict(zip(view.curves, lines, strict=True))
        for key, renderer in self.lines.items():
            renderer.data_source.name = f"{name} {key}"
            renderer.visible = False  # until the first frame with its data
        self._rules.visible = False
        self._by_lambda = view.over == "λ"
        self.x = LogWindow(self.figure.x_range, self.figure.xaxis[0], 4) if self._by_lambda else None
        self.y = LogWindow(self.figure.y_range, self.figure.yaxis[0], 4) if view.log else None
        self._finish()
        self.set_theme(dark=False, presenter=False)

    def _element(self) -> hv.Overlay:
        view, ends = self.view, np.array([1.0, 10.0])
        x_label = self.notation.label if view.over == "λ" else view.over
        lines = [
            (hv.Scatter if name in view.points else hv.Curve)((ends, ends), "x", "y", label=label)
            for name, label in view.curves.items()
        ]
        options: dict[str, object] = {"xlabel": x_label, "ylabel": view.y_label, "toolbar": None, "default_tools": []}
        legend = {"show_legend": len(lines) > 1, "legend_position": "top"}
        return hv.Overlay([*lines, hv.VLines(ends, "x")]).opts(
            logx=view.over == "λ", logy=view.log, **options, **legend
        )

    def _finish(self) -> None:
        plot = self.figure
        way = {"λ": "height", "i": "width"}.get(self.view.over)
        self.hair = Span(dimension=way or "height", location=1.0, line_width=2, line_dash="dashed", visible=False)
        plot.add_layout(self.hair)
        if self.x is None:
            plot.x_range = Range1d(0, 1)
            plot.xaxis.ticker = BasicTicker(desired_num_ticks=4)
        if self.y is None:
            plot.yaxis.ticker = BasicTicker(desired_num_ticks=4)
            plot.yaxis.formatter = CustomJSTickFormatter(code=SHORT_NUMBER)
        lay_legends_flat(plot)
        for key, renderer in self.lines.items():
            if key in self.view.points:
                renderer.glyph.size = 5

    # -- theme

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size."""
        scheme = colours(dark)
        self._dark, self._presenter = dark, presenter
        for renderer, name in zip(self.lines.values(), LINE_COLOURS, strict=False):
            renderer.glyph.line_color = scheme[name]
            if "fill_color" in renderer.glyph.properties():
                renderer.glyph.fill_color = scheme[name]
            else:
                renderer.glyph.line_width = 3 if presenter else 2.5
        self._rules.glyph.update(line_width=2, line_alpha=0.9)
        self.hair.update(line_color=scheme["ink"], line_alpha=0.8)
        self.figure.update(min_border_left=AROUND[presenter][0], min_border_bottom=AROUND[presenter][1])
        set_type(self.figure, presenter)

    def set_notation(self, notation: LambdaNotation) -> None:
        """Write λ or α on the x axis."""
        self.notation = notation
        if self.x is not None:
            self.x.forget()
            self.figure.xaxis.axis_label = notation.label

    def resize(self, width: int, height: int) -> None:
        """Set the outer size in px."""
        self.figure.update(width=width, height=height)
        left, below = AROUND[self._presenter]
        if self.x is not None:
            self.x.ticks(max(2, (width - left) // TICK[self._presenter]))
        if self.y is not None:
            self.y.ticks(max(2, (height - below) // TALL))

    # -- frames

    def forget(self) -> None:
        """Reset the axes; called when the problem changes."""
        for window in (self.x, self.y):
            if window is not None:
                window.forget()

    def show(self, frame: Frame) -> bool:
        """Draw the frame's lines; return False if it lacks any of the view's curves."""
        lines = self.view.lines(frame)
        complete = len(lines) == len(self.view.curves)
        for renderer in self.lines.values():
            renderer.visible = complete
        if not complete:
            return False
        drawn = {key: self._usable(*line) for key, line in lines.items()}
        self._fit(drawn)
        for key, (x, y) in drawn.items():
            renderer = self.lines[key]
            rewrite(renderer.data_source, {renderer.glyph.x: x, renderer.glyph.y: y})
        return True

    def _usable(self, x: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Return x in the notation of the axis, and y with NaN (a gap) for values that a log axis cannot show."""
        y = np.where(np.isfinite(y) & (y > 0), y, np.nan) if self.view.log else np.asarray(y)
        return (self.notation.of(x) if self._by_lambda else x), y

    def _fit(self, drawn: Mapping[str, tuple[Vector, Vector]]) -> None:
        x = np.concatenate([line[0] for line in drawn.values()])
        y = np.concatenate([line[1] for line in drawn.values()])
        y = y[np.isfinite(y)]
        if self.x is not None:
            self.x.fit(x)
        elif x.size:
            self.figure.x_range.update(start=float(x.min()) - 0.5, end=float(max(x.max(), x.min() + 1)) + 0.5)
        if not y.size:
            return
        if self.y is not None:
            first = next(iter(drawn.values()))[1]
            top = np.nanmax(first) if np.isfinite(first).any() else y.max()
            self.y.fit(y[(y >= top * 10.0**-DEEPEST) & (y <= top * 10.0**HIGHEST)])
        else:
            slack = MARGIN * (float(y.max() - y.min()) or 1.0)
            self.figure.y_range.update(start=float(y.min()) - slack, end=float(y.max()) + slack)

    def mark(self, lam: float | None) -> None:
        """Mark the picked λ: on the x axis, or among singular values on the y axis."""
        known = lam is not None and lam > 0 and self.view.over != "step"
        self.hair.visible = known
        if known and lam is not None:
            self.hair.location = self.notation.of(lam) if self._by_lambda else lam

    def mark_rules(self, lambdas: Mapping[str, float]) -> None:
        """Draw the λ of the view's rules."""
        known = [rule for rule in self.view.rules if isfinite(lambdas.get(rule, np.nan))]
        column = next(iter(self._rules.data_source.data))
        places = [self.notation.of(lambdas[rule]) for rule in known] if self._by_lambda else []
        hues = [rule_hue(rule, self._dark) for rule in known] if self._by_lambda else []
        rewrite(self._rules.data_source, {column: places, "hue": hues})
        self._rules.glyph.line_color = "hue"
        self._rules.visible = True

    def _pointed(self, x: float, y: float) -> None:
        if self._by_lambda and x > 0:
            self._picked(self.notation.back(x))
        elif self.view.over == "i" and y > 0:
            self._picked(y)
