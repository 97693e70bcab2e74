"""The side bar of the Mandelbrot lab: undo and redo of views, then the groups of controls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.labs.mandelbrot.bookmarks import HOME
from app.labs.mandelbrot.control_groups import ExplainGroup, IterationGroup, MandelbrotDisplay
from app.labs.mandelbrot.navigator import Viewport
from app.labs.mandelbrot.places import PlaceGroup
from app.labs.mandelbrot.view import MandelbrotView
from app.page.notices import Notices
from app.page.widgets import FULL, icon
from app.tab.controls import (
    REDO,
    UNDO,
    BarButton,
    ComputeControls,
    Controls,
    Dial,
    accordion,
    column,
    run_button,
    slider_dial,
)
from app.tab.session import Session
from compute.export.scene import Style
from compute.labs.mandelbrot.scenes import DIFFERENCES, REASONS
from compute.labs.mandelbrot.views import LESSON_SHAPE, VIEWS, Landmark

SCREEN = 1.0  # resolution: one lab pixel per screen pixel
STEP = 8  # an arrow key moves the view by 1/8 of its size
PAN = {"arrowleft": (-1, 0), "arrowright": (1, 0), "arrowup": (0, 1), "arrowdown": (0, -1)}
ZOOM = {"+": 2.0, "=": 2.0, "-": 0.5}  # = is + without Shift on many keyboards


class MandelbrotControls(Controls):
    """The controls of the lab, bound to one session."""

    def __init__(self, session: Session, lab_view: MandelbrotView, notices: Notices) -> None:
        super().__init__(session)
        self.lab_view, self.navigator = lab_view, lab_view.navigator
        self.places = PlaceGroup(session, lab_view, self._picked)
        self.iteration, self.explain = IterationGroup(session), ExplainGroup(session)
        self.display = display = MandelbrotDisplay(session, lab_view)
        self.keep_display(orbit=self.explain.orbit, histogram=display.histogram, cycle=display.cycle)
        self.compute = ComputeControls(session, reasons={**REASONS, **DIFFERENCES})
        groups = {
            "Place": self.places.panel,
            "Iteration": self.iteration.panel,
            "Explain": self.explain.panel,
            "Display": self.display.panel,
            "Compute": column(*self.compute.items, self._resolution()),
        }
        self.panel = column(self._steps(), accordion(groups, opened=(0,)))
        self.dialogs = [self.places.goto.panel]
        self._connect()

    def style(self, part: str) -> Style:
        """Return the palette and its rotation."""
        return self.display.style()

    def apply_style(self, style: Style, part: str) -> None:
        """Apply a palette."""
        self.display.apply_style(style)

    def acts(self) -> list[BarButton]:
        """Return the buttons Run, zoom in, zoom out, and home."""
        zooms: list[BarButton] = [
            ("+", "Zoom in", "Zoom in 2×"),
            ("-", "Out", "Zoom out 2×"),
            ("0", "Home", "The whole set"),
        ]
        return [*super().acts(), *zooms]

    def dials(self) -> list[Dial]:
        """Return the dial for the limit of iterations, on a logarithmic scale."""
        slider = self.iteration.slider_most
        return [slider_dial(slider, lambda _: str(slider.value_label))]

    def _steps(self) -> pn.Row:
        """Return the row of buttons for running and for previous views."""
        navigator = self.navigator
        self.undo = icon("undo", "Previous view (Backspace)", navigator.undo, align="center", disabled=True)
        self.redo = icon("redo", "Next view (Shift+Backspace)", navigator.redo, align="center", disabled=True)
        home = icon("home", "The whole set (0)", self._home, align="center")
        run = run_button(self.session, self.toggle)
        return pn.Row(run, self.undo, self.redo, home, margin=(8, 0, 0, 0), sizing_mode="stretch_width")

    def _connect(self) -> None:
        self.navigator.changed.subscribe(self._moved)
        self.keys = {
            "backspace": self.navigator.undo,
            UNDO: self.navigator.undo,
            "shift+backspace": self.navigator.redo,
            REDO: self.navigator.redo,
            "0": self._home,
            " ": self.toggle,
            "o": partial(flip, self.explain.orbit),
            "j": partial(flip, self.explain.julia),
            "a": partial(flip, self.explain.area),
            "c": self.display.turn,
            "l": self.display.fit,
            "g": self.places.goto.open,
            "m": self.places.mark,
            **{key: partial(self._pan, *step) for key, step in PAN.items()},
            **{key: partial(self._zoom, factor) for key, factor in ZOOM.items()},
        }

    def _pan(self, right: int, up: int) -> None:
        values = self.session.values
        self.navigator.pan_pixels(right * max(1, values["nx"] // STEP), up * max(1, values["ny"] // STEP))

    def _home(self) -> None:
        """Show the initial view of the page: closer than the lab's own view of the whole set, to fill a screen."""
        self.navigator.go(HOME.center, HOME.zoom, HOME.max_iterations)
        self._picked(HOME)

    def _zoom(self, factor: float) -> None:
        self.navigator.zoom_at(0.5, 0.5, factor)

    def toggle(self) -> None:
        """Continue or pause the picture."""
        self.session.play(not self.session.playing)

    def _moved(self, view: Viewport) -> None:
        """Update the buttons after a change of the view; resume a paused lab, as a move requests its picture."""
        self.undo.disabled, self.redo.disabled = not self.navigator.can_undo, not self.navigator.can_redo
        if self.session.phase == "paused":
            self.session.play(True)

    def _resolution(self) -> Any:
        options = self.lab_view.RESOLUTIONS
        self.resolution = pmui.Select(label="Resolution [pixels]", options=options, value=SCREEN, size="small", **FULL)
        self.resolution.param.watch(lambda event: self.session.later(lambda: self.lab_view.resolve(event.new)), "value")
        return self.resolution

    def _picked(self, view: Landmark) -> None:
        """Set the fixed resolution of the lesson's scene, or reset it for any other place."""
        if view == VIEWS["lesson"]:
            self.resolution.value = LESSON_SHAPE
        elif self.resolution.value == LESSON_SHAPE:
            self.resolution.value = SCREEN

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        super().show_values(values)
        for part in (self.iteration, self.display, self.explain, self.compute):
            part.show_values(values)
        # Values of a link are unanswered by the lab at this time; refused values are answered.
        self.navigator.show_values(values, refused=self.session.answered)

    def landmark(self) -> object:
        """Return the number of jumps: moves and zooms after a jump add no entry to the browser's history."""
        return self.navigator.jumps

    def tick(self) -> None:
        """Update from the latest frame, a few times a second."""
        self.navigator.tick()
        frame = self.session.latest
        if frame is not None:
            self.iteration.tick(frame)
            self.explain.tick(frame)
            self.display.tick(frame)


def flip(switch: Any) -> None:
    """Toggle a switch."""
    switch.value = not switch.value
