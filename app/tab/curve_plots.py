"""Curves: lines over a common abscissa, logarithmic axes, and label positions without overlap.

HoloViews draws each plot once; later updates write its Bokeh sources (a redraw takes 20 ms, a write 2 ms). The axis
ranges follow the curves without jitter: a range grows with its curve, and tightens when much of it is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.core.properties import value as fixed
from bokeh.models import BasicTicker, ColumnDataSource, CustomJSTickFormatter, FixedTicker, NoOverlap
from bokeh.plotting import figure
from numpy.typing import NDArray

from app.page.theme import SHORT_NUMBER, colours, keep_type
from app.tab.lean_plots import rewrite

hv.extension("bokeh")
hv.renderer("bokeh").webgl = False  # streamed curves are short, and canvas starts faster

# 10^tick as 0.0316, or 3.16×10⁻⁵ far from 1
FROM_LOG10 = """
const power = Math.floor(tick + 1e-9), mantissa = Number((10 ** (tick - power)).toPrecision(3));
if (power >= -3 && power < 5) return String(Number((10 ** tick).toPrecision(3)));
const raised = String(power).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻');
return mantissa === 1 ? `10${raised}` : `${mantissa}×10${raised}`;
"""
CURVE_SLACK = 0.08  # share of the span left free above and below a curve
CURVE_SHRINK = 0.5  # the axis tightens when the curve fills less than this share of it
XY = tuple[NDArray[np.float64], NDArray[np.float64]]


def bokeh_figure(element: hv.Element) -> figure:
    """Return `element` as a Bokeh figure without a document.

    HoloViews assigns each plot a document, by default the process-wide one, which would keep the plot forever.
    """
    plot = hv.renderer("bokeh").get_plot(element)
    plot.document = None
    return plot.state


def lay_legends_flat(plot: figure) -> None:
    """Lay out a legend above its plot, where it hides no curve, in one line of text."""
    for legend in plot.legend:
        legend.update(
            orientation="horizontal", border_line_alpha=0, background_fill_alpha=0, padding=0, margin=0, spacing=12,
            glyph_width=18, label_standoff=4,
        )  # fmt: skip


class CurvePlot:
    """One to three lines over a common abscissa, with axes that follow them without jitter.

    shortest: least span of the abscissa; flat: values whose span is at most this share of the largest magnitude are
    drawn as constant, so that the axis does not magnify rounding.
    """

    def __init__(
        self, x_label: str, y_label: str, names: Sequence[str], shortest: float = 1.0, flat: float = 0.0
    ) -> None:
        self._shortest, self._flat = shortest, flat
        styles: tuple[dict[str, Any], ...] = (
            {"line_width": 2.5}, {"line_width": 2, "line_dash": "dashed"}, {"line_width": 2.5, "line_dash": "dotted"}
        )  # fmt: skip
        lines = [
            hv.Curve(([0.0, 1.0], [0.0, 1.0]), x_label, y_label, label=name).opts(**style)
            for name, style in zip(names, styles, strict=False)
        ]
        overlay = hv.Overlay(lines).opts(
            title="", toolbar=None, default_tools=[], show_legend=len(names) > 1, legend_position="top"
        )
        self.figure = bokeh_figure(overlay)
        self.figure.update(sizing_mode="stretch_width", height=180, min_border_left=64, min_border_right=16)
        self.figure.toolbar.logo = None
        self.figure.xgrid.visible = False
        self.figure.outline_line_color = None
        self.figure.xaxis.ticker = BasicTicker(desired_num_ticks=4)
        self.figure.yaxis.ticker = BasicTicker(desired_num_ticks=4)
        self.figure.xaxis.major_label_policy = NoOverlap(min_distance=8)
        self.figure.axis.formatter = CustomJSTickFormatter(code=SHORT_NUMBER)
        self.figure.axis.axis_label_text_font_style = "normal"
        lay_legends_flat(self.figure)
        keep_type(self.figure)
        self.sources: list[ColumnDataSource] = [renderer.data_source for renderer in self.figure.renderers]
        self._columns = [(renderer.glyph.x, renderer.glyph.y) for renderer in self.figure.renderers]
        self._renderers = self.figure.renderers
        self._items = {item.renderers[0]: item for legend in self.figure.legend for item in legend.items}
        self.set_theme(dark=False)

    def set_theme(self, dark: bool) -> None:
        """Colour the lines for the light or the dark scheme."""
        scheme = colours(dark)
        for renderer, name in zip(self._renderers, ("accent", "gpu", "ink"), strict=False):
            renderer.glyph.line_color = scheme[name]

    def name_axes(self, x: str, y: str) -> None:
        """Set the titles of the axes, with units."""
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = x, y

    def name_lines(self, names: Sequence[str]) -> None:
        """Set the names of the lines in the legend."""
        for renderer, name in zip(self._renderers, names, strict=True):
            if (item := self._items.get(renderer)) is not None and item.label != fixed(name):
                item.label = fixed(name)

    def use_logarithms(self, logarithms: bool) -> None:
        """Label the ordinate for curves of log10 of the values, or for the values."""
        self.figure.yaxis.formatter = CustomJSTickFormatter(code=FROM_LOG10 if logarithms else SHORT_NUMBER)
        self.figure.yaxis[0].ticker.desired_num_ticks = 2 if logarithms else 4

    def show(self, lines: Sequence[XY | None]) -> None:
        """Draw `lines`, one per name; None hides a line. Non-finite values leave gaps."""
        drawn = []
        for source, (x, y), renderer, line in zip(self.sources, self._columns, self._renderers, lines, strict=True):
            renderer.visible = line is not None
            if (item := self._items.get(renderer)) is not None:
                item.visible = renderer.visible
            if line is not None:
                rewrite(source, {x: line[0], y: line[1]})
                drawn.append(line)
        if self.figure.legend:
            self.figure.legend.visible = len(drawn) > 1
        if drawn:
            self._fit(drawn)

    def _fit(self, lines: Sequence[XY]) -> None:
        x = np.concatenate([line[0] for line in lines])
        y = np.concatenate([line[1] for line in lines])
        y = y[np.isfinite(y)]
        if x.size:
            first = float(x.min())
            span = max(float(x.max()) - first, self._shortest) or 1.0
            self.figure.x_range.update(start=first, end=first + span)
        if not y.size:
            return
        low, high = float(y.min()), float(y.max())
        largest = max(abs(low), abs(high)) or 1.0
        constant = high - low <= self._flat * largest
        span = largest if constant else high - low
        filled = 2 * CURVE_SLACK * span if constant else span
        axis = self.figure.y_range
        if low < axis.start or high > axis.end or filled < CURVE_SHRINK * (axis.end - axis.start):
            axis.update(start=low - CURVE_SLACK * span, end=high + CURVE_SLACK * span)


LOG_SLACK, LOG_SHRINK = 0.06, 0.6  # share of the span left free; share below which the axis tightens
LEAST = 0.6  # smallest span in decades
FARTHEST = 30.0  # decades above and below 1; values beyond are not drawn

POWERS = """
const power = Math.log10, raised = (n) => String(n).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻');
const whole = (value) => Math.abs(power(value) - Math.round(power(value))) < 1e-9;
return ticks.every(whole) ? '10' + raised(Math.round(power(tick))) : String(Number(tick.toPrecision(2)));
"""
MINOR = (1.0, 2.0, 5.0)  # mantissas of the ticks on a short axis


def decades(low: float, high: float, most: int) -> list[float]:
    """Return ticks from 10**low to 10**high: at most `most`, every k-th decade; on a short axis also 2 and 5."""
    first, last = -int(-low // 1), int(high // 1)
    if last - first < 1:
        ticks = [m * 10.0**n for n in range(int(low // 1), last + 1) for m in MINOR]
        return [tick for tick in ticks if 10**low <= tick <= 10**high]
    stride = max(1, -(-(last - first + 1) // most))
    return [10.0**n for n in range(first + (-first) % stride, last + 1, stride)]


class LogWindow:
    """The range of one logarithmic axis, in decades.

    most: largest number of labels; words: JavaScript that formats a `tick` of `ticks`; room: share of the axis that
    stays free at its end. Ticker and formatter stay the same objects: replacing either makes Bokeh visit all models of
    the document, which takes 12 ms.
    """

    def __init__(self, range_: Any, axis: Any, most: int, words: str = POWERS, room: float = 0.0) -> None:
        self._range, self._most, self.room = range_, most, room
        self._shown: tuple[float, float] | None = None
        self._ticker = FixedTicker(ticks=decades(*self.shown, most))
        axis.update(ticker=self._ticker, formatter=CustomJSTickFormatter(code=words))

    def forget(self) -> None:
        """Forget the current range: the next values belong to another curve."""
        self._shown = None

    @property
    def shown(self) -> tuple[float, float]:
        """The range as (lowest, highest) decade."""
        return self._shown or (0.0, 1.0)

    def fit(self, values: NDArray[np.float64]) -> bool:
        """Show all positive `values`; return True if the range changed."""
        usable = values[np.isfinite(values) & (values > 10.0**-FARTHEST) & (values < 10.0**FARTHEST)]
        if not usable.size:
            return False
        low, high = float(np.log10(usable.min())), float(np.log10(usable.max()))
        lack = max(0.0, LEAST - (high - low)) / 2
        low, high = low - lack, high + lack
        if self._shown is not None and not self._outgrown(low, high):
            return False
        slack = LOG_SLACK * (high - low)
        self._shown = low - slack, high + slack
        self._range.update(start=10.0 ** self._shown[0], end=10.0**self._end)
        self._ticker.ticks = decades(*self._shown, self._most)
        return True

    @property
    def _end(self) -> float:
        """The decade at the end of the axis, above the shown range if `room` is positive."""
        low, high = self.shown
        return low + (high - low) / (1 - self.room)

    def _outgrown(self, low: float, high: float) -> bool:
        first, last = self.shown
        return low < first or high > last or (high - low) < LOG_SHRINK * (last - first)

    def ticks(self, most: int) -> None:
        """Change the largest number of labels, when the length of the axis has changed."""
        if most != self._most:
            self._most = most
            self._ticker.ticks = decades(*self.shown, most)

    def clipped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `values` clipped to one span outside the axis on either side, which a logarithmic scale can draw."""
        low, high = self.shown
        span = high - low
        return np.clip(np.nan_to_num(values, nan=0.0, posinf=np.inf), 10.0 ** (low - span), 10.0 ** (high + span))

    def part(self, value: float) -> float:
        """Return the position of `value` on the axis: 0 at its start, 1 at its end."""
        low = self.shown[0]
        return (float(np.log10(value)) - low) / (self._end - low)

    def value(self, part: float) -> float:
        """Return the value at position `part` of the axis."""
        low = self.shown[0]
        return float(10.0 ** (low + part * (self._end - low)))


def separate_labels(desired: Sequence[float], gap: float, room: float | None = None) -> list[float]:
    """Return the positions nearest to `desired` (ascending) with at least `gap` between neighbours.

    Overlapping clusters are merged and centred on the mean of their members' desired positions, which is the
    least-squares solution. room: length that contains all positions, half a gap from its ends; positions that do not
    fit lie above it.
    """
    clusters: list[tuple[float, int]] = []  # (sum of desired - offset, members); the first member is at the mean
    for index, value in enumerate(desired):
        total, count = value - index * gap, 1
        while clusters and clusters[-1][0] / clusters[-1][1] > total / count:
            before, members = clusters.pop()
            total, count = total + before, count + members
        clusters.append((total, count))
    means = [total / count for total, count in clusters for _ in range(count)]
    placed = [mean + index * gap for index, mean in enumerate(means)]
    if room is None:
        return placed
    # Bounds of the first position, given the number of positions after it.
    below, above = gap / 2, room - gap / 2 - (len(placed) - 1) * gap
    return [min(max(place, below + i * gap), above + i * gap) for i, place in enumerate(placed)]
