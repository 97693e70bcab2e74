"""One linked view as a figure: its lines, the rules' λ as thin lines, and the picked λ as a dashed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

import holoviews as hv
import numpy as np
from bokeh.document import Document
from bokeh.models import BasicTicker, CustomJSTickFormatter, Range1d, Span
from numpy.typing import NDArray

from app.labs.l_curve.linked import Pointer, draw_linked
from app.labs.l_curve.views import View
from app.labs.l_curve.words import Strength, hue
from app.log_axis import LogWindow
from app.plot_type import SHORT_NUMBER, set_type
from app.theme import colours
from compute.frames import Frame

Vector = NDArray[np.float64]

AROUND = {False: (68, 56), True: (88, 72)}  # px left of and below the plot itself
TICK = {False: 52, True: 72}  # px of an axis that a power of ten needs
TALL = 28  # px of height that a tick needs
MARGIN = 0.06  # of a linear ordinate, left free above and below
DEEPEST, HIGHEST = 17, 6  # decades below and above the largest value of the first line that count: beyond is rounding
HUES = ("accent", "gpu", "muted")


class ViewPlot:
    """A figure for `view`; picked(λ) hears of taps and drags on it, where they mean a λ."""

    def __init__(self, name: str, view: View, document: Document, picked: Callable[[float], None]) -> None:
        self.name, self.view, self._picked = name, view, picked
        self.strength = Strength()
        element = self._element()
        self._pointer = Pointer(element, document, self._pointed)
        self._plot, self.figure = draw_linked(element, document, f"{name} view")
        *lines, self._rules = self.figure.renderers
        self.lines = dict(zip(view.curves, lines, strict=True))
        for key, renderer in self.lines.items():
            renderer.data_source.name = f"{name} {key}"
            renderer.visible = False  # until a frame brings its data
        self._rules.visible = False
        self._by_lambda = view.over == "λ"
        self.x = LogWindow(self.figure.x_range, self.figure.xaxis[0], 4) if self._by_lambda else None
        self.y = LogWindow(self.figure.y_range, self.figure.yaxis[0], 4) if view.log else None
        self._finish()
        self.dress(dark=False, presenter=False)

    def _element(self) -> hv.Overlay:
        view, ends = self.view, np.array([1.0, 10.0])
        x_label = self.strength.label if view.over == "λ" else view.over
        lines = [
            (hv.Scatter if name in view.points else hv.Curve)((ends, ends), "x", "y", label=label)
            for name, label in view.curves.items()
        ]
        options: dict[str, object] = {"xlabel": x_label, "ylabel": view.y_label, "toolbar": None, "default_tools": []}
        legend = {"show_legend": len(lines) > 1, "legend_position": view.legend}
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
        for legend in plot.legend:
            legend.update(background_fill_alpha=0.8, border_line_alpha=0, padding=2, spacing=0, glyph_width=16)
        for key, renderer in self.lines.items():
            if key in self.view.points:
                renderer.glyph.size = 5

    # -- looks

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        scheme = colours(dark)
        self._dark, self._presenter = dark, presenter
        for renderer, name in zip(self.lines.values(), HUES, strict=False):
            renderer.glyph.line_color = scheme[name]
            if "fill_color" in renderer.glyph.properties():
                renderer.glyph.fill_color = scheme[name]
            else:
                renderer.glyph.line_width = 3 if presenter else 2.5
        self._rules.glyph.update(line_width=2, line_alpha=0.9)
        self.hair.update(line_color=scheme["ink"], line_alpha=0.8)
        self.figure.update(min_border_left=AROUND[presenter][0], min_border_bottom=AROUND[presenter][1])
        set_type(self.figure, presenter)

    def count_by(self, strength: Strength) -> None:
        """Write λ or α on the abscissa."""
        self.strength = strength
        if self.x is not None:
            self.x.forget()
            self.figure.xaxis.axis_label = strength.label

    def resize(self, width: int, height: int) -> None:
        """Take that many px in all."""
        self.figure.update(width=width, height=height)
        left, below = AROUND[self._presenter]
        if self.x is not None:
            self.x.ticks(max(2, (width - left) // TICK[self._presenter]))
        if self.y is not None:
            self.y.ticks(max(2, (height - below) // TALL))

    # -- frames

    def forget(self) -> None:
        """Another problem: its axes have nothing to do with the last one's."""
        for window in (self.x, self.y):
            if window is not None:
                window.forget()

    def show(self, frame: Frame) -> bool:
        """Draw the frame's lines; False if it has none of those that this view is about."""
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
            renderer.data_source.data = {renderer.glyph.x: x, renderer.glyph.y: y}
        return True

    def _usable(self, x: Vector, y: Vector) -> tuple[Vector, Vector]:
        """On the abscissa's scale, and NaN, a gap, where a logarithmic ordinate can show nothing."""
        y = np.where(np.isfinite(y) & (y > 0), y, np.nan) if self.view.log else np.asarray(y)
        return (self.strength.of(x) if self._by_lambda else x), y

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
        """Mark the picked λ: on the abscissa, or among singular values on the ordinate."""
        known = lam is not None and lam > 0 and self.view.over != "step"
        self.hair.visible = known
        if known and lam is not None:
            self.hair.location = self.strength.of(lam) if self._by_lambda else lam

    def mark_rules(self, lambdas: Mapping[str, float]) -> None:
        """Draw the rules' λ, those that this view is about."""
        known = [rule for rule in self.view.rules if isfinite(lambdas.get(rule, np.nan))]
        column = next(iter(self._rules.data_source.data))
        places = [self.strength.of(lambdas[rule]) for rule in known] if self._by_lambda else []
        hues = [hue(rule, self._dark) for rule in known] if self._by_lambda else []
        self._rules.data_source.data = {column: places, "hue": hues}
        self._rules.glyph.line_color = "hue"
        self._rules.visible = True

    def _pointed(self, x: float, y: float) -> None:
        if self._by_lambda and x > 0:
            self._picked(self.strength.back(x))
        elif self.view.over == "i" and y > 0:
            self._picked(y)
