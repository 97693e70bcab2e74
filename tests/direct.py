"""A session without an engine: the interface of a tab to a lab that runs step by step in this process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import param
from bokeh.document import Document

from app.tab.publisher import Publisher
from compute.engine import messages
from compute.lab.lab import Lab
from tests.waiting import until


def read(upload: Any, seconds: float = 120.0) -> None:
    """Wait until a file field has read its file and passed it on."""
    until(lambda: (upload.busy and upload.tick(), not upload.busy)[1], seconds)


class DirectSession(param.Parameterized):
    """Apply values and actions immediately; restore values that the lab refuses, as app.tab.session does.

    frames, events, value_changes: as in Session. `see` computes the latest frame.
    """

    playing = param.Boolean(default=False)
    state = param.String(default="paused")

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.live, self.lab = lab, type(lab)
        self.values: dict[str, Any] = lab.values()
        self.confirmed = self.values
        self.document = Document()
        self.gate = SimpleNamespace(acknowledge=lambda *painted: None)
        self.latest: Any = None
        self.answered = False
        self.steps_per_frame = 1
        self.shown = SimpleNamespace(pixels=(64, 64))
        self.frames: Publisher[Any] = Publisher()
        self.value_changes: Publisher[Any] = Publisher()
        self.events: Publisher[Any] = Publisher()
        self.changes: list[dict[str, Any]] = []

    @property
    def phase(self) -> str:
        """The phase that app.tab.session.Session reports for an open lab."""
        return "running" if self.playing else "paused"

    def change(self, **values: Any) -> None:
        changed = {name: value for name, value in values.items() if self.values.get(name) != value}
        if not changed:
            return
        self.changes.append(changed)
        self.answered = False
        self.values.update(changed)
        try:
            self.live.update(**changed)
        except ValueError as error:
            kept = {name: self.live.values()[name] for name in changed}
            self.values.update(kept)
            self.answered = True
            self.value_changes.publish(kept)
            self.events.publish(messages.Refused(str(error), 1, kept))

    def act(self, name: str, **arguments: Any) -> None:
        try:
            self.live.act(name, **arguments)
        except ValueError as error:
            self.events.publish(messages.Refused(str(error)))
        self.values.update(self.live.values())

    def see(self) -> Any:
        """Compute the current frame and publish it."""
        self.latest, self.answered = self.live.frame(), True
        self.frames.publish(self.latest)
        return self.latest

    def show_in(self, target: Any) -> None:
        pass

    def later(self, callback: Any) -> None:
        callback()

    def play(self, playing: bool) -> None:
        self.playing = playing

    def step(self) -> None:
        self.live.advance(1)

    def pace(self, steps: int | None) -> None:
        self.steps_per_frame = steps

    def set_view(self, view: Any, pixels: Any) -> None:
        self.shown.pixels = pixels
