"""Plot of time over n with logarithmic axes: a line with quartiles for each way, and the crossover of two ways.

Full marks are measured here, hollow ones recorded elsewhere, hatched ones cited. Pure functions compute Bokeh's columns
from a `TimePlotContent`; `TimePlot` draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, ClassVar

import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, HoverTool, Span, TapTool

from app.labs.crossover.labels import WayStyle, duration, quartiles
from app.labs.crossover.log_plot import LEADERS, NAMES, TIP, Columns, LogPlot, append_row, empty_columns
from app.page.theme import FAMILY, PRESENTER_SCALE, colours, letter, type_size
from app.tab.curve_plots import separate_labels
from app.tab.stream import FrameSource
from compute.measure.rates import spaced
from compute.measure.statistics import Spread
from compute.ways.finding import Finding, TimeCurve
from compute.ways.workload import Cited

LINES = ("xs", "ys", "hue", "dash", "width", "key")
BARS = ("x", "q1", "q3", "hue")
DOTS = ("x", "y", "marker", "hue", "fill", "size", "alpha", "key", "name", "words")
CITED = ("x", "y", "hue", "name", "words")
DOT, HOLLOW = 9, 11  # px of a full and a hollow mark
WIDTHS = {"measured": 2.5, "recorded": 1.5, "chosen": 4.5}  # px of a line
NOISY_ALPHA = 0.35  # of a mark with a noisy time


@dataclass(frozen=True)
class TimePlotContent:
    """The content of the plot. lines: in the order of the workload's ways; chosen: key of the emphasised line.

    styles: by way; sizes: smallest and largest n of the axis; axis: its label; scale: factor for sizes of marks and
    lines.
    """

    lines: Sequence[TimeCurve]
    styles: Mapping[str, WayStyle]
    cited: Sequence[Cited] = ()
    finding: Finding | None = None
    sizes: tuple[int, int] = (10, 10**6)
    chosen: str = ""
    axis: str = "n"
    scale: float = 1.0

    @property
    def drawn(self) -> list[TimeCurve]:
        """The lines that have at least one point."""
        return [line for line in self.lines if line.series]

    @property
    def cited_inside(self) -> list[Cited]:
        """The cited figures within the range of the axis."""
        return [figure for figure in self.cited if self.sizes[0] <= figure.n <= self.sizes[1]]


def line_name(line: TimeCurve) -> str:
    """Return the label at the end of a line."""
    return f"{line.label}, recorded" if line.machine else line.label


def line_columns(picture: TimePlotContent, scheme: Mapping[str, str]) -> Columns:
    """Return one row per line; scheme: colours by "cpu", "gpu" and other names of the theme."""
    columns = empty_columns(LINES)
    for line in picture.drawn:
        medians = [spread.median for spread in line.series.values()]
        width = WIDTHS["chosen" if line.key == picture.chosen else "recorded" if line.machine else "measured"]
        dash = picture.styles[line.way.name].dash
        append_row(columns, list(line.series), medians, scheme[line.kind], dash, picture.scale * width, line.key)
    return columns


def quartile_columns(picture: TimePlotContent, scheme: Mapping[str, str]) -> Columns:
    """Return one row per point, with its quartiles."""
    columns = empty_columns(BARS)
    for line in picture.drawn:
        for n, times in line.series.items():
            append_row(columns, n, times.q1, times.q3, scheme[line.kind])
    return columns


def point_columns(picture: TimePlotContent, scheme: Mapping[str, str]) -> Columns:
    """Return one row per point: full if measured here, hollow if recorded, pale if noisy."""
    columns = empty_columns(DOTS)
    for line in picture.drawn:
        marker, hue = picture.styles[line.way.name].marker, scheme[line.kind]
        fill, size = (scheme["paper"], HOLLOW) if line.machine else (hue, DOT)
        size = round(picture.scale * size)
        for n, times in line.series.items():
            alpha = NOISY_ALPHA if n in line.noisy else 1.0
            words = point_text(line, n, times)
            append_row(columns, n, times.median, marker, hue, fill, size, alpha, line.key, line.label, words)
    return columns


def cited_columns(picture: TimePlotContent, scheme: Mapping[str, str]) -> Columns:
    """Return one row per cited figure within the range of the axis."""
    columns = empty_columns(CITED)
    for figure in picture.cited_inside:
        words = f"n = {spaced(figure.n)}: {duration(figure.seconds)}, {escape(figure.machine)}"
        words += f"<br>cited from {escape(figure.source)}"
        append_row(columns, figure.n, figure.seconds, scheme["muted"], figure.name, words)
    return columns


@dataclass(frozen=True)
class NamedEnd:
    """The position of a line's end or of a cited figure, its label and colour."""

    n: int
    seconds: float
    text: str
    hue: str


def named_ends(picture: TimePlotContent, scheme: Mapping[str, str]) -> list[NamedEnd]:
    """Return the labels by priority: lines of the finding, other lines, cited figures within the range of the axis.

    The caller drops those for which the plot has no room.
    """
    sides = (picture.finding.fast, picture.finding.slow) if picture.finding else ()
    compared_keys = {line.key for side in sides for line in side.lines}
    ends = []
    for line in sorted(picture.drawn, key=lambda line: line.key not in compared_keys):
        n = max(line.series)
        ends.append(NamedEnd(n, line.series[n].median, line_name(line), scheme[line.kind]))
    return ends + [NamedEnd(one.n, one.seconds, f"{one.name}, cited", scheme["muted"]) for one in picture.cited_inside]


def fitted(name: str, letters: int) -> str:
    """Return a label shortened to `letters` characters: without its last parts, which the mark also shows, or cut."""
    while len(name) > letters and ", " in name:
        name = name.rpartition(", ")[0]
    return name if len(name) <= letters else f"{name[: max(1, letters - 1)]}…"


def point_text(line: TimeCurve, n: int, spread: Spread) -> str:
    """Return the tooltip of a point as HTML."""
    words = f"n = {spaced(n)}: {duration(spread.median)} ({quartiles(spread)})"
    words += "<br><b>noisy</b>" if n in line.noisy else ""
    words += "<br><b>low clock</b>" if n in line.low_clock else ""
    return f"{words}<br>{escape(line.place or 'measured here')}"


SECONDS = """
const [size, unit] = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [0, 'ns']].find(([least]) => tick >= 0.999 * least);
return `${Number((tick / (size || 1e-9)).toPrecision(3))} ${unit}`;
"""
GAP = 6  # px between a line's end and its label
EMPTY = (1e-6, 1.0)  # range in seconds without data


class TimePlot(LogPlot):
    """One figure; chosen(key) is called for a tap on a line."""

    AROUND: ClassVar = {False: (80, 56), True: (104, 72)}
    TICK: ClassVar = {False: (64, 40), True: (88, 52)}

    def __init__(self, chosen: Callable[[str], object]) -> None:
        self._chosen = chosen
        self._shown: TimePlotContent | None = None
        self._axis: tuple[float, int, int] | None = None
        super().__init__("crossover plot", ("n", "time of a call"), ((10.0, 1e6), EMPTY), (7, 5), SECONDS)
        self.y.fit(np.array(EMPTY))

    def _add_crossing(self) -> None:
        self.band = BoxAnnotation(left=1.0, right=1.0, visible=False, level="underlay", line_width=0)
        self.span = Span(dimension="height", location=1.0, visible=False, line_width=2.5, line_dash="dashed")
        for mark in (self.band, self.span):
            self.figure.add_layout(mark)

    def _add_glyphs(self) -> None:
        self._add_crossing()
        self.frames = FrameSource({}, "crossover frames")
        self.figure.scatter("number", "number", source=self.frames.source, visible=False)
        add = self._source
        self.lines = add("crossover lines", LINES)
        self.bars = add("crossover bars", BARS)
        self.dots = add("crossover dots", DOTS)
        self.cited = add("crossover cited", CITED)
        self.leaders = add("crossover leaders", LEADERS)
        self.names = add("crossover names", NAMES)
        draw = self.figure
        curves = draw.multi_line(
            "xs", "ys", source=self.lines, line_color="hue", line_dash="dash", line_width="width", line_join="round"
        )
        draw.segment("x", "q1", "x", "q3", source=self.bars, line_color="hue", line_width=5, line_alpha=0.45)
        points = draw.scatter(
            "x", "y", source=self.dots, marker="marker", size="size", line_color="hue", line_width=2,
            fill_color="fill", fill_alpha="alpha", line_alpha=1,
        )  # fmt: skip
        others = draw.scatter(
            "x", "y", source=self.cited, marker="square", size=16, line_color="hue", line_width=1.5, fill_color=None,
            hatch_pattern="right_diagonal_line", hatch_color="hue", hatch_scale=6, hatch_weight=1.5,
        )  # fmt: skip
        draw.segment("x", "y", "x1", "y1", source=self.leaders, line_color="hue", line_width=1)
        type_: dict[str, Any] = {"text_color": "hue", "text_baseline": "middle", "text_font": {"value": FAMILY}}
        self._texts = [draw.text("x", "y", "text", source=self.names, **type_)]
        self._react(curves, points, others)

    @staticmethod
    def _source(name: str, columns: Sequence[str]) -> ColumnDataSource:
        return ColumnDataSource({column: [] for column in columns}, name=name)

    def _react(self, curves: Any, points: Any, others: Any) -> None:
        """Add tooltips, and taps that select a line; other lines do not fade."""
        for renderer in (curves, points):
            renderer.nonselection_glyph = None
            renderer.selection_glyph = None
            source = renderer.data_source
            source.selected.on_change("indices", lambda attr, old, new, source=source: self._tapped(source, new))
        self.figure.add_tools(
            HoverTool(renderers=[points, others], tooltips=TIP, point_policy="snap_to_data", visible=False),
            TapTool(renderers=[curves, points], visible=False),
        )

    def _tapped(self, source: ColumnDataSource, indices: Sequence[int]) -> None:
        keys = source.data["key"]
        if indices and indices[0] < len(keys):
            self._chosen(keys[indices[0]])

    # -- styles

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size."""
        scheme = colours(dark)
        self.span.line_color = scheme["ink"]
        self.band.update(fill_color=scheme["muted"], fill_alpha=0.13, line_color=None)
        super().set_theme(dark, presenter)

    def _redraw(self) -> None:
        if self._shown is not None:
            picture, self._shown = self._shown, None
            self.show(picture)

    # -- drawing

    def show(self, picture: TimePlotContent) -> None:
        """Draw the content if it has changed."""
        picture = replace(picture, scale=PRESENTER_SCALE if self._theme[1] else 1.0)
        if picture == self._shown:
            return
        self._shown = picture
        self.figure.xaxis[0].axis_label = picture.axis
        self._fit(picture)
        scheme = colours(self._theme[0])
        self.lines.data, self.bars.data = line_columns(picture, scheme), quartile_columns(picture, scheme)
        self.dots.data, self.cited.data = point_columns(picture, scheme), cited_columns(picture, scheme)
        gap = 1.25 * type_size(self._theme[1])
        names = named_ends(picture, scheme)[: max(1, int(self.inner[1] / gap))]  # points without a label have a tooltip
        letters = int((self.x.room * self.inner[0] - 2 * GAP) / letter(self._theme[1]))
        names = [replace(end, text=fitted(end.text, letters)) for end in names]
        self._draw_names(names, gap)
        self._draw_crossing(picture.finding)

    def _fit(self, picture: TimePlotContent) -> None:
        longest = max((len(end.text) for end in named_ends(picture, colours(self._theme[0]))), default=0)
        room = min(0.4, (longest * letter(self._theme[1]) + 3 * GAP) / self.inner[0])
        least, most = picture.sizes
        if (room, least, most) != self._axis:
            self._axis = room, least, most
            self.x.room = room
            self.x.forget()
            self._count_ticks()
            self.x.fit(np.array([least, most], np.float64))
        times = [t for line in picture.lines for time in line.series.values() for t in (time.q1, time.q3)]
        times += [figure.seconds for figure in picture.cited_inside]
        if len(times) < 2:
            self.y.forget()
        self.y.fit(np.array(times or EMPTY))

    def _draw_names(self, ends: Sequence[NamedEnd], gap: float) -> None:
        """Draw the labels of lines and cited figures to the right of the last point, at least `gap` px apart."""
        width, height = self.inner
        ends = sorted(ends, key=lambda end: end.seconds)
        placed = separate_labels([self.y.part(end.seconds) * height for end in ends], gap, height)
        x = self.x.value(self.x.part(max((end.n for end in ends), default=10)) + 2 * GAP / width)
        names, leaders = empty_columns(NAMES), empty_columns(LEADERS)
        for end, place in zip(ends, placed, strict=True):
            y = self.y.value(place / height)
            append_row(names, x, y, end.text, end.hue)
            append_row(leaders, end.n, end.seconds, x, y, end.hue)
        self.names.data, self.leaders.data = names, leaders

    def _draw_crossing(self, finding: Finding | None) -> None:
        crossing = finding.crossing if finding else None
        known = crossing is not None and crossing.n is not None
        self.span.visible = self.band.visible = known
        if known and crossing is not None and crossing.n is not None:
            self.span.location = crossing.n
            self.band.update(left=crossing.low or crossing.least, right=crossing.high or crossing.most)
