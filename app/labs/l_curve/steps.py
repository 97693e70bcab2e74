"""Run, one step, again from the beginning, and further; and how fast the curve grows."""

from __future__ import annotations

from collections.abc import Callable

import panel_material_ui as pmui

from app.session import Session
from app.transport import Undo, run_button
from app.widgets import FULL, icon

TEMPI: dict[str, float | None] = {  # words -> steps a second below 0, steps a frame above; None: as many as fit
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
FEWEST = 16  # steps before a picture while a slider is dragged
SMALL = 250_000  # entries of A up to which a whole curve takes a moment
TIGHTER = 10.0  # times narrower are the ribbons to reach after `further`
FINEST = 1e-12  # ribbon width below which nothing is narrower
MORE = 2  # times as many steps where their limit was reached


class Steps:
    """The buttons of one session; rest(seconds) sets how long the stage rests after each frame.

    While a slider is dragged (`rush`) a small problem is shown when it is about done.
    """

    def __init__(self, session: Session, rest: Callable[[float], None]) -> None:
        self.session, self._rest = session, rest
        self._rushing = False
        self.run = run_button(session, self.toggle)
        buttons = [
            icon("skip_next", "One step (S)", self.step, align="center"),
            icon("replay", "Again from the first step (R)", self.again, align="center"),
            icon("fast_forward", "Further: narrower ribbons, or more steps (F)", self.further, align="center"),
        ]
        self.undo = Undo()
        buttons.append(self.undo.button)
        self.tempo = pmui.DiscreteSlider(label="Growth", options=TEMPI, value=1, size="small", **FULL)
        self.tempo.param.watch(lambda event: self.grow(), "value")
        self.panel = pmui.Column(
            pmui.Row(self.run, *buttons, margin=0, sizing_mode="stretch_width"), self.tempo, margin=(8, 0, 0, 0)
        )
        self.went_further: Callable[[], object] = _ignore

    def toggle(self) -> None:
        """Run, or pause."""
        self.session.play(not self.session.playing)

    def step(self) -> None:
        """One step, and stay paused."""
        self.session.step()

    def again(self) -> None:
        """See the curve grow from its first step."""
        self.grow()
        self.session.act("reset")
        self.session.play(True)

    def grow(self) -> None:
        """What comes next is shown step by step, at the slider's pace."""
        self._rushing = False
        tempo = self.tempo.value
        slow = tempo is not None and tempo < 0
        self._rest(-1 / tempo if slow else 0.0)
        self.session.pace(1 if slow else None if tempo is None else int(tempo))

    def rush(self) -> None:
        """What comes next follows a slider: it is shown when it is about done, or while it grows if that takes long.

        The next curve takes about as many steps as the present one, whose rules need not be waited for.
        """
        if not self._rushing:
            self._rushing = True
            frame = self.session.latest
            small = frame is not None and frame.facts["entries"] <= SMALL
            self._rest(0.0)
            self.session.pace(max(FEWEST, int(frame.facts["steps"])) if small and frame is not None else None)

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
        self.grow()
        self.session.play(True)


def _ignore() -> None:
    """Nobody waits."""
