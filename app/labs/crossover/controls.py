"""The side bar of the crossover lab: run, then groups by what they change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from app.controls import Controls, accordion, column
from app.labs.crossover.compare import CompareControls
from app.labs.crossover.measure import MeasureControls
from app.labs.crossover.runner import Runner
from app.labs.crossover.stage import VIEWS, CrossoverStage
from app.labs.crossover.task import TaskControls
from app.labs.crossover.ways import WayControls
from app.notices import Notices
from app.session import Session
from compute.engine import messages


class CrossoverControls(Controls):
    """Every control of the crossover lab, bound to one session."""

    def __init__(self, session: Session, stage: CrossoverStage, notices: Notices) -> None:
        super().__init__(session)
        self.stage = stage
        self.runner = runner = Runner(session)
        self.ways = WayControls(session, stage.sight, runner)
        self.task = TaskControls(session, runner, self._turned)
        self.measure = MeasureControls(session, runner)
        self.compare = CompareControls(stage.sight, stage.refresh)
        groups = {
            "Workload": self.task.panel,
            "Ways": self.ways.panel,
            "Measure": self.measure.panel,
            "Compare": self.compare.panel,
        }
        self.panel = column(runner.panel, accordion(groups, opened=(0, 1)))
        self.acts = {
            "play": runner.toggle,
            "again": runner.again,
            **{f"view {i}": partial(stage.turn, view) for i, view in enumerate(VIEWS.values(), start=1)},
        }
        self.tick()

    def _turned(self) -> None:
        """Another workload: nothing that was chosen about its ways makes sense any more."""
        self.stage.sight.choice.code = ()
        self.compare.forget()
        self.stage.sight.look(self.session.latest)
        self.tick()
        if self.stage.view == "programs":
            self.stage.programs.show()
        self.session.later(self.stage.refresh)

    def tick(self) -> None:
        """A few times a second: what frames say."""
        self.runner.refresh()
        self.ways.show()
        self.compare.show()

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show values that the session took by itself, for instance because the engine refused others."""
        super().follow(values)
        for part in (self.task, self.measure):
            part.follow(values)
        self.ways.list.again()

    def hear(self, event: Any) -> bool:
        """An engine event; whether a field here says what it means."""
        if isinstance(event, messages.Refused):
            return self.task.refused(event.text) or self.measure.refused(event.text)
        return False
