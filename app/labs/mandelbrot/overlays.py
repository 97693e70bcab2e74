"""Overlays for the point under the pointer: its orbit z_0, z_1, … in the picture, and its Julia set in a corner."""

from __future__ import annotations

from math import isfinite

import numpy as np
from bokeh.models import ColumnDataSource, LinearColorMapper, Range1d, Title
from bokeh.plotting import figure
from numpy.typing import NDArray

from app.labs.mandelbrot.pan_zoom_view import Anchor
from app.page.theme import FAMILY, LIGHT, colours, type_size
from app.upstream.plot_pane import PlotPane
from compute.lab.frames import NOT_FINITE, WAITING, Curve, Frame, Raster

SIZES = (11.0, 9.0, 8.0, 7.0)  # px of the first points, from z_0 = 0
SIZE = 4.5  # px of all others
MARGIN = 20.0  # views around the picture beyond which a line is clipped: canvases support a limited range of numbers
RESOLVED = -12  # exponent of the finest unit in which float64 resolves an orbit
Points = NDArray[np.float64]
SIDE, LARGEST = {False: 152, True: 200}, 280  # px of the picture: minimum by presenter mode, for the label; maximum
PART = 0.33  # fraction of the height of the large picture
EDGE, BELOW = 6, {False: 26, True: 34}  # px around it, and of the label c below it by presenter mode
REACH = 2.0  # the Julia set is within this distance of 0


class OrbitOverlay:
    """One orbit in one figure."""

    def __init__(self, plot: figure, name: str) -> None:
        self.line = ColumnDataSource({"x": [], "y": []})
        self.points = ColumnDataSource({"x": [], "y": [], "size": [], "colour": []}, name=name)
        plot.line("x", "y", source=self.line, line_color="#ffffff", line_width=3, line_alpha=0.55)
        plot.line("x", "y", source=self.line, line_color="#202020", line_width=1.2)
        plot.scatter("x", "y", size="size", source=self.points, fill_color="colour", line_color="#202020")

    def show(self, points: Points, box: tuple[float, float, float, float]) -> None:
        """Draw (n, 2) points; clip lines at `box` (x0, y0, x1, y1), and omit points outside."""
        cut = clipped(points, box)
        inside = (points >= box[:2]).all(axis=1) & (points <= box[2:]).all(axis=1)
        kept = points[inside]
        order = np.arange(len(points))[inside]
        sizes = np.array([SIZES[k] if k < len(SIZES) else SIZE for k in order])
        colours = [LIGHT["gpu"] if k == 1 else "#ffffff" if k else LIGHT["cpu"] for k in order]
        self.line.data = {"x": cut[:, 0], "y": cut[:, 1]}
        self.points.data = {"x": kept[:, 0], "y": kept[:, 1], "size": sizes, "colour": colours}

    def clear(self) -> None:
        """Remove the orbit."""
        if len(self.line.data["x"]) or len(self.points.data["x"]):
            self.show(np.empty((0, 2)), (0, 0, 0, 0))


def in_anchor_units(curve: Curve, anchor: Anchor) -> Points | None:
    """Return the (n, 2) points of an orbit in an anchor's units; None beyond the resolution of float64."""
    if anchor.exponent < RESOLVED:
        return None
    unit = float(anchor.unit)
    return np.stack([(curve.x - float(anchor.re)) / unit, (curve.y - float(anchor.im)) / unit], axis=1)


def around(extent: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Return a picture's extent enlarged by MARGIN views on each side."""
    x0, y0, x1, y1 = extent
    wide, high = MARGIN * (x1 - x0), MARGIN * (y1 - y0)
    return x0 - wide, y0 - high, x1 + wide, y1 + high


def clipped(points: Points, box: tuple[float, float, float, float]) -> Points:
    """Return the line through `points` clipped to `box`, with NaN as gaps (Liang and Barsky, 1984)."""
    if len(points) < 2:
        return np.empty((0, 2))
    start, step = points[:-1], np.diff(points, axis=0)
    low, high = np.zeros(len(step)), np.ones(len(step))
    for axis in (0, 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (np.array([box[axis], box[axis + 2]])[:, None] - start[:, axis]) / step[:, axis]
        still, within = step[:, axis] == 0, (start[:, axis] >= box[axis]) & (start[:, axis] <= box[axis + 2])
        low = np.maximum(low, np.where(still, np.where(within, 0.0, 2.0), ends.min(axis=0)))
        high = np.minimum(high, np.where(still, 1.0, ends.max(axis=0)))
    seen = low <= high
    gap = np.full((int(seen.sum()), 2), np.nan)
    pieces = [start[seen] + part[seen, None] * step[seen] for part in (low, high)]
    return np.stack([*pieces, gap], axis=1).reshape(-1, 2)


class JuliaPlot:
    """A small figure that is visible while frames contain a Julia set."""

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
            frame_align=False,  # else it gets the borders of the large picture in its column
            min_border_left=EDGE,
            min_border_right=EDGE,
            min_border_top=EDGE,
            min_border_bottom=BELOW[False],
            sizing_mode="fixed",
            visible=False,  # set on the figure: a pane shown again uses its figure's earlier state
        )
        self.figure.grid.visible = False
        side = 2 * REACH
        self.figure.image(
            image="julia", x=-REACH, y=-REACH, dw=side, dh=side, source=self.source, color_mapper=mapper, level="image"
        )
        self.title = Title(text="", align="center", text_font=FAMILY, text_font_style="normal", standoff=2)
        self.figure.add_layout(self.title, "below")
        self.orbit = OrbitOverlay(self.figure, "julia orbit")
        styles = {"position": "absolute", "top": "16px", "right": "24px", "z-index": "3"}
        self.pane = PlotPane(self.figure, margin=0, styles=styles)
        self._height, self._presenter = 0, False
        self.resize(0)
        self._raster: Raster | None = None

    def resize(self, height: int) -> None:
        """Set the size to a fraction of a picture of `height` px."""
        self._height, below = height, BELOW[self._presenter]
        side = max(SIDE[self._presenter], min(LARGEST, round(PART * height)))
        outer = {"width": side + 2 * EDGE, "height": side + EDGE + below}
        self.figure.update(min_border_bottom=below, **outer)  # the borders leave a square
        self.pane.param.update(**outer)

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size."""
        scheme = colours(dark)
        self.figure.update(border_fill_color=scheme["paper"], outline_line_color=scheme["line"])
        self.title.update(text_color=scheme["ink"], text_font_size=f"{type_size(presenter)}px")
        self._presenter = presenter
        self.resize(self._height)

    def show(self, frame: Frame, visible: bool) -> None:
        """Show the frame's Julia set, if any, when `visible` is true."""
        raster = frame.rasters.get("julia") if visible else None
        self.figure.visible = raster is not None
        if raster is None:
            return
        if self._raster is None or not np.array_equal(raster.levels, self._raster.levels):
            self._raster = raster
            # The palette belongs to the large picture; its last colour may be that of waiting pixels.
            self.source.data = {"julia": [np.where(raster.levels == WAITING, WAITING - 1, raster.levels)]}
            self.title.text = c_text(frame.facts["pointer_re"], frame.facts["pointer_im"])
        orbit = frame.curves.get("orbit")
        if orbit is None:
            self.orbit.clear()
        else:
            self.orbit.show(np.stack([orbit.x, orbit.y], axis=1), (-9.0, -9.0, 9.0, 9.0))


def c_text(re: float, im: float) -> str:
    """Format c with four decimals, "c = -0.7437 + 0.1318 i"; "" for nan and inf."""
    if not (isfinite(re) and isfinite(im)):
        return ""
    return f"c = {re:.4f} {'-' if im < 0 else '+'} {abs(im):.4f} i"
