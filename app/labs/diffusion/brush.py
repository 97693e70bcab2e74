"""Painting with the pointer: what dragging does, and the brush's value and radius."""

from __future__ import annotations

import panel_material_ui as pmui

from app.pictures import Pictures, Point
from app.session import Session
from app.widgets import FULL

MAX_POINTS = 1000  # of one stroke between two turns of the loop; the lab takes no more
MODES = {"Move": "move", "Paint": "paint", "Erase": "erase"}


class Brush:
    """Collects the points of a stroke and sends them once per turn of the loop, running or paused."""

    def __init__(self, session: Session, pictures: Pictures) -> None:
        self.session, self.pictures = session, pictures
        self.mode = pmui.RadioButtonGroup(
            label="Pointer", options=MODES, value="move", size="small", margin=(4, 8), sizing_mode="stretch_width"
        )
        self.value = pmui.FloatSlider(
            label="Brush value", value=1.0, start=-1.0, end=2.0, step=0.05, size="small", **FULL
        )
        self.radius = pmui.IntSlider(
            label="Brush radius [% of the side]", value=4, start=1, end=25, size="small", **FULL
        )
        self._options = pmui.Column(self.value, self.radius, visible=False, margin=0, sizing_mode="stretch_width")
        self.panel = pmui.Column(self.mode, self._options, margin=0, sizing_mode="stretch_width")
        self.mode.param.watch(self._switch, "value")
        self._points: list[Point] = []
        self._last: Point | None = None
        self._scheduled = False
        pictures.brushed = self.stroke

    def _switch(self, event: object) -> None:
        self._options.visible = self.mode.value != "move"
        self.value.disabled = self.mode.value == "erase"
        self.session.later(lambda: self.pictures.use_pointer_for(self.mode.value != "move"))

    def stroke(self, points: list[Point], end: bool) -> None:
        """Continue the stroke through `points` (cells); `end` lifts the brush afterwards."""
        inside = [(x, y) for x, y in points if x is not None and y is not None]
        if not self._points and self._last is not None:
            self._points.append(self._last)
        self._points.extend(inside)
        if inside:
            self._last = inside[-1]
        if end:
            self._last = None
        if self._points and not self._scheduled:
            self._scheduled = True
            self.session.later(self._send)

    def _send(self) -> None:
        self._scheduled = False
        points, self._points = self._points[-MAX_POINTS:], []
        side = max(self.session.values["ny"], self.session.values["nx"])
        value = 0.0 if self.mode.value == "erase" else float(self.value.value)
        radius = max(0.5, self.radius.value / 100 * side)
        if points:
            self.session.act("paint", points=points, value=value, radius=radius)
