"""The side bar of the L-curve lab: steps, then groups by what they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.controls import Controls, accordion, column
from app.labs.l_curve.choice import ChoiceControls
from app.labs.l_curve.problem import ProblemControls
from app.labs.l_curve.stage import LCurveStage
from app.labs.l_curve.steps import Steps
from app.machine import Machine
from app.notices import Notices
from app.session import Session
from compute.engine import messages


class LCurveControls(Controls):
    """Every control of the L-curve lab, bound to one session."""

    def __init__(self, session: Session, stage: LCurveStage, notices: Notices) -> None:
        super().__init__(session)
        self.stage = stage
        self.steps = steps = Steps(session, stage.rest)
        self.chosen = ChoiceControls(session, stage)
        self.problem = ProblemControls(session, steps, self.chosen.follow)
        self.problem.problem.param.watch(lambda event: self._veil(), "value")
        self.machine = Machine(session)
        groups = {
            "Problem": self.problem.panel,
            "Choice of λ": self.chosen.panel,
            "Compute": column(*self.machine.items, self.choice("dtype"), self.switch("reorthogonalise")),
        }
        self.panel = column(steps.panel, accordion(groups, opened=(0, 1)))
        stage.on_picked = self.chosen.show_picked  # type: ignore[method-assign]
        steps.went_further = self.chosen.refresh
        steps.undo.act = self.problem.undo
        self.acts = {
            "undo": steps.undo.press,
            "play": steps.toggle,
            "step": steps.step,
            "again": steps.again,
            "further": steps.further,
            "squared": self._square,
            "rule": lambda: stage.take_rule(session.values["rule"]),
        }

    def _square(self) -> None:
        self.chosen.squared.value = not self.chosen.squared.value

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show values that the session took by itself, for instance because the engine refused others."""
        super().follow(values)
        for part in (self.problem, self.chosen, self.machine):
            part.follow(values)

    def tick(self) -> None:
        """A few times a second: what frames say of files, and whether the curve is that of the chosen problem."""
        if self.session.latest is not None:
            self.problem.tick(self.session.latest)
            self._veil()
            self.steps.undo.offer(self.problem.undoable)

    def _veil(self) -> None:
        frame = self.session.latest
        self.stage.cover(self.problem.veil(frame) if frame is not None else "")

    def hear(self, event: Any) -> bool:
        """An engine event; whether a field here says what it means."""
        if isinstance(event, messages.Refused):
            return self.problem.refused(event.text) or self.chosen.refused(event.text)
        return False
