"""Which ways are measured."""

from __future__ import annotations

from collections.abc import Sequence

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.runner import Runner
from app.labs.crossover.sight import Sight
from app.labs.crossover.times import duration
from app.labs.crossover.way_list import WayList, entries
from app.session import Session
from app.theme import stylesheet
from compute.backends import backend
from compute.labs.crossover import Crossover
from compute.labs.crossover.catalogue import Way
from compute.labs.crossover.picture import Line

TONES = {"disagrees": "bad", "failed": "bad", "noisy": "noisy"}
ONE = "<p class='absent' role='alert'>At least one way must stay.</p>"


class WayControls:
    """The group "Ways"."""

    def __init__(self, session: Session, sight: Sight, runner: Runner) -> None:
        self.session, self._sight, self._runner = session, sight, runner
        self.list = WayList(self._switch, sizing_mode="stretch_width", margin=(0, 8))
        self._note = pn.pane.HTML("", stylesheets=[stylesheet()], margin=(0, 16), visible=False)
        self.panel = pmui.Column(self.list, self._note, margin=0, sizing_mode="stretch_width")

    @property
    def chosen(self) -> list[str]:
        """The ways that are measured: those that were ticked; before that, those that the lab takes by itself."""
        ticked: list[str] = list(self.session.values["ways"])
        present = [way.name for way in self._sight.ways if not way.missing]
        return ticked or [name for name in self._sight.measured if name in present] or present

    def show(self) -> None:
        """Write what is known."""
        states = {name: state(line) for name, line in self._sight.measured.items()}
        self.list.show(entries(self._sight.ways, self.chosen, states))

    def _switch(self, way: str, on: bool) -> None:
        wanted = {*self.chosen, way} if on else set(self.chosen) - {way}
        self._note.param.update(object="" if wanted else ONE, visible=not wanted)
        if wanted:
            ticked = [known for known in self._sight.ways if known.name in wanted]
            self._runner.change(ways=[known.name for known in ticked], **self._engine_for(ticked))
        self.show()
        self.list.again()


    def _engine_for(self, ticked: Sequence[Way]) -> dict[str, str]:
        """The backend to change to: a GPU's engine runs the ways of the host as well, the host's none of a GPU."""
        now = backend(self.session.values["backend"]).device
        on_gpu = any(way.backend.device != "host" and not way.missing for way in ticked)
        return {"backend": Crossover.home()} if on_gpu and now == "host" else {}


def state(line: Line) -> tuple[str, str, str]:
    """(in a word, its tone, the whole reason) of a way as it is now."""
    timed = [spot for spot in line.points if spot.step is not None]
    noisy = any(spot.noisy for spot in timed)
    words = duration(timed[-1].step.median) if timed and timed[-1].step else line.status
    status = "noisy" if noisy else line.status
    shown = f"{words} noisy" if noisy else words
    return ("" if shown in ("waiting", "missing") else shown), TONES.get(status, ""), line.reason
