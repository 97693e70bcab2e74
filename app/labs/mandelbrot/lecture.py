"""The group "Explain": the orbit of a point, its Julia set, the area of the set. For a lecture, beside the picture."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.controls import column
from app.session import Session
from app.theme import stylesheet
from app.widgets import FULL, Bound
from compute.frames import Frame

ORBIT = 100  # iterations of the orbit when it is switched on
KNOWN = "known: 1.50640 to 1.53121"  # of the area of the Mandelbrot set


class Lecture(Bound):
    """The widgets of one session; `panel` is the group's body."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.orbit = pmui.Switch(label="Orbit of the point under the pointer (O)", value=False, **FULL)
        self.orbit.param.watch(lambda event: self._draw_orbit(event.new), "value")
        self.length = pmui.IntSlider(
            label=self.parameter("orbit_length").label,
            value=ORBIT,
            start=1,
            end=self.parameter("orbit_length").bounds[1],
            visible=False,
            size="small",
            **FULL,
        )
        self.length.param.watch(lambda event: self._draw_orbit(self.orbit.value), "value")
        self.julia = self.switch("julia", description=self.parameter("julia").doc)
        self.area = self.switch("area", description=self.parameter("area").doc)
        self._words = pn.pane.HTML("", stylesheets=[stylesheet()], margin=(0, 16), visible=False)
        self.panel = column(self.orbit, self.length, self.julia, self.area, self._words)

    def _draw_orbit(self, shown: bool) -> None:
        self.length.visible = shown
        self.session.change(orbit_length=self.length.value if shown else 0)

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which the session took without these widgets."""
        super().follow(values)
        if "orbit_length" in values:
            self.orbit.value = values["orbit_length"] > 0

    def tick(self, frame: Frame) -> None:
        """Show the area so far."""
        wanted = self.session.values["area"]
        if wanted != self._words.visible:
            self._words.visible = wanted
        html = f"<div class='area'>{area(frame.facts)}</div>"
        if wanted and html != self._words.object:
            self._words.object = html


def area(facts: Mapping[str, float]) -> str:
    """The estimate with its standard error, as HTML."""
    mean, error, passes = facts["area"], facts["area_error"], facts["area_passes"]
    if not isfinite(mean) or not isfinite(error):
        return "<p>measured once the picture is complete</p>"
    return f"<b>{mean:.5f} ± {error:.5f}</b><p>after {passes:.0f} passes; {KNOWN}</p>"
