"""How often which smooth count occurs in the picture, in the picture's colours, and the share of pixels below it."""

from __future__ import annotations

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, LinearColorMapper, NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from app.labs.mandelbrot.scale import legible, of_counts
from app.plot_type import keep_type, letter, set_type
from app.theme import colours
from compute.frames import TOP_LEVEL, Frame

LEFT = {False: 56, True: 72}  # px for the labels at the left; in presenter mode
NARROW = 200  # px of the axis until the browser has said how long it is
TOP = 1.06  # of the axis; the highest bar is 1


class Histogram:
    """A figure whose bars are those of the newest frame; the tallest fills it."""

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
        self.figure.axis.minor_tick_line_color = None
        edges = {"left": "left", "right": "right", "top": "top", "bottom": 0}
        self.bars = self.figure.quad(**edges, source=self.source, line_color=None).glyph
        self.line = self.figure.line("x", "y", source=self.shares, line_width=2).glyph
        self._coloured = False
        self._marks: dict[float, str] = {}
        keep_type(self.figure)
        self.dress(dark=False, presenter=False)

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        self._scheme = colours(dark)
        self.line.line_color = self._scheme["accent"]
        self._letter = letter(presenter)
        self.figure.min_border_left = LEFT[presenter]
        self._paint(self._coloured)
        set_type(self.figure, presenter)

    def _paint(self, coloured: bool) -> None:
        """In the picture's colours, or plain where the picture colours something else than counts."""
        self._coloured = coloured
        palette = {"field": "level", "transform": self._mapper}
        self.bars.fill_color = palette if coloured else self._scheme["muted"]

    def show(self, frame: Frame, colouring: str) -> None:
        """Draw the frame's histogram; nothing where no pixel of it has a count."""
        histogram, share = frame.curves["histogram"], frame.curves["cumulative"]
        count, most = len(histogram.y), histogram.y.max()
        if not most > 0:
            self._clear()
            return
        edges = np.linspace(0, 1, count + 1)
        before = np.concatenate([[0.0], share.y[:-1]])
        equal = colouring == "histogram"
        level = TOP_LEVEL * ((before + share.y) / 2 if equal else (edges[1:] + edges[:-1]) / 2)
        self.source.data = {"left": edges[:-1], "right": edges[1:], "top": histogram.y / most, "level": level}
        self.shares.data = {"x": edges, "y": np.concatenate([[0.0], share.y])}
        if (colouring in ("histogram", "smooth")) != self._coloured:
            self._paint(not self._coloured)
        marks = of_counts(histogram, np.linspace(0, 1, count))
        self._mark(legible(marks, self.figure.inner_width or NARROW, self._letter))

    def _clear(self) -> None:
        for source in (self.source, self.shares):
            source.data = {name: [] for name in source.data}
        self._mark({})

    def _mark(self, chosen: dict[float, str]) -> None:
        if chosen != self._marks:
            self._marks = chosen
            self.figure.xaxis[0].ticker.ticks = list(chosen)
            self.figure.xaxis[0].major_label_overrides = chosen
