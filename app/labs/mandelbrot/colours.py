"""The palette of the Mandelbrot lab: one mapper for everything that is coloured, turned by the browser itself."""

from __future__ import annotations

from pathlib import Path

from bokeh.core.properties import Float, String
from bokeh.core.properties import List as ListOf
from bokeh.model import DataModel
from bokeh.models import CustomJS

from app.palettes import line_colour, palette
from app.plots import levels_mapper

CODE = (Path(__file__).parent / "colours.js").read_text(encoding="utf-8")
PALETTE = "Inferno"
INSIDE = "#000000"  # the set, and what is not known yet


class Wheel(DataModel):
    """The palette as chosen, how far it is turned (1 is once around), and turns a second."""

    colours = ListOf(String, default=[])
    offset = Float(default=0.0)
    speed = Float(default=0.0)


class Colours:
    """Which palette, turned how far. `mapper` may be shared by any number of glyphs and bars."""

    def __init__(self) -> None:
        self.name, self.reverse = PALETTE, False
        self.mapper = levels_mapper(PALETTE, INSIDE, syncable=False)  # what turns in the browser stays there
        self._wheel = Wheel(colours=palette(PALETTE))
        code = CustomJS(args={"mapper": self.mapper, "wheel": self._wheel}, code=CODE)
        for name in ("colours", "offset", "speed"):
            self._wheel.js_on_change(name, code)
        self.mapper.tags = [self._wheel]  # reachable from what is drawn, so that it exists in the browser

    def choose(self, name: str, reverse: bool) -> None:
        """Another palette by name, reversed or not; ValueError if there is none."""
        self._wheel.colours = palette(name, reverse)
        self.name, self.reverse = name, reverse

    def offset(self, turns: float) -> None:
        """Turn the palette that far; 1 leads there and back again."""
        self._wheel.offset = turns

    def cycle(self, turns: float) -> None:
        """Keep turning, so many times a second; 0 stands still."""
        self._wheel.speed = turns

    @property
    def line(self) -> str:
        """The colour of a line that shows on the picture."""
        return line_colour(palette(self.name, self.reverse))
