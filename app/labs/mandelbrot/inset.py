"""The Julia set of the point under the pointer, in a corner of the picture, with the point's orbit in it."""

from __future__ import annotations

from math import isfinite

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, LinearColorMapper, Range1d, Title
from bokeh.plotting import figure

from app.labs.mandelbrot.overlays import OrbitMark
from app.plot_type import type_size
from app.theme import FAMILY, colours
from compute.frames import NOT_FINITE, Frame, Raster

SIDE, LARGEST = {False: 152, True: 200}, 280  # px of the picture, at least (to hold c; in presenter mode) and at most
PART = 0.33  # of the height of the large picture
EDGE, BELOW = 6, {False: 26, True: 34}  # px around it, and of the line with c below it; in presenter mode
REACH = 2.0  # the Julia set lies within this of 0


class Inset:
    """A small figure that is shown while frames bring a Julia set."""

    def __init__(self, mapper: LinearColorMapper) -> None:
        blank = np.full((1, 1), NOT_FINITE, np.uint8)
        self.source = ColumnDataSource({"julia": [blank]}, name="mandelbrot julia")
        self.figure = figure(
            x_range=Range1d(-REACH, REACH),
            y_range=Range1d(-REACH, REACH),
            name="julia picture",
            toolbar_location=None,
            x_axis_location=None,
            y_axis_location=None,
            tools=[],
            output_backend="canvas",
            frame_align=False,  # else its borders are made those of the large picture, which shares its column
            min_border_left=EDGE,
            min_border_right=EDGE,
            min_border_top=EDGE,
            min_border_bottom=BELOW[False],
            sizing_mode="fixed",
            visible=False,  # the figure's own: a pane that is shown again goes by what its figure was before
        )
        self.figure.grid.visible = False
        side = 2 * REACH
        self.figure.image(
            image="julia", x=-REACH, y=-REACH, dw=side, dh=side, source=self.source, color_mapper=mapper, level="image"
        )
        self.title = Title(text="", align="center", text_font=FAMILY, text_font_style="normal", standoff=2)
        self.figure.add_layout(self.title, "below")
        self.orbit = OrbitMark(self.figure, "julia orbit")
        styles = {"position": "absolute", "top": "16px", "right": "24px", "z-index": "3"}
        self.pane = pn.pane.Bokeh(self.figure, margin=0, styles=styles)
        self._height, self._presenter = 0, False
        self.resize(0)
        self._raster: Raster | None = None

    def resize(self, height: int) -> None:
        """Take part of a picture that is `height` px high."""
        self._height, below = height, BELOW[self._presenter]
        side = max(SIDE[self._presenter], min(LARGEST, round(PART * height)))
        outer = {"width": side + 2 * EDGE, "height": side + EDGE + below}
        self.figure.update(min_border_bottom=below, **outer)  # its borders leave a square
        self.pane.param.update(**outer)

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        scheme = colours(dark)
        self.figure.update(border_fill_color=scheme["paper"], outline_line_color=scheme["line"])
        self.title.update(text_color=scheme["ink"], text_font_size=f"{type_size(presenter)}px")
        self._presenter = presenter
        self.resize(self._height)

    def show(self, frame: Frame, wanted: bool) -> None:
        """Show the frame's Julia set, if it has one and it is wanted."""
        raster = frame.rasters.get("julia") if wanted else None
        self.figure.visible = raster is not None
        if raster is None:
            return
        if self._raster is None or not np.array_equal(raster.levels, self._raster.levels):
            self._raster = raster
            self.source.data = {"julia": [raster.levels]}
            self.title.text = words(frame.facts["pointer_re"], frame.facts["pointer_im"])
        orbit = frame.curves.get("orbit")
        if orbit is None:
            self.orbit.clear()
        else:
            self.orbit.show(np.stack([orbit.x, orbit.y], axis=1), (-9.0, -9.0, 9.0, 9.0))


def words(re: float, im: float) -> str:
    """c as a reader wants it: "c = -0.7437 + 0.1318 i"; empty if there is none."""
    if not (isfinite(re) and isfinite(im)):
        return ""
    return f"c = {re:.4f} {'-' if im < 0 else '+'} {abs(im):.4f} i"
