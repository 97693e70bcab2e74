"""The colour mapping of the picture: palette, ticks of the colour bar, and histogram.

One mapper is shared by all coloured objects; the browser rotates its palette (colours.js). The histogram shows the
distribution of smooth counts in the picture's colours, and the cumulative fraction of pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from bokeh.core.properties import Float, String
from bokeh.core.properties import List as ListOf
from bokeh.model import DataModel
from bokeh.models import ColumnDataSource, CustomJS, FixedTicker, LinearColorMapper, NumeralTickFormatter, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

from app.page.theme import LIGHT, colours, keep_type, letter, set_type
from app.tab.lean_plots import rewrite
from app.tab.plots import levels_mapper, palette
from compute.lab.frames import TOP_LEVEL, WAITING, Curve, Frame, Raster
from compute.measure.rates import spaced

PALETTE_CODE = (Path(__file__).parent / "colours.js").read_text(encoding="utf-8")
WAITS_CODE = """
const waits = Boolean(source.data.waiting?.[0]);
if (waits !== (wheel.waits ?? true)) {
  wheel.waits = waits;
  wheel.properties.colours.change.emit();  // has colours.js paint; nothing is sent
}
"""
PALETTE = "Inferno"
INSIDE = "#000000"  # the set
GAP = 14.0  # px, minimum distance of two labels
PLAIN = 1e6  # larger counts are written with an exponent
STEPS = (1, 1.5, 2, 3, 5, 7)
LEFT = {False: 72, True: 96}  # px for the labels on the left, by presenter mode
NARROW = 200  # px of the axis until the browser reports its length
TOP = 1.06  # upper end of the axis; the highest bar is 1


class PaletteState(DataModel):
    """The chosen palette, its rotation (1 is a full turn), turns per second, and the colour of waiting pixels."""

    waiting = String(default=LIGHT["line"])
    colours = ListOf(String, default=[])
    offset = Float(default=0.0)
    speed = Float(default=0.0)


class PaletteMapper:
    """The palette and its rotation. `mapper` can be shared by any number of glyphs and colour bars."""

    def __init__(self) -> None:
        self.name, self.reverse = PALETTE, False
        self.mapper = levels_mapper(PALETTE, INSIDE, syncable=False)  # rotation stays in the browser
        self.mapper.palette = [*self.mapper.palette[:WAITING], LIGHT["line"]]  # the first picture waits, see colours.js
        self._wheel = PaletteState(colours=palette(PALETTE))
        code = CustomJS(args={"mapper": self.mapper, "wheel": self._wheel}, code=PALETTE_CODE)
        for name in ("colours", "offset", "speed", "waiting"):
            self._wheel.js_on_change(name, code)
        self.mapper.tags = [self._wheel]  # makes the state part of the document, so that it exists in the browser

    def choose(self, name: str, reverse: bool) -> None:
        """Set the palette by name, reversed or not; raise ValueError for an unknown name."""
        self._wheel.colours = palette(name, reverse)
        self.name, self.reverse = name, reverse

    def follow(self, source: ColumnDataSource) -> None:
        """Give waiting pixels a separate colour as long as column "waiting" of `source` is true."""
        source.js_on_change("data", CustomJS(args={"wheel": self._wheel, "source": source}, code=WAITS_CODE))

    def set_theme(self, dark: bool) -> None:
        """Set the colour of waiting pixels to the page's scheme."""
        self._wheel.waiting = colours(dark)["line"]

    def offset(self, turns: float) -> None:
        """Rotate the palette by a number of turns; 1 is a full turn."""
        self._wheel.offset = turns

    def cycle(self, turns: float) -> None:
        """Rotate continuously by `turns` per second; 0 stops and restores the rotation set by `offset`."""
        self._wheel.speed = turns


def nice(low: float, high: float) -> list[float]:
    """Return 1, 1.5, 2, 3, 5, 7, 10, … between two positive numbers, or finer steps if these are fewer than four."""
    if not 0 < low <= high:
        return []
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    values = [step * 10.0**power for power in powers for step in STEPS]
    found = [value for value in values if low <= value <= high]
    if len(found) >= 4:
        return found
    step = 10.0 ** np.floor(np.log10(max((high - low) / 3, 1e-9)))
    return [float(v) for v in np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step]


def legible(marks: Mapping[float, str], length: float, letter: float) -> dict[float, str]:
    """Return the `marks` (position 0 … 1 -> label) that fit next to each other on `length` px, from low to high.

    letter: width of a character in px.
    """
    chosen: dict[float, str] = {}
    end = -np.inf
    for position in sorted(marks):
        half = len(marks[position]) * letter / 2
        if length * position - half >= end + GAP:
            chosen[position] = marks[position]
            end = length * position + half
    return chosen


def count_text(value: float) -> str:
    """Format a count: "22 200", "2.5e6"."""
    if value < PLAIN:
        return spaced(value, ",.7g")
    exponent = int(np.floor(np.log10(value)))
    return f"{value / 10.0**exponent:.7g}e{exponent}"


def count_ticks(histogram: Curve, share: NDArray[np.float64]) -> dict[float, str]:
    """Return position 0 … 1 -> label for round counts; share: position of each x of `histogram`.

    The result is {} if no pixel has a count.
    """
    if not histogram.y.any():
        return {}
    values = nice(float(histogram.x[0]), float(histogram.x[-1]))
    return {float(np.interp(value, histogram.x, share)): count_text(value) for value in values}


def bar_ticks(
    raster: Raster, colouring: str, curves: Mapping[str, Curve], length: float, letter: float
) -> dict[float, str]:
    """Return level -> label for the ticks of a colour bar of `length` px, with characters of `letter` px."""
    if colouring == "interior":
        marks = {part: f"{part:g}" for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    elif colouring == "distance":
        span = raster.high - raster.low
        marks = {(k - raster.low) / span: pixel_distance(k) for k in range(int(raster.low), int(raster.high) + 1, 2)}
    elif colouring == "histogram":
        marks = count_ticks(curves["histogram"], curves["cumulative"].y)
    else:
        marks = count_ticks(curves["histogram"], np.linspace(0, 1, len(curves["histogram"].x)))
    return {TOP_LEVEL * position: words for position, words in legible(marks, length, letter).items()}


def pixel_distance(exponent: int) -> str:
    """Format 2^exponent pixels: "1/4 px", "16 px"."""
    return f"{2**exponent} px" if exponent >= 0 else f"1/{2**-exponent} px"


class Histogram:
    """Histogram of the latest frame: bars scaled to a maximum of 1, and the cumulative curve shown by the axis."""

    def __init__(self, mapper: LinearColorMapper, height: int) -> None:
        self._mapper = mapper
        self.source = ColumnDataSource({"left": [], "right": [], "top": [], "level": []}, name="mandelbrot histogram")
        self.shares = ColumnDataSource({"x": [], "y": []})
        self.figure = figure(
            x_range=Range1d(0, 1),
            y_range=Range1d(0, TOP),
            name="histogram",
            toolbar_location=None,
            tools=[],
            output_backend="canvas",
            height=height,
            sizing_mode="stretch_width",
            min_border_left=LEFT[False],
            min_border_right=16,
        )
        self.figure.grid.visible = False
        self.figure.outline_line_color = None
        self.figure.xaxis.ticker = FixedTicker(ticks=[])
        self.figure.yaxis.ticker = FixedTicker(ticks=[0, 0.5, 1])
        self.figure.yaxis.formatter = NumeralTickFormatter(format="0%")
        for axis in self.figure.axis:
            axis.update(minor_tick_line_color=None, axis_label_text_font_style="normal", axis_label_standoff=2)
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = "iterations", "cumulative"
        edges = {"left": "left", "right": "right", "top": "top", "bottom": 0}
        self.bars = self.figure.quad(**edges, source=self.source, line_color=None).glyph
        self.line = self.figure.line("x", "y", source=self.shares, line_width=2).glyph
        self._coloured = True  # as for most pictures: changing it makes Bokeh traverse all models of the page
        self._marks: dict[float, str] = {}
        keep_type(self.figure)
        self.set_theme(dark=False, presenter=False)

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size."""
        self._scheme = colours(dark)
        self.line.line_color = self._scheme["accent"]
        self._letter = letter(presenter)
        self.figure.min_border_left = LEFT[presenter]
        self._paint(self._coloured)
        set_type(self.figure, presenter)

    def _paint(self, coloured: bool) -> None:
        """Fill the bars with the picture's colours, or uniformly if the picture does not show counts."""
        self._coloured = coloured
        palette = {"field": "level", "transform": self._mapper}
        self.bars.fill_color = palette if coloured else self._scheme["muted"]

    def show(self, frame: Frame, colouring: str) -> None:
        """Draw the frame's histogram; clear it if no pixel has a count."""
        histogram, share = frame.curves["histogram"], frame.curves["cumulative"]
        count, most = len(histogram.y), histogram.y.max()
        if not most > 0:
            self._clear()
            return
        edges = np.linspace(0, 1, count + 1)
        before = np.concatenate([[0.0], share.y[:-1]])
        equal = colouring == "histogram"
        level = TOP_LEVEL * ((before + share.y) / 2 if equal else (edges[1:] + edges[:-1]) / 2)
        level = np.minimum(level, WAITING - 1)  # the last colour may be that of waiting pixels
        bars = {"left": edges[:-1], "right": edges[1:], "top": histogram.y / most, "level": level}
        rewrite(self.source, bars)
        rewrite(self.shares, {"x": edges, "y": np.concatenate([[0.0], share.y])})
        if (colouring in ("histogram", "smooth")) != self._coloured:
            self._paint(not self._coloured)
        marks = count_ticks(histogram, np.linspace(0, 1, count))
        self._mark(legible(marks, self.figure.inner_width or NARROW, self._letter))

    def _clear(self) -> None:
        for source in (self.source, self.shares):
            rewrite(source, {name: [] for name in source.data})
        self._mark({})

    def _mark(self, chosen: dict[float, str]) -> None:
        if chosen != self._marks:
            self._marks = chosen
            self.figure.xaxis[0].ticker.ticks = list(chosen)
            self.figure.xaxis[0].major_label_overrides = chosen
