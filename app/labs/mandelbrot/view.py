"""The main area of the Mandelbrot lab: picture, inset, histogram, and position as text. One per session."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import panel as pn
from bokeh.models import FixedTicker

from app.labs.mandelbrot.colour_scale import Histogram, PaletteMapper, bar_ticks
from app.labs.mandelbrot.navigator import Navigator, Throttle, scientific
from app.labs.mandelbrot.overlays import JuliaPlot, OrbitOverlay, in_anchor_units
from app.labs.mandelbrot.overlays import around as extent_around
from app.labs.mandelbrot.pan_zoom_view import PanZoomView, label_axes, shows_offsets
from app.labs.mandelbrot.places import PlaceText
from app.page.theme import GRID, html_pane, letter, set_type
from app.tab.lab_view import LabView, Size
from app.tab.plots import around
from app.tab.session import Session
from app.upstream.plot_pane import PlotPane
from compute.lab.frames import Frame
from compute.measure.rates import spaced

SMALLEST = 128, 64  # px, minimum size of the picture: a phone in landscape leaves 94 above a bar of two lines
HISTOGRAM = {0: 116, 640: 136}  # px of the histogram and the text next to it, by minimum height of the window
PLACE = {False: 100, True: 136}  # px of the text alone, two lines of words and two of digits, by presenter mode
ROOMY = (560, 420)  # px, minimum width and height for the histogram
LOW = {False: 400, True: 560}  # px of height below which only the picture is shown, by presenter mode
BAR_TITLES = {  # title of the colour bar by colouring
    "histogram": "iterations until |z| > 2; black: inside the set",
    "smooth": "iterations until |z| > 2; black: inside the set",
    "distance": "distance to the set; black: inside it",
    "interior": "inside: |derivative of the cycle|, 0 attracts most",
}
MOST_PIXELS = 10**6  # maximum per frame
SHARP = 1.25  # maximum of frame pixels per screen pixel and axis, before a frame is reduced by an integer factor
CALM = 250  # ms after the last change of size before the lab's grid is changed
MIDDLE = (0.5, 0.5)  # of the view: assumed position of the pointer before its first move
FIGURES = 3  # significant digits of zoom and spacing
HINT_PLACE = {"position": "absolute", "left": "88px", "top": "24px", "z-index": "2", "pointer-events": "none"}
HINT = """
.hint { display: inline-block; max-width: 26em; background: rgb(0 0 0 / 70%); color: #fff; border-radius: 6px;
  padding: 6px 12px; font-size: var(--small, 14px); line-height: 1.4; }
"""
Resolution: TypeAlias = float | tuple[int, int]


class MandelbrotView(LabView):
    """Picture, inset, histogram and text of one session, and their layout."""

    RESOLUTIONS: ClassVar[dict[str, Resolution]] = {
        "screen resolution": 1.0,
        "half": 0.5,
        "quarter": 0.25,
        "600 × 600": (600, 600),
        "1080 × 1920": (1080, 1920),
        "lesson's scene 2000 × 3000": (2000, 3000),
    }

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self._resolution: Resolution = 1.0
        self._with_histogram = True
        self._resizing: Any = None
        later = session.document.add_timeout_callback
        moves = Throttle(session.change, later)
        self.navigator = Navigator(moves, session.values, forget=moves.forget)
        self.colours = PaletteMapper()
        self.picture = PanZoomView(self.navigator, self.colours.mapper, session.later, self._pointed)
        self.picture.frames.serve(session)
        self.colours.follow(self.picture.frames.source)
        self._point = Throttle(session.change, later)
        self.orbit = OrbitOverlay(self.picture.plot.figure, "mandelbrot orbit")
        self.inset = JuliaPlot(self.colours.mapper)
        self.histogram = Histogram(self.colours.mapper, self._under(True))
        self.place = PlaceText(sizing_mode="stretch_width", height=self._under(True), margin=(0, 16, 0, 8))
        self._pointer = MIDDLE
        self._marks: dict[float, str] = {}
        self._build()
        session.frames.subscribe(self._show)

    def _build(self) -> None:
        plot, source = self.picture.plot, self.picture.frames.source
        label_axes(plot.figure, source, self.picture.x_range, self.picture.y_range)
        plot.name_axes("Re c", "Im c")
        self.bar = plot.add_bar(self.colours.mapper, FixedTicker(ticks=[]), title=BAR_TITLES["histogram"])
        self._below = PlotPane(self.histogram.figure, margin=0, sizing_mode="stretch_width")
        self.picture.resize(*self._size())
        self._pane = PlotPane(plot.figure, margin=0)
        self.hint = html_pane("", HINT, visible=False, styles=HINT_PLACE, sizing_mode=None)
        style: dict[str, Any] = {"margin": (GRID, 0, 0, 0), "align": "center", "styles": {"position": "relative"}}
        picture = pn.Column(self._pane, self.inset.pane, self.hint, **style)
        wide, high = self.size
        self._row = pn.Row(
            self._below, self.place, margin=0, width=wide, height=max(1, self._under(True)), sizing_mode="fixed"
        )
        self.panel = pn.Column(picture, self._row, margin=0, width=wide, height=high, sizing_mode="fixed")
        self.wait_for(plot.figure, self.histogram.figure)
        self._resize()

    # -- layout

    def resolve(self, resolution: Resolution) -> None:
        """Set the lab's resolution: a factor relative to screen pixels, or (rows, columns)."""
        self._resolution = resolution
        self.arrange()

    def show_histogram(self, shown: bool) -> None:
        """Show the histogram below the picture if there is room, or hide it."""
        self._with_histogram = shown
        self.resize(*self.size)

    def arrange(self) -> None:
        """Set all sizes on the screen; the lab's grid is changed CALM ms after the last call."""
        roomy = self.size[0] >= ROOMY[0] and self.size[1] >= ROOMY[1] and not self._low
        self.histogram.figure.visible = self._below.visible = self._with_histogram and roomy
        self.panel.param.update(width=self.size[0], height=self.size[1])
        self._row.width = self.size[0]
        width, height = self._size()
        self.picture.resize(width, height, self.presenter)
        self._pane.param.update(width=self.picture.plot.figure.width, height=self.picture.plot.figure.height)
        self.inset.resize(height)
        under = self._under(self.histogram.figure.visible)
        self._row.visible = not self._low
        if not self._low:
            self.histogram.figure.height = self._row.height = self.place.height = under
        if self._resizing is not None:
            self.session.document.remove_timeout_callback(self._resizing)
        self._resizing = self.session.document.add_timeout_callback(self._resize, CALM)

    def _resize(self) -> None:
        """Set the lab's grid to the size of the picture."""
        self._resizing = None
        width, height = self._size()
        ny, nx = self._resolution if isinstance(self._resolution, tuple) else grid(height, width, self._resolution)
        self.session.set_view(None, grid(height, width, SHARP))
        self.session.change(ny=ny, nx=nx)
        self.picture.pointer_state.grain = height / ny

    def _size(self) -> tuple[int, int]:
        """Return (width, height) in px of the picture: the free space, or within it the shape of a fixed grid."""
        more = around(self.presenter)
        width = max(SMALLEST[0], self.size[0] - more[0] - GRID)
        under = self._under(self.histogram.figure.visible)
        height = max(SMALLEST[1], self.size[1] - more[1] - under - 2 * GRID)
        if isinstance(self._resolution, tuple):
            ny, nx = self._resolution
            scale = min(width / nx, height / ny)
            return max(1, round(nx * scale)), max(1, round(ny * scale))
        return width, height

    @property
    def _low(self) -> bool:
        """Whether there is room for the picture only."""
        return self.alone or self.size[1] < LOW[self.presenter]

    def _under(self, histogram: bool) -> int:
        """Return the height in px of the row below the picture, with or without the histogram."""
        if self._low:
            return 0
        if not histogram:
            return PLACE[self.presenter]
        return PLACE[True] if self.presenter else HISTOGRAM[max(room for room in HISTOGRAM if room <= self.size[1])]

    # -- theme

    def apply_theme(self) -> None:
        """Apply colours to histogram and inset, and fonts to all plots."""
        set_type(self.picture.plot.figure, self.presenter)
        self.colours.set_theme(self.dark)
        self.histogram.set_theme(self.dark, self.presenter)
        self.inset.set_theme(self.dark, self.presenter)

    def box_mode(self, on: bool) -> None:
        """Set whether dragging draws a box to zoom into, or pans."""
        self.picture.pointer_state.boxing = on

    # -- pointer

    def _pointed(self, fx: float, fy: float) -> None:
        """Store the pointer's position, and send it to the lab if an overlay needs it."""
        self._pointer = (fx, fy)
        if self._explaining and self.session.values["pointer"] != self._pointer:
            self._point(pointer=self._pointer)

    @property
    def _explaining(self) -> bool:
        return bool(self.session.values["julia"] or self.session.values["orbit_length"])

    # -- frames

    def _show(self, frame: Frame) -> None:
        self.picture.draw(frame.number, frame)
        self._trace(frame)
        self.inset.show(frame, self.session.values["julia"])

    def _trace(self, frame: Frame) -> None:
        """Draw the orbit over the picture."""
        curve = frame.curves.get("orbit") if self.session.values["orbit_length"] else None
        points = in_anchor_units(curve, self.picture.anchor) if curve is not None else None
        if points is None:
            self.orbit.clear()
        else:
            self.orbit.show(points, extent_around(self.picture.drawn))

    def tick(self) -> None:
        """Update ticks, histogram and text, a few times a second."""
        self._say()
        if self._explaining and self.session.values["pointer"] is None:
            self._pointed(*self._pointer)
        frame = self.session.latest
        if frame is None:
            return
        colouring = self.session.values["colouring"]
        marks = bar_ticks(frame.rasters["escape"], colouring, frame.curves, self._size()[0], letter(self.presenter))
        if marks != self._marks:
            self._marks = marks
            self.bar.ticker.ticks = list(marks)
            self.bar.major_label_overrides = marks
        if self.bar.title != BAR_TITLES[colouring]:
            self.bar.title = BAR_TITLES[colouring]
        if self.histogram.figure.visible:
            self.histogram.show(frame, colouring)
        hint = f"<div class='hint' role='status'>{inside(frame)}</div>" if inside(frame) else ""
        if hint != self.hint.object:
            self.hint.param.update(object=hint, visible=bool(hint))

    def _say(self) -> None:
        """Update the text with the position of the picture."""
        shown, (re, im) = self.navigator.shown, self.navigator.center
        deep = shows_offsets(self.picture.anchor.exponent)
        more = "axes relative to the centre" if deep else f"pixel {in_words(self.navigator.spacing)}"
        words = f"Zoom {in_words(shown.zoom)} · {more}"
        most = self.session.values["max_iterations"]
        self.place.param.update(re=re, im=im, zoom=self.navigator.zoom, words=words, iterations=most)


def inside(frame: Frame) -> str:
    """Return the explanation of a picture of a single colour as HTML; "" for other pictures."""
    facts = frame.facts
    if facts["waiting"] == 1:
        return "<b>Not computed yet.</b> Every pixel needs more iterations."
    if not facts["finished"] or facts["inside"] < 1:
        return ""
    limit = spaced(facts["limit"])
    words = f"Every point shown stays bounded for {limit} iterations, so it counts as a member."
    return f"<b>Inside the set.</b> {words} Allow more iterations to see whether some leave later."


def grid(height: int, width: int, factor: float) -> tuple[int, int]:
    """Return (rows, columns) for a picture of height x width px: `factor` times its size, at most MOST_PIXELS."""
    part = min(factor, (MOST_PIXELS / (height * width)) ** 0.5)
    return max(1, round(height * part)), max(1, round(width * part))


def in_words(number: Fraction) -> str:
    """Format with three digits: "1.5", "0.0071", "5e113"."""
    text = scientific(number, FIGURES)
    return f"{float(text):g}" if -4 <= int(text.partition("e")[2]) <= 4 else text
