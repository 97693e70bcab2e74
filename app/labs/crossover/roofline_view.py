"""The roofline for one n: the plot, and what each way reaches in numbers."""

from __future__ import annotations

from collections.abc import Mapping

import panel as pn

from app.labs.crossover.looks import Look
from app.labs.crossover.roofline_plot import RooflinePlot
from app.labs.crossover.sight import Sight
from app.labs.crossover.sizes import SizeChoice
from app.labs.crossover.split import STYLE, shares
from app.theme import stylesheet
from compute.labs.crossover import picture

CHOOSER, TABLE = 64, 0.36  # px of the slider; part of the height that the table takes
NO_ROOFS = "<div class='split'><p>The roofs are measured at the end of the first run on each device.</p></div>"
NO_FLOPS = "<div class='split'><p>No floating-point operations: this workload has no place on the plot.</p></div>"


class RooflineView:
    """Slider, plot and table."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self.size = SizeChoice(self._again)
        self.plot = RooflinePlot()
        self._looks: Mapping[str, Look] = {}
        self._look = (False, False)
        self._drawn = False
        self._text = pn.pane.HTML("", stylesheets=[stylesheet(), STYLE], margin=0, sizing_mode="stretch_width")
        self._table = pn.Column(self._text, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        self._pane = pn.pane.Bokeh(self.plot.figure, margin=0)
        self.panel = pn.Column(self.size.panel, self._pane, self._table, margin=0, sizing_mode="stretch_width")
        self.plot.figure.on_change("inner_width", lambda attr, old, new: self._ready())
        self._room = (600, 600)

    def _ready(self) -> None:
        if not self._drawn:
            self._drawn = True
            self.plot.dress(*self._look)
            self.fit(*self._room)
            self._again()

    def fit(self, width: int, height: int) -> None:
        """Take that many px."""
        self._room = (width, height)
        table = round(TABLE * height)
        self._table.height = table
        if self._drawn:
            plot = height - CHOOSER - table
            self.plot.resize(width, plot)
            self._pane.param.update(width=width, height=plot)

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size, as soon as the plot is there."""
        self._look = (dark, presenter)
        if self._drawn:
            self.plot.dress(dark, presenter)

    def show(self, looks: Mapping[str, Look]) -> None:
        """Draw what is known. looks: by way."""
        self._looks = looks
        self.size.offer(self._sight.common)
        if self._drawn:
            self._again()

    def _why(self, line: picture.Line, spot: picture.Spot) -> str:
        """Why it is faster than the roof; "" where it is not."""
        frame = self._sight.frame
        return picture.above(frame, line, spot) if frame is not None else ""

    def _again(self) -> None:
        frame, n = self._sight.frame, self.size.n
        roofs = picture.roofs(frame) if frame is not None else {}
        lines = list(self._sight.measured.values())
        drawn = self.plot.show(lines, self._looks, roofs, n, self._why)
        html = shares(lines, n, self._why) + ("" if roofs else NO_ROOFS) + (NO_FLOPS if n and not drawn else "")
        if html != self._text.object:
            self._text.object = html
