"""The L-curve with its ribbons, the rules' numbered badges, and a ring at the picked λ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.document import Document
from bokeh.models import ColumnDataSource, Label, Span
from numpy.typing import NDArray

from app.labs.l_curve.free_places import Corner, FreeRoom
from app.labs.l_curve.labels import RULE_NUMBERS, rule_hue
from app.labs.l_curve.linked_view import PlotPointer, draw_linked
from app.labs.l_curve.rule_markers import badge_places
from app.page.theme import FAMILY, colours, set_type, type_size
from app.tab.curve_plots import LogWindow
from app.tab.lean_plots import rewrite
from app.tab.plots import Position
from app.tab.stream import FrameSource
from compute.lab.frames import Frame

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class CurvePath:
    """Base-10 logarithms of λ (ascending) and of the residual and solution norms at these λ."""

    lam: Vector
    residual: Vector
    solution: Vector

    @classmethod
    def of(cls, frame: Frame) -> CurvePath | None:
        """Return a frame's path without points that a logarithmic axis cannot show; None with fewer than 2 points."""
        curve, lambdas = frame.curves["l-curve"], frame.curves["width"].x
        good = np.isfinite(curve.x) & np.isfinite(curve.y) & (curve.x > 0) & (curve.y > 0)
        if np.count_nonzero(good) < 2:
            return None
        return cls(*(np.log10(values[good]) for values in (lambdas, curve.x, curve.y)))

    def points(self) -> Vector:
        """Return the residual and solution norms, float64 (n, 2), in the order of λ."""
        return np.asarray(10.0 ** np.column_stack([self.residual, self.solution]))

    def at(self, lam: float) -> tuple[float, float]:
        """Return (residual norm, solution norm) at λ by interpolation; the end of the curve for λ outside its range."""
        where = np.log10(lam)
        residual, solution = (np.interp(where, self.lam, values) for values in (self.residual, self.solution))
        return float(10**residual), float(10**solution)

    def nearest(self, x: float, y: float, scale: tuple[float, float]) -> float:
        """Return the λ of the point on the curve nearest to (x, y) on the screen, interpolated between two points.

        x, y: norms > 0; scale: px per decade in x and y.
        """
        points = np.column_stack([self.residual * scale[0], self.solution * scale[1]])
        place = np.array([np.log10(x) * scale[0], np.log10(y) * scale[1]])
        starts, steps = points[:-1], np.diff(points, axis=0)
        squares = (steps**2).sum(axis=1)
        along = ((place - starts) * steps).sum(axis=1)
        parts = np.clip(np.divide(along, squares, out=np.zeros_like(along), where=squares > 0), 0, 1)
        distances = ((starts + parts[:, None] * steps - place) ** 2).sum(axis=1)
        best = int(np.argmin(distances))
        return float(10 ** (self.lam[best] + parts[best] * (self.lam[best + 1] - self.lam[best])))


WORD_WIDE, LINE_HIGH = 0.5, 1.4  # in font sizes: maximum width of a letter of the labels below, and line height
CLEAR = 0.6  # in font sizes, between these labels and the curve
EDGE = 3  # px between labels and a badge, the ring or a cross hair
NOISE, SMOOTHING = "small λ: noise dominates", "large λ: smoothing dominates"  # labels at the two ends of the curve
X_LABEL = "residual norm  ‖Ax − b‖"
Y_LABELS = "solution norm  ‖x‖", "seminorm  ‖x′‖", "seminorm  ‖x″‖"  # by the derivative in the penalty
BADGE = {False: 24, True: 32}  # px, by presenter mode
TICK = {False: (64, 36), True: (88, 48)}  # px of each axis per power of ten
AROUND = {False: (64, 56), True: (84, 72)}  # px left of and below the axes
RING = 18  # px
FEW = 40  # maximum of λ values that are drawn as dots
DOT = 7  # px


class LCurvePlot:
    """The L-curve in one figure; picked(λ) is called for taps and drags on it."""

    def __init__(self, document: Document, picked: Callable[[float], None]) -> None:
        self._picked = picked
        element = self._element()
        self._pointer = PlotPointer(element, document, self._pointed)
        self._plot, self.figure = draw_linked(element, document, "l-curve plot")
        found = self.figure.renderers
        self.ribbon, self.line, self.dots, self.leaders, self.badges, self.numbers, self.ring = found
        self.x = LogWindow(self.figure.x_range, self.figure.xaxis[0], 7)
        self.y = LogWindow(self.figure.y_range, self.figure.yaxis[0], 5)
        self.path: CurvePath | None = None
        self._rules: dict[str, float] = {}
        self._marks: tuple[Any, ...] = ()
        self._badges: list[Position] = []  # centre of each in px
        self._around: tuple[Any, ...] = ()  # the objects around which the labels were placed
        self._beside: float | None = None  # the λ for which they were placed
        self._room = FreeRoom(1.0, 1.0)  # free space around these objects
        self._corners: dict[str, Corner | None] = {}  # label positions by name
        self._lam: float | None = None
        self._finish()
        self.set_theme(dark=False, presenter=False)

    @staticmethod
    def _element() -> hv.Overlay:
        """Return all elements in drawing order, with placeholder data."""
        ends = np.array([1.0, 10.0])
        names = (ends, ends, ["", ""])
        options: dict[str, object] = {
            "xlabel": X_LABEL,
            "ylabel": Y_LABELS[0],
            "toolbar": None,
            "default_tools": [],
            "show_legend": False,
        }
        return hv.Overlay(
            [
                hv.Polygons([{"x": [1, 10, 10], "y": [1, 1, 10]}], ["x", "y"]).opts(line_width=0),
                hv.Curve((ends, ends), "x", "y").opts(line_width=4),
                hv.Points((ends, ends), ["x", "y"]).opts(size=DOT),
                hv.Segments((ends, ends, ends, 2 * ends), ["x", "y", "x1", "y1"]).opts(line_width=1.5),
                hv.Points((ends, ends), ["x", "y"]).opts(size=1),
                hv.Labels(names, ["x", "y"], "name"),
                hv.Points((ends, ends), ["x", "y"]).opts(size=RING),
            ]
        ).opts(logx=True, logy=True, **options)

    def _finish(self) -> None:
        """Add elements that HoloViews lacks: cross hairs, and the source with which the browser acknowledges frames."""
        self.frames = FrameSource({}, "l-curve frames")
        self.figure.scatter("number", "number", source=self.frames.source, visible=False)
        self.hairs = [Span(dimension=way, location=1.0, line_width=1.5, line_dash="dashed", visible=False)
                      for way in ("height", "width")]  # fmt: skip
        for hair in self.hairs:
            self.figure.add_layout(hair)
        ends = {"text_font": FAMILY, "text_font_style": "italic", "visible": False, "x": 1.0, "y": 1.0}
        self.noise = Label(text=NOISE, name="noise dominates", **ends)
        self.smoothing = Label(text=SMOOTHING, name="smoothing dominates", **ends)
        for label in (self.noise, self.smoothing):
            self.figure.add_layout(label)
        for name, renderer in (("l-curve", self.line), ("ribbon", self.ribbon), ("picked", self.ring),
                               ("badges", self.badges)):  # fmt: skip
            renderer.data_source.name = name
        self.numbers.glyph.update(text_align="center", text_baseline="middle", text_font={"value": FAMILY})
        # Column names by HoloViews; a browser may modify the columns of a source later.
        written = self.dots, self.numbers, self.ring, self.leaders, self.ribbon, self.line
        self._columns: dict[Any, list[str]] = {renderer: list(renderer.data_source.data) for renderer in written}
        self._dotted = False
        for renderer in (self.dots, self.numbers, self.ring, self.leaders):
            self._write(renderer, [])
        self._write(self.ribbon, [])
        self.line.visible = False  # until the first frame
        self.badges.data_source.data = {"x": [], "y": [], "hue": []}
        self.badges.glyph.fill_color = "hue"

    def _write(self, renderer: Any, columns: list[Any]) -> None:
        """Write `columns` into a renderer's source in the order of its columns; [] empties it."""
        source: ColumnDataSource = renderer.data_source
        names = self._columns[renderer]
        rewrite(source, dict(zip(names, columns or [[] for _ in names], strict=True)))

    # -- theme

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size; `resize` must be called afterwards to place the badges."""
        scheme = colours(dark)
        self._dark, self._presenter = dark, presenter
        self.ribbon.glyph.update(fill_color=scheme["accent"], fill_alpha=0.22, line_alpha=0)
        self.line.glyph.update(line_color=scheme["accent"], line_width=5 if presenter else 4)
        self.dots.glyph.update(fill_color=scheme["accent"], line_color=scheme["paper"])
        self.leaders.glyph.line_color = scheme["muted"]
        self.badges.glyph.update(size=BADGE[presenter], line_color=scheme["paper"], fill_alpha=1, line_width=1)
        self.numbers.glyph.update(
            text_color=scheme["paper"], text_font_size=f"{type_size(presenter)}px", text_font_style="bold"
        )
        self.ring.glyph.update(line_color=scheme["ink"], line_width=3.5, fill_color=scheme["paper"], fill_alpha=0.5)
        for hair in self.hairs:
            hair.update(line_color=scheme["ink"], line_alpha=0.65)
        for label in (self.noise, self.smoothing):
            label.text_color = scheme["ink"]
        self.figure.update(min_border_left=AROUND[presenter][0], min_border_bottom=AROUND[presenter][1])
        set_type(self.figure, presenter)

    def resize(self, width: int, height: int) -> None:
        """Set the outer size in px."""
        self.figure.update(width=width, height=height)
        for window, length, tick in zip((self.x, self.y), self.inner, TICK[self._presenter], strict=True):
            window.ticks(max(2, int(length // tick)))
        self._marks = ()
        self.mark_rules(self._rules)
        self._name_ends()

    @property
    def inner(self) -> tuple[float, float]:
        """The size (width, height) in px of the area within the axes."""
        left, below = AROUND[self._presenter]
        return max(1.0, (self.figure.width or 600) - left - 16), max(1.0, (self.figure.height or 400) - below - 8)

    # -- frames

    def forget(self) -> None:
        """Reset the axes; called when the problem changes."""
        self.x.forget()
        self.y.forget()

    def show(self, frame: Frame) -> None:
        """Draw the curve and its ribbons of `frame`."""
        self.path = CurvePath.of(frame)
        label = Y_LABELS[int(frame.facts["derivative"])]
        if self.figure.yaxis[0].axis_label != label:
            self.figure.yaxis[0].axis_label = label
        curve = frame.curves["l-curve"]
        moved = [self.x.fit(curve.x), self.y.fit(curve.y)]
        x, y = self.x.clipped(curve.x), self.y.clipped(curve.y)
        self._draw_ribbon(frame)
        self._write(self.line, [x, y])
        self.line.visible = True
        few = len(x) <= FEW
        if few or self._dotted:
            self._dotted = few
            self._write(self.dots, [x, y] if few else [])
        if any(moved):
            self._marks = ()

    def _name_ends(self) -> None:
        """Place the labels near the ends of the curve that name the problem of a λ there.

        The labels avoid the curve, the rules' badges, the ring and the cross hairs. In a plot without enough space they
        are hidden.
        """
        if self.path is None:
            return
        points, high = self.path.points(), type_size(self._presenter)
        clipped = np.column_stack([self.x.clipped(points[:, 0]), self.y.clipped(points[:, 1])])
        drawn = np.array([self._px(*point) for point in clipped])
        around = drawn.tobytes(), tuple(self._badges), self.inner, self._presenter
        if (around, self._lam) == (self._around, self._beside):
            return
        if around != self._around:  # not only another λ
            self._around, self._room = around, self._beside_curve(drawn)
        self._beside, room = self._lam, self._room.copy()
        self._take_mark(room)
        for label, end in ((self.noise, 0), (self.smoothing, -1)):
            size = WORD_WIDE * high * len(label.text), LINE_HIGH * high
            corner = self._corners[label.name] = room.nearest(size, drawn[end], self._corners.get(label.name))
            if corner is None:
                label.visible = False
                continue
            room.take_box(corner, size)
            known = label.x, label.y, label.x_offset, label.y_offset, label.visible
            (x, y), offset = clipped[end].tolist(), (np.array(corner) - drawn[end]).tolist()
            if known != (x, y, *offset, True):
                label.update(x=x, y=y, x_offset=offset[0], y_offset=offset[1], visible=True)

    def _beside_curve(self, drawn: Vector) -> FreeRoom:
        """Return the space around the curve through `drawn` (px) and the rules' badges."""
        room = FreeRoom(*self.inner)
        room.take_line(drawn, CLEAR * type_size(self._presenter))
        side = BADGE[self._presenter] + 2 * EDGE
        for x, y in self._badges:
            room.take_box((x - side / 2, y - side / 2), (side, side))
        return room

    def _take_mark(self, room: FreeRoom) -> None:
        """Occupy the space of the ring and the cross hairs."""
        if self.path is None or self._lam is None or self._lam <= 0:
            return
        (x, y), (width, height) = self._px(*self.path.at(self._lam)), self.inner
        side = RING + 2 * EDGE
        room.take_box((x - side / 2, y - side / 2), (side, side))
        room.take_box((x - EDGE, 0.0), (2 * EDGE, height))
        room.take_box((0.0, y - EDGE), (width, 2 * EDGE))

    def _draw_ribbon(self, frame: Frame) -> None:
        """Fill the area between the lower and upper bounds of both norms, which contains the true curve."""
        low, high = frame.curves["ribbon-lower"], frame.curves["ribbon-upper"]
        xs = self.x.clipped(np.concatenate([low.x, high.x[::-1]]))
        ys = self.y.clipped(np.concatenate([low.y, high.y[::-1]]))
        self._write(self.ribbon, [[[[xs]]], [[[ys]]]])

    def mark_rules(self, lambdas: Mapping[str, float]) -> None:
        """Place each rule's number next to the curve at its λ, nan for none; `mark` must be called afterwards."""
        self._rules = dict(lambdas)
        if self.path is not None:
            self._place_badges(self.path, lambdas)

    def _place_badges(self, path: CurvePath, lambdas: Mapping[str, float]) -> None:
        known = {name: path.at(lam) for name, lam in lambdas.items() if isfinite(lam) and lam > 0}
        marks = tuple((name, round(x, 12), round(y, 12)) for name, (x, y) in known.items())
        if marks == self._marks:
            return
        self._marks = marks
        drawn = np.array([self._px(*point) for point in path.points()])
        places = badge_places([self._px(*point) for point in known.values()], drawn, BADGE[self._presenter] + 2)
        x, y = np.array([self._norms(*place) for place in places]).reshape(-1, 2).T
        self._badges = [self._px(*norms) for norms in zip(x.tolist(), y.tolist(), strict=True)]
        on = np.array(list(known.values())).reshape(-1, 2).T
        names = [RULE_NUMBERS[name] for name in known]
        self.leaders.data_source.data = {"x": on[0], "y": on[1], "x1": x, "y1": y}
        self.badges.data_source.data = {"x": x, "y": y, "hue": [rule_hue(name, self._dark) for name in known]}
        self._write(self.numbers, [x, y, names])

    def mark(self, lam: float | None) -> None:
        """Move the ring and the cross hairs to λ, and place the labels around them and the badges."""
        self._lam = lam
        self._move_mark(lam)
        self._name_ends()

    def _move_mark(self, lam: float | None) -> None:
        known = self.path is not None and lam is not None and lam > 0
        for hair in self.hairs:
            hair.visible = known
        if not known or self.path is None or lam is None:
            self._write(self.ring, [])
            return
        x, y = self.path.at(lam)
        self._write(self.ring, [[x], [y]])
        for hair, location in zip(self.hairs, (x, y), strict=True):
            hair.location = location

    # -- pixels

    def _px(self, x: float, y: float) -> Position:
        width, height = self.inner
        return self.x.part(x) * width, self.y.part(y) * height

    def _norms(self, px: float, py: float) -> Position:
        width, height = self.inner
        inside = BADGE[self._presenter] / 2
        px, py = min(max(px, inside), width - inside), min(max(py, inside), height - inside)
        return self.x.value(px / width), self.y.value(py / height)

    def _pointed(self, x: float, y: float) -> None:
        if self.path is None or x <= 0 or y <= 0:
            return
        (x0, x1), (y0, y1) = self.x.shown, self.y.shown
        width, height = self.inner
        self._picked(self.path.nearest(x, y, (width / (x1 - x0), height / (y1 - y0))))
