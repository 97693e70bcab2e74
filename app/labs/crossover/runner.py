"""Run, pause, again: nothing is measured before somebody asks for it, and a changed value ends what runs."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

from app.session import Session
from app.widgets import icon


class Runner:
    """The buttons of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.run = pmui.Button(label="Run", icon="play_arrow", size="medium", margin=(2, 4, 2, 8), width=104)
        self.run.on_click(lambda event: self.toggle())
        again = icon("replay", "Again from the beginning (R)", self.again, align="center")
        self.panel = pmui.Row(self.run, again, margin=(8, 0), sizing_mode="stretch_width")
        session.param.watch(lambda event: self.refresh(), "playing")

    @property
    def finished(self) -> bool:
        """Whether all that was asked for is measured."""
        frame = self.session.latest
        return frame is not None and self.session.answered and frame.facts.get("finished") == 1

    @property
    def running(self) -> bool:
        """Whether something is being measured."""
        return self.session.playing and not self.finished

    def toggle(self) -> None:
        """Run, or pause; what is complete is measured again."""
        if self.finished:
            self.again()
        else:
            self.session.play(not self.session.playing)

    def again(self) -> None:
        """Forget what was measured, and run."""
        self.session.answered = False  # the frame that is shown says nothing of what comes
        self.session.act("reset")
        self.session.play(True)
        self.refresh()

    def change(self, **values: Any) -> None:
        """Set values of the lab. What runs is ended: it was about other values; nothing begins by itself."""
        if all(self.session.values[name] == value for name, value in values.items()):
            return
        if self.session.playing:
            self.session.play(False)
        self.session.change(**values)

    def refresh(self) -> None:
        """Say on the button what a press would do."""
        running = self.running
        self.run.param.update(label="Pause" if running else "Run", icon="pause" if running else "play_arrow")
