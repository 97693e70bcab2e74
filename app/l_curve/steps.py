"""Run, one step, again from the beginning, and further; and how fast the curve grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from app.session import Session
from app.transport import run_button
from app.widgets import FULL, icon

TEMPI: dict[str, float | None] = {  # words -> steps a second below 0, steps a frame above; None: all at once
    "2 steps a second": -2,
    "5 steps a second": -5,
    "10 steps a second": -10,
    "1 step a frame": 1,
    "2 steps a frame": 2,
    "5 steps a frame": 5,
    "20 steps a frame": 20,
    "100 steps a frame": 100,
    "as fast as it goes": None,
}
WHOLE = 100_000  # steps: more than any curve takes
SMALL = 250_000  # entries of A up to which a whole curve takes a moment
TIGHTER = 10.0  # times narrower are the ribbons to reach after `further`
FINEST = 1e-12  # ribbon width below which more steps are allowed instead
MORE = 2  # times as many steps then


class Steps:
    """The buttons of one session. While a slider is dragged (`rush`) a small problem is shown when it is done."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._timer: Any = None
        self._rushing = False
        self.run = run_button(session, self.toggle)
        buttons = [
            icon("skip_next", "One step (S)", self.step, align="center"),
            icon("replay", "Again from the first step (R)", self.again, align="center"),
            icon("fast_forward", "Further: narrower ribbons, or more steps (F)", self.further, align="center"),
        ]
        self.tempo = pmui.DiscreteSlider(label="Growth", options=TEMPI, value=1, size="small", **FULL)
        self.tempo.param.watch(lambda event: self._pace(), "value")
        self.panel = pmui.Column(
            pmui.Row(self.run, *buttons, margin=0, sizing_mode="stretch_width"), self.tempo, margin=(8, 0, 0, 0)
        )
        self.went_further: Callable[[], object] = _ignore

    def toggle(self) -> None:
        """Run, or pause."""
        if self._timer is not None:
            self._stop()
            self.session.play(False)
        else:
            self.session.play(not self.session.playing)
            if self.session.playing:
                self._pace()

    def step(self) -> None:
        """One step, and stay paused."""
        self._stop()
        self.session.step()

    def again(self) -> None:
        """See the curve grow from its first step."""
        self._rushing = False
        self.session.act("reset")
        self.session.play(True)
        self._pace()

    def grow(self) -> None:
        """What comes next is shown step by step."""
        self._rushing = False
        self._pace()

    def rush(self) -> None:
        """What comes next follows a slider: it is shown when it is done, or while it grows if that takes long."""
        if not self._rushing:
            self._rushing = True
            self._stop()
            frame = self.session.latest
            small = frame is not None and frame.facts["entries"] <= SMALL
            self.session.pace(WHOLE if small else None)

    def further(self) -> None:
        """Go on: to ribbons ten times narrower; where the steps have come to their limit, to twice as many."""
        values, frame = self.session.values, self.session.latest
        at_limit = frame is not None and frame.facts["steps"] >= frame.facts["limit"] and not frame.facts["exhausted"]
        if at_limit:
            most = self.session.lab.param["steps_at_most"].bounds[1]
            self.session.change(steps_at_most=min(most, MORE * values["steps_at_most"]))
        else:
            self.session.change(tolerance=max(FINEST, values["tolerance"] / TIGHTER))
        self.went_further()
        self.session.play(True)
        self._pace()

    # -- tempo

    def _pace(self) -> None:
        """Follow the slider: so many steps a frame, or so many a second."""
        self._stop()
        tempo = self.tempo.value
        if tempo is not None and tempo < 0:
            self.session.pace(1)
            if self.session.playing:
                self._timer = self.session.document.add_periodic_callback(self._tick, round(-1000 / tempo))
        else:
            self.session.pace(None if tempo is None else int(tempo))

    def _tick(self) -> None:
        """One step of a slow growth; once the curve is done, what is left is worked out."""
        frame = self.session.latest
        if not self.session.playing and self.session.state == "broken":
            self._stop()
        elif frame is not None and self.session.answered and frame.facts["done"]:
            self._stop()
            self.session.play(True)
        else:
            self.session.step()

    def _stop(self) -> None:
        if self._timer is not None:
            self.session.document.remove_periodic_callback(self._timer)
            self._timer = None


def _ignore() -> None:
    """Nobody waits."""
