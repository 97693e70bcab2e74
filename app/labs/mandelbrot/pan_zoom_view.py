"""The picture on the screen: one figure that follows the pointer immediately, mapped to the exact viewport.

A browser's numbers have 53 bits. The browser therefore uses coordinates relative to an anchor, an exact place, in units
of about the view's height; they have the same accuracy at every depth. Each frame is drawn at the position for which it
was computed, in these coordinates. Thus the old picture moves and scales with the pointer until the new one replaces
it. When the view leaves the range of an anchor, the next frame introduces another. pan_zoom_view.js is the browser's
part; axes.js labels the axes with coordinates while these are short, and with distances from the centre otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from bokeh.core.properties import Bool, Float
from bokeh.core.properties import List as ListOf
from bokeh.events import DoubleTap, MouseMove, MouseWheel, Pan, PanEnd, PanStart, Pinch, PinchEnd, PinchStart
from bokeh.model import DataModel
from bokeh.models import (
    BoxAnnotation,
    ColumnDataSource,
    CustomJS,
    CustomJSTicker,
    CustomJSTickFormatter,
    LinearColorMapper,
    Range1d,
    WheelZoomTool,
)
from bokeh.plotting import figure
from numpy.typing import NDArray

from app.labs.mandelbrot.navigator import Navigator, Viewport, log10
from app.page.theme import LIGHT
from app.tab.plots import ImagePlot
from app.tab.stream import FrameSource
from compute.lab.frames import WAITING, Extent, Frame, Raster

FINEST, COARSEST = 2.0**-16, 4.0  # range of heights of a view in units of its anchor
FAR = 2.0**16  # distance of a view from its anchor in view heights: 2^-37 of a view is still resolved
POINTER_CODE = (Path(__file__).parent / "pan_zoom_view.js").read_text(encoding="utf-8")
GESTURES = (PanStart, Pan, PanEnd, MouseWheel, DoubleTap, PinchStart, Pinch, PinchEnd, MouseMove)
KEPT = 16  # number of anchors to which a message of a slow browser may refer
NO_FRAME = -1  # number of a write without a frame
Levels: TypeAlias = NDArray[np.uint8]
BLANK: Levels = np.full((1, 1), WAITING, np.uint8)  # a picture without computed pixels
WIDE = 8  # view heights from the centre of a blank picture to each side

AXES_CODE = (Path(__file__).parent / "axes.js").read_text(encoding="utf-8")
DECIMALS = 11  # maximum for an absolute label; float64 has 15, but no axis has the space


@dataclass(frozen=True)
class Anchor:
    """Origin (a multiple of the unit) and unit, 10^exponent, of the browser's coordinates."""

    re: Fraction
    im: Fraction
    exponent: int

    @classmethod
    def near(cls, view: Viewport) -> Anchor:
        """Return the anchor next to the view's centre; its unit is the power of ten at or above the height."""
        exponent = math.ceil(log10(view.height) - 1e-12)
        unit = Fraction(10) ** exponent
        return cls(round(view.re / unit) * unit, round(view.im / unit) * unit, exponent)

    @property
    def unit(self) -> Fraction:
        """The length of the unit in the complex plane."""
        return Fraction(10) ** self.exponent

    def serves(self, view: Viewport) -> bool:
        """Return whether float64 coordinates relative to this anchor are accurate enough for `view`."""
        height = view.height / self.unit
        offset = max(abs(view.re - self.re), abs(view.im - self.im)) / self.unit
        return FINEST <= height <= COARSEST and offset <= FAR * height

    def can_draw(self, view: Viewport) -> bool:
        """Return whether a picture of `view` has coordinates relative to this anchor that a screen can show."""
        height = view.height / self.unit
        offset = max(abs(view.re - self.re), abs(view.im - self.im)) / self.unit
        return FINEST**2 <= height <= FAR**2 and offset <= FAR**2

    def count(self, view: Viewport) -> tuple[float, float, float]:
        """Return (x, y, height) of `view` in this anchor's coordinates."""
        unit = self.unit
        return float((view.re - self.re) / unit), float((view.im - self.im) / unit), float(view.height / unit)

    def place(self, x: float, y: float) -> tuple[Fraction, Fraction]:
        """Return (re, im) of the coordinates x, y."""
        unit = self.unit
        return self.re + Fraction(x) * unit, self.im + Fraction(y) * unit

    def step_to(self, other: Anchor) -> tuple[float, float, float] | None:
        """Return (dx, dy, scale) that convert a coordinate q to (q - d) * scale of `other`; None if too far away."""
        unit = self.unit
        dx, dy, scale = (other.re - self.re) / unit, (other.im - self.im) / unit, unit / other.unit
        near = max(abs(dx), abs(dy)) <= FAR**2 and FINEST**2 <= scale <= FAR**2
        return (float(dx), float(dy), float(scale)) if near else None


class PointerState(DataModel):
    """State shared with pan_zoom_view.js in the browser.

    told: [serial, anchor, x, y, height], the view set by the server; seen: likewise, the view after the pointer's
    moves; pointer: position in fractions of the view; grain: screen pixels per lab pixel; boxing: whether dragging
    draws a box.
    """

    told = ListOf(Float, default=[])
    seen = ListOf(Float, default=[])
    pointer = ListOf(Float, default=[])
    grain = Float(default=1.0)
    boxing = Bool(default=False)


class PanZoomView:
    """The figure of one session.

    later(callback) runs a callback with the document's lock; pointed(fx, fy) is called when the pointer moves, with
    fractions of the view. anchor: origin of the browser's coordinates; drawn: extent of the latest picture in them.
    """

    def __init__(
        self,
        navigator: Navigator,
        mapper: LinearColorMapper,
        later: Callable[[Callable[[], object]], object],
        pointed: Callable[[float, float], object],
    ) -> None:
        self.navigator, self._later, self._report_pointer = navigator, later, pointed
        self._anchors, self._at, self._serial, self._hearing = {0: Anchor.near(navigator.aim)}, 0, 0, False
        self.drawn: Extent = self._everywhere()
        self._shown = (BLANK, 0, self.drawn, True)
        self.frames = FrameSource(self._columns([], BLANK, waiting=True), "mandelbrot frames")
        # Only the browser changes its ranges: synchronized ranges would return as messages and conflict with the
        # pointer.
        self.x_range, self.y_range = Range1d(0, 1, syncable=False), Range1d(0, 1, syncable=False)
        # Prevents the wheel from scrolling the page; pan_zoom_view.js zooms.
        wheel = WheelZoomTool(speed=0, zoom_on_axis=False)
        self.plot = ImagePlot(
            "escape",
            self.frames.source,
            self.x_range,
            self.y_range,
            mapper,
            name="mandelbrot picture",
            tools=[wheel],
            active_scroll=wheel,
        )
        self.frames.draw_in(self.plot.figure)
        self.pointer_state = PointerState(told=self._look())
        self._connect()
        navigator.changed.subscribe(self._follow)

    @property
    def anchor(self) -> Anchor:
        """The current anchor of the browser's coordinates."""
        return self._anchors[self._at]

    def resize(self, width: int, height: int, presenter: bool = False) -> None:
        """Set the size of the picture in px. The browser starts with the ranges set here."""
        self.plot.resize(width, height, presenter)
        x, y, h = self.anchor.count(self.navigator.aim)
        self.x_range.update(start=x - h / 2 * width / height, end=x + h / 2 * width / height)
        self.y_range.update(start=y - h / 2, end=y + h / 2)

    def _connect(self) -> None:
        box = BoxAnnotation(visible=False, fill_color="white", fill_alpha=0.2, line_color=LIGHT["gpu"], line_width=2)
        figure, source = self.plot.figure, self.frames.source
        figure.add_layout(box)
        args = {"figure": figure, "x_range": self.x_range, "y_range": self.y_range, "source": source}
        code = CustomJS(args={**args, "state": self.pointer_state, "box": box}, code=POINTER_CODE)
        for event in GESTURES:
            figure.js_on_event(event, code)
        for name in ("frame_width", "frame_height"):
            figure.js_on_change(name, code)
        source.js_on_change("data", code)
        self.pointer_state.js_on_change("told", code)
        self.pointer_state.on_change("seen", self._seen)
        self.pointer_state.on_change("pointer", self._pointed)

    # -- pointer

    def _seen(self, attr: str, old: object, new: list[float]) -> None:
        """Apply a view set by the pointer; ignore it if the server has set another view since."""
        if len(new) != 5 or int(new[0]) != self._serial or int(new[1]) not in self._anchors or not new[4] > 0:
            return
        anchor = self._anchors[int(new[1])]
        height = Fraction(new[4]) * anchor.unit
        self._hearing = True
        try:
            self.navigator.set_view(Viewport(*anchor.place(new[2], new[3]), 4 / height))
        finally:
            self._hearing = False
        aim = self.navigator.aim
        if abs(aim.height / height - 1) > Fraction(1, 10**6):  # the lab's limit of depth or distance
            self._follow(aim)

    def _pointed(self, attr: str, old: object, new: list[float]) -> None:
        if len(new) == 2:
            self._report_pointer(new[0], new[1])

    # -- view

    def _follow(self, aim: Viewport) -> None:
        """Send the navigator's view to the browser, unless the pointer has set it."""
        if not self._hearing:
            self._later(self._tell)

    def _tell(self) -> None:
        self._serial += 1
        if self.anchor.serves(self.navigator.aim):
            self.pointer_state.told = self._look()
        else:  # too far for the picture of the old view
            self._step()
            self.drawn = self._everywhere()
            self._write(NO_FRAME, [], BLANK, waiting=True)

    def _look(self) -> list[float]:
        return [float(self._serial), float(self._at), *self.anchor.count(self.navigator.aim)]

    def _step(self) -> list[float]:
        """Switch to another anchor; return [number of the last one, dx, dy, scale], or [] if that is too far away."""
        last, before = self._at, self.anchor
        self._at += 1
        self._anchors[self._at] = Anchor.near(self.navigator.aim)
        self._anchors.pop(self._at - KEPT, None)
        step = before.step_to(self.anchor)
        return [float(last), *step] if step else []

    # -- frames

    def draw(self, number: int, frame: Frame) -> None:
        """Draw a frame at its position; skip it if it equals the visible picture."""
        notes, facts, raster = frame.notes, frame.facts, frame.rasters["escape"]
        place = Viewport.parse((notes["center_re"], notes["center_im"]), notes["zoom"])
        step = [] if self.anchor.serves(self.navigator.aim) else self._step()
        levels, waiting = raster.levels, raster.waiting
        if self.anchor.can_draw(place):
            self.drawn = self._extent(place, raster, (facts["raster_ny"], facts["raster_nx"]))
        else:
            levels, self.drawn, waiting = BLANK, self._everywhere(), True
        if self._same(levels, waiting):
            self.frames.skip(number)
        else:
            self._write(number, step, levels, waiting)

    def _same(self, levels: Levels, waiting: bool) -> bool:
        shown, at, extent, waited = self._shown
        return (at, extent, waited) == (self._at, self.drawn, waiting) and np.array_equal(shown, levels)

    def _extent(self, place: Viewport, raster: Raster, shape: tuple[float, float]) -> Extent:
        """Return the extent, in the anchor's coordinates, of a raster of `place`, whose own extent is in pixels."""
        x, y, height = self.anchor.count(place)
        unit, (ny, nx), (x0, y0, x1, y1) = height / shape[0], shape, raster.extent
        left, low = x - nx / 2 * unit, y - ny / 2 * unit
        return left + x0 * unit, low + y0 * unit, left + x1 * unit, low + y1 * unit

    def _everywhere(self) -> Extent:
        """Return an extent larger than the view, in the anchor's coordinates."""
        x, y, height = self.anchor.count(self.navigator.aim)
        reach = WIDE * height
        return x - reach, y - reach, x + reach, y + reach

    def _write(self, number: int, step: list[float], levels: Levels, waiting: bool) -> None:
        self._shown = (levels, self._at, self.drawn, waiting)
        self.frames.write(number, self._columns(step, levels, waiting))

    def _columns(self, step: list[float], levels: Levels, waiting: bool) -> dict[str, Any]:
        x0, y0, x1, y1 = self.drawn
        anchor = self.anchor
        origin = [float(anchor.re), float(anchor.im), float(anchor.exponent)]
        where = {"anchor": [self._at], "step": [step], "look": [self._look()], "origin": [origin]}
        about = {**where, "waiting": [waiting]}
        return {"escape": [levels], "x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0], **about}


def label_axes(plot: figure, source: ColumnDataSource, x_range: Range1d, y_range: Range1d) -> None:
    """Add ticks to both axes of `plot`; column "origin" of `source` contains [re, im, exponent of the unit]."""
    for axis, along, own in ((plot.xaxis, 0, x_range), (plot.yaxis, 1, y_range)):
        args: dict[str, Any] = {"source": source, "own": own, "along": along, "decimals": DECIMALS, "plot": plot}
        axis.ticker = CustomJSTicker(args=args, major_code=AXES_CODE + "return ticks();")
        axis.formatter = CustomJSTickFormatter(args=args, code=AXES_CODE + "return words(tick);")


def shows_offsets(exponent: int) -> bool:
    """Return whether axes with the unit 10^exponent show distances from the centre."""
    return -exponent + 1 > DECIMALS
