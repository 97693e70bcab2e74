"""Roofline for one n: operations per second over operations per byte, and a table of the parts of a call's time.

The measured roofs of each device are lines; each way with floating-point operations is a dot below them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from html import escape
from math import isfinite
from typing import Any, ClassVar

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, HoverTool

from app.labs.crossover.labels import WayStyle, rate, way_styles
from app.labs.crossover.lessons import at, of_roofline, of_time_parts
from app.labs.crossover.log_plot import LEADERS, NAMES, TIP, LogPlot, append_row, empty_columns
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.labs.crossover.time_parts import NOT_MEASURED, STYLE, SizeChoice, Why, no_reason, parts_html, shown_curve
from app.page.theme import FAMILY, colours, html_pane, type_size
from app.tab.curve_plots import separate_labels
from app.tab.stream import FirstDraw
from app.upstream.plot_pane import PlotPane
from compute.devices.devices import device_kind
from compute.labs.crossover import picture
from compute.labs.crossover.picture import ShownWay
from compute.ways.roofline import Roof

ROOM = 0.26  # fraction of the width, for the labels
FLOPS = """
const sizes = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [0, '']];
const [size, prefix] = sizes.find(([least]) => tick >= 0.999 * least);
return `${Number((tick / (size || 1)).toPrecision(3))} ${prefix}FLOP/s`;
"""
ROOFS = ("xs", "ys", "hue", "width")
DOTS = ("x", "y", "marker", "hue", "fill", "name", "words")
MEASURED_WIDTH, RECORDED_WIDTH = 3.0, 1.5  # px of a roof
NAMED_AT = 0.035  # fraction of the width between a dot and its label
DECADES = 2.0  # shown on each side of the data


class RooflinePlot(LogPlot):
    """The roofline as a figure: operations per second over operations per byte, with roofs and a dot for each way."""

    AROUND: ClassVar = {False: (104, 56), True: (136, 72)}
    TICK: ClassVar = {False: (64, 36), True: (88, 48)}

    def __init__(self) -> None:
        self._shown: tuple[Any, ...] | None = None
        self._why: Why = no_reason
        words = "operations a byte", "operations a second"
        super().__init__("roofline plot", words, ((1e-2, 1e2), (1e9, 1e12)), (6, 6), FLOPS)
        self.x.room = ROOM

    def _add_glyphs(self) -> None:
        columns = {"roofs": ROOFS, "dots": DOTS, "leaders": LEADERS, "names": NAMES}
        self.roofs, self.dots, self.leaders, self.names = (
            ColumnDataSource({column: [] for column in named}, name=f"roofline {name}")
            for name, named in columns.items()
        )
        draw = self.figure
        draw.multi_line("xs", "ys", source=self.roofs, line_color="hue", line_width="width", line_join="round")
        draw.segment("x", "y", "x1", "y1", source=self.leaders, line_color="hue", line_width=1)
        dots = draw.scatter(
            "x", "y", source=self.dots, marker="marker", size=14, line_color="hue", line_width=2, fill_color="fill"
        )
        type_: dict[str, Any] = {"text_color": "hue", "text_baseline": "middle", "text_font": {"value": FAMILY}}
        self._texts = [draw.text("x", "y", "text", source=self.names, **type_)]
        self.figure.add_tools(HoverTool(renderers=[dots], tooltips=TIP, point_policy="snap_to_data", visible=False))

    def _redraw(self) -> None:
        if self._shown is not None:
            (lines, styles, roofs, n, *recorded), self._shown = self._shown, None
            self.show(lines, styles, roofs, n, self._why, *recorded)

    def show(
        self,
        lines: Sequence[ShownWay],
        styles: Mapping[str, WayStyle],
        roofs: Mapping[str, Roof],
        n: int,
        why: Why = no_reason,
        recorded: Collection[str] = (),
        recorded_roofs: Collection[str] = (),
    ) -> int:
        """Draw the ways that have a time at n below the roofs (by "host" and "cuda"); return their number.

        why: reason for values above 100 %; recorded: names of ways drawn hollow; recorded_roofs: names of roofs drawn
        thin.
        """
        self._why = why
        found = [(line, spot) for line in lines for spot in line.points
                 if spot.n == n and spot.step is not None and spot.flops > 0]  # fmt: skip
        state = lines, styles, roofs, n, recorded, recorded_roofs
        if state == self._shown:
            return len(found)
        self._shown = state
        scheme = colours(self._theme[0])
        self._fit([spot.intensity for _, spot in found], [spot.flops for _, spot in found], roofs)
        dots = empty_columns(DOTS)
        for line, spot in found:
            share = f"{spot.percent:.3g} % of the roof" if isfinite(spot.percent) else "roof not yet measured"
            above = why(line, spot)
            words = f"{rate(spot.flops, 'FLOP/s')}, {rate(spot.moved, 'B/s')}<br>{share}"
            words += f"<br>{escape(above)}" if above else ""
            style = styles[line.way]
            hue = scheme[style.kind]
            fill = scheme["paper"] if line.way in recorded else hue
            append_row(dots, spot.intensity, spot.flops, style.marker, hue, fill, line.label, words)
        self.dots.data = dots
        self._draw_roofs(roofs, recorded_roofs)
        self._draw_names(dots)
        return len(found)

    def _fit(self, intensities: Sequence[float], flops: Sequence[float], roofs: Mapping[str, Roof]) -> None:
        ridges = [roof.ridge for roof in roofs.values() if isfinite(roof.ridge)]
        x = np.array([*intensities, *ridges] or [1.0])
        self.x.fit(np.array([x.min() * 10**-DECADES, x.max() * 10**DECADES]))
        tops = [roof.flops for roof in roofs.values() if isfinite(roof.flops)]
        lows = [roof.flops_at(float(x.min())) for roof in roofs.values()]
        y = np.array([*flops, *tops, *lows] or [1e9])
        self.y.fit(np.array([y.min() / 3, y.max() * 3]))

    def _draw_roofs(self, roofs: Mapping[str, Roof], recorded: Collection[str]) -> None:
        scheme, drawn = colours(self._theme[0]), empty_columns(ROOFS)
        low, high = (10.0**decade for decade in self.x.shown)
        for device, roof in roofs.items():
            bends = [low, *([roof.ridge] if low < roof.ridge < high else []), high]
            hue, width = scheme[device_kind(device)], MEASURED_WIDTH
            width = RECORDED_WIDTH if device in recorded else width
            append_row(drawn, bends, [roof.flops_at(x) for x in bends], hue, width)
        self.roofs.data = drawn

    def _draw_names(self, dots: Mapping[str, list[Any]]) -> None:
        """Draw the labels to the right of the dots without overlap, each with a leader line."""
        names, leaders = empty_columns(NAMES), empty_columns(LEADERS)
        height = self.inner[1]
        order = sorted(range(len(dots["x"])), key=lambda i: dots["y"][i])
        heights = [self.y.part(dots["y"][i]) * height for i in order]
        places = separate_labels(heights, 1.25 * type_size(self._theme[1]), height)
        for i, place in zip(order, places, strict=True):
            dot, x = dots["x"][i], self.x.value(self.x.part(dots["x"][i]) + NAMED_AT)
            y = self.y.value(place / height)
            append_row(names, x, y, dots["name"][i], dots["hue"][i])
            append_row(leaders, dot, dots["y"][i], x, y, dots["hue"][i])
        self._texts[0].glyph.background_fill_color = colours(self._theme[0])["paper"]  # covers the roofs
        self.names.data, self.leaders.data = names, leaders


LEAST = 220  # px of height of the plot; in a low window the view scrolls
CHOOSER = {False: 64, True: 80}  # px of the slider, by presenter mode
TABLE = 0.42  # fraction of the height for the top of the table
BESIDE_FROM = 960  # px of width from which plot and table are side by side
GRIDS = {  # of plot and table, by whether side by side
    side_by_side: {"display": "grid", "grid-auto-flow": flow, "place-content": "start"}
    for side_by_side, flow in ((False, "row"), (True, "column"))
}
NO_ROOFS = "<div class='split'><p>The roofs are measured at the end of the first run on each device.</p></div>"
NO_FLOPS = "<div class='split'><p>No floating-point operations: this workload has no place on the plot.</p></div>"


class RooflineView:
    """Slider, plot and table of one n. refresh: updates the model and calls `show`."""

    def __init__(self, model: SweepViewModel, refresh: Callable[[], object]) -> None:
        self._model, self._refresh = model, refresh
        self.size = SizeChoice(refresh)
        self.plot = RooflinePlot()
        self._theme = (False, False)  # dark, presenter
        self._first_draw = FirstDraw()
        self._text = html_pane("", STYLE)
        self._table = pn.Column(self._text, scroll="y-auto", margin=0, sizing_mode="fixed")
        self._pane = PlotPane(self.plot.figure, margin=0)
        self._grid = pn.Column(self._pane, self._table, margin=0, styles=GRIDS[False])
        self.panel = pn.Column(self.size.panel, self._grid, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        self._first_draw.wait(self.plot.figure, self._fill)
        self._room = (600, 600)

    @property
    def _drawn(self) -> bool:
        return not self._first_draw.pending

    def _fill(self) -> None:
        """Apply theme, size and content after the browser has drawn the plot."""
        self.plot.set_theme(*self._theme)
        self.resize(*self._room)
        self._refresh()

    def resize(self, width: int, height: int) -> None:
        """Set the size in px: the table is below the plot, or to its right in a wide window."""
        self._room = (width, height)
        side_by_side = width >= BESIDE_FROM
        rest = max(LEAST, height - CHOOSER[self._theme[1]])
        plot = (width // 2, rest) if side_by_side else (width, max(LEAST, round((1 - TABLE) * rest)))
        self.panel.height = height
        self._grid.styles = GRIDS[side_by_side]
        self._table.param.update(width=width - plot[0] * side_by_side, height=rest if side_by_side else None)
        if self._drawn:
            self.plot.resize(*plot)
            self._pane.param.update(width=plot[0], height=plot[1])

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size, after the plot's first draw."""
        self._theme = (dark, presenter)
        if self._drawn:
            self.plot.set_theme(dark, presenter)

    @property
    def lesson(self) -> str:
        """The sentence on the parts of the time and the roofs at this n; without data, a hint how to measure."""
        named = [
            replace(picture.recorded_way(curve), label=f"{curve.label} (recorded)")
            for curve in self._model.recorded_gpu
        ]
        shown = at(self.size.n, [*self._model.measured.values(), *named])
        return " ".join(filter(None, (of_time_parts(shown), of_roofline(shown, self._roofs)))) or NOT_MEASURED

    @property
    def _roofs(self) -> dict[str, Roof]:
        """The roofs measured here, and that of the recorded GPU if no GPU was measured here."""
        recorded, frame = self._model.recorded_gpu, self._model.frame
        roof = recorded[0].roof if recorded else None
        of_record = {picture.recorded_way(recorded[0]).device: roof} if roof is not None else {}
        return of_record | (picture.roofs_of(frame) if frame is not None else {})

    def _why(self, line: picture.ShownWay, spot: picture.ShownPoint) -> str:
        """Return why a way is faster than the roof; "" if it is slower."""
        frame = self._model.frame
        here = frame is not None and line.way in self._model.measured
        return picture.why_above_roof(frame, line, spot) if here and frame is not None else ""

    def show(self) -> None:
        """Update the options of n, and show the results for the selected one."""
        model = self._model
        recorded, frame = model.recorded_gpu, model.frame
        self.size.offer(model.measured_sizes, [n for curve in recorded for n in curve.series])
        if not self._drawn:
            return
        n, roofs = self.size.n, self._roofs
        here = picture.roofs_of(frame) if frame is not None else {}
        lines = [*model.measured.values(), *map(shown_curve, recorded)]
        ways = frozenset(curve.way for curve in recorded)
        drawn = self.plot.show(lines, way_styles(model.ways), roofs, n, self._why, ways, roofs.keys() - here)
        html = parts_html(model.measured.values(), n, bool(model.session.values["split"]), recorded, self._why)
        html += ("" if here else NO_ROOFS) + (NO_FLOPS if n and not drawn else "")
        if html != self._text.object:
            self._text.object = html
