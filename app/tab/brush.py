"""The brush of a lab on a grid: strokes on its pictures become the lab's action `paint`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.page.typed_slider import TypedSlider
from app.page.widgets import FULL
from app.tab.plots import Position, RasterPlots, StrokePoint
from app.tab.session import Session
from compute.lab.strokes import MAX_POINTS

MOST_VALUE = 1000  # of a typed value of the brush, in either direction
MODES = {"Move": "move", "Paint": "paint", "Erase": "erase"}


@dataclass
class StrokePart:
    """Points of a stroke in one message; begins: whether the stroke starts with them."""

    points: list[Position]
    begins: bool


class Brush:
    """Collects the points of strokes and sends them once per turn of the event loop, whether the lab runs or not.

    into(): return arguments of the lab's action `paint`, further ones or in place of the brush's.
    """

    def __init__(
        self, session: Session, pictures: RasterPlots, into: Callable[[], Mapping[str, Any]] = dict[str, Any]
    ) -> None:
        self.session, self.pictures, self._into = session, pictures, into
        self.mode = pmui.RadioButtonGroup(
            label="Pointer", options=MODES, value="move", size="small", margin=(4, 8), sizing_mode="stretch_width"
        )
        self.value = pmui.FloatSlider(
            label="Brush value", value=1.0, start=-1.0, end=2.0, step=0.05, size="small", **FULL
        )
        self.radius = pmui.IntSlider(
            label="Brush radius [% of the side]", value=4, start=1, end=25, size="small", **FULL
        )
        self.value_panel = TypedSlider(self.value, "Brush value", lambda: (-MOST_VALUE, MOST_VALUE)).panel
        radius = TypedSlider(self.radius, "Brush radius").panel
        self._options = pn.Column(self.value_panel, radius, visible=False, margin=0, sizing_mode="stretch_width")
        self.panel = pn.Column(self.mode, self._options, margin=0, sizing_mode="stretch_width")
        self.mode.param.watch(self._switch, "value")
        self._waiting: list[StrokePart] = []  # one part per stroke
        self._last: Position | None = None  # of the current stroke
        self._scheduled = False
        pictures.strokes.subscribe(self.stroke)

    def _switch(self, event: object) -> None:
        self._options.visible = self.mode.value != "move"
        self.value.disabled = self.mode.value == "erase"
        self.session.later(lambda: self.pictures.use_pointer_for(self.mode.value != "move"))

    def stroke(self, point: StrokePoint) -> None:
        """Continue the stroke through `point`, or end it there."""
        if point.x is not None and point.y is not None:
            if self._last is None:
                self._waiting.append(StrokePart([], begins=True))
            elif not self._waiting:
                self._waiting.append(StrokePart([self._last], begins=False))
            self._last = (point.x, point.y)
            self._waiting[-1].points.append(self._last)
        if point.end:
            self._last = None
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self.session.later(self._send)

    def _send(self) -> None:
        self._scheduled = False
        parts, self._waiting = self._waiting, []
        side = max(self.session.values["ny"], self.session.values["nx"])
        value = 0.0 if self.mode.value == "erase" else float(self.value.value)
        radius = max(0.5, self.radius.value / 100 * side)
        for part in parts:
            points = part.points[-MAX_POINTS:]
            own = {"points": points, "value": value, "radius": radius, "begins": part.begins}
            self.session.act("paint", **{**own, **self._into()})
