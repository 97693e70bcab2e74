"""Play, pause, one step, reset, checkpoint and back, as far as the lab knows them; and how many steps a frame takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from app.session import Session
from app.widgets import FULL, icon

UNDO = "ctrl+z"  # as app.browser writes it
NOTHING_LOST = "Undo (Ctrl+Z): nothing is lost"
FASTEST = "as fast as it goes"
SPEEDS: dict[str, int | None] = {str(n): n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)} | {FASTEST: None}


def run_button(session: Session, toggle: Callable[[], object]) -> pmui.Button:
    """The large button that says what a press would do: run, or pause."""
    button = pmui.Button(label="Run", icon="play_arrow", size="medium", margin=(2, 4, 2, 8), width=104)

    def show(*events: object) -> None:
        """Say on the button what a press would do now."""
        playing = session.playing
        button.param.update(label="Pause" if playing else "Run", icon="pause" if playing else "play_arrow")

    button.on_click(lambda event: toggle())
    session.param.watch(show, "playing")
    return button


class Undo:
    """The button that brings back what was lost last; `act` does it. It is grey while there is nothing."""

    def __init__(self, **look: Any) -> None:
        self.act: Callable[[], object] = _ignore
        self.button = icon("undo", NOTHING_LOST, self.press, disabled=True, **{"align": "center", **look})

    def offer(self, what: str) -> None:
        """What would come back, in words; "" for nothing."""
        words = f"Undo: back to {what} (Ctrl+Z)" if what else NOTHING_LOST
        if words != self.button.description:
            self.button.param.update(description=words, disabled=not what)

    def press(self) -> None:
        """Bring it back, if there is something."""
        if not self.button.disabled:
            self.act()


def _ignore() -> None:
    """Nothing can come back."""


class Transport:
    """The buttons of one session; `keys` do the same."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.run = run_button(session, self.toggle)
        close: dict[str, Any] = {"align": "center", "margin": 0}  # five buttons beside a large one fill the side bar
        buttons = [icon("skip_next", "One step (S)", self.step, **close)]
        known = session.lab.ACTIONS
        if "reset" in known:
            buttons.append(icon("replay", "Reset to the initial field (R)", self.reset, **close))
        if "checkpoint" in known and "rollback" in known:
            buttons.append(icon("bookmark_add", "Checkpoint: remember this state", self.checkpoint, **close))
            buttons.append(icon("settings_backup_restore", "Back to the checkpoint", self.back, **close))
        self.undo = Undo(**close)
        self.undo.act = lambda: session.act("undo")
        if "undo" in known:
            buttons.append(self.undo.button)
        self.keys: dict[str, Callable[[], object]] = {" ": self.toggle, "s": self.step, "r": self.reset}
        self.speed = pmui.DiscreteSlider(
            label="Steps a frame", options=SPEEDS, value=session.steps_per_frame, size="small", **FULL
        )
        self.speed.param.watch(lambda event: session.pace(event.new), "value")
        self.panel = pmui.Column(
            pmui.Row(self.run, *buttons, margin=0, sizing_mode="stretch_width"), self.speed, margin=(8, 0, 0, 0)
        )

    def toggle(self) -> None:
        """Run, or pause."""
        self.session.play(not self.session.playing)

    def step(self) -> None:
        """Advance one step and stay paused."""
        self.session.step()

    def reset(self) -> None:
        """Back to the initial field; what runs goes on running."""
        self.session.act("reset")

    def checkpoint(self) -> None:
        """Remember the state."""
        self.session.act("checkpoint")

    def back(self) -> None:
        """Return to the remembered state."""
        self.session.act("rollback")
