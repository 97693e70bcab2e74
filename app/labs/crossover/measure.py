"""How it is measured: how long, on which caches, with the transfers or without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.labs.crossover.runner import Runner
from app.session import Session
from app.typed import Typed
from app.widgets import FULL, Bound

CACHES = {"warm": False, "evicted": True}
GRID = {"1 n a decade": 1, "2 n a decade": 2, "3 n a decade": 3}


class MeasureControls(Bound):
    """The group "Measure"."""

    def __init__(self, session: Session, runner: Runner) -> None:
        super().__init__(session)
        self._runner = runner
        values = session.values
        self.budget = Typed("Budget of sampling  [s]", values["budget"], self._spend)
        self.longest = Typed("A call at most  [s]", values["longest"], self._limit)
        self.grid = self._bind("per_decade", pmui.Select(
            label="Points", options=GRID, value=values["per_decade"], size="small", **FULL))  # fmt: skip
        self.caches = self._bind("evict", pmui.Select(
            label="Caches", options=CACHES, value=values["evict"], size="small", **FULL))  # fmt: skip
        self.split = self._bind("split", pmui.Switch(label="Transfers too", value=values["split"], **FULL))
        self.panel = column(self.budget.panel, self.longest.panel, self.grid, self.caches, self.split)

    def _bind(self, name: str, widget: Any) -> Any:
        self._widgets[name] = widget
        widget.param.watch(lambda event: self._runner.change(**{name: event.new}), "value")
        return widget

    def _spend(self, seconds: float) -> None:
        self._checked("budget", seconds)

    def _limit(self, seconds: float) -> None:
        self._checked("longest", seconds)

    def _checked(self, name: str, value: float) -> None:
        low, high = self.parameter(name).bounds
        if not low <= value <= high:
            raise ValueError(f"{name} must be from {low:g} to {high:g} s, not {value:g}")
        self._runner.change(**{name: value})

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show values that the session took by itself."""
        super().follow(values)
        for name, field in (("budget", self.budget), ("longest", self.longest)):
            if name in values and not field.panel.error_state:
                field.show(values[name])

    def refused(self, text: str) -> bool:
        """The engine refused something, in these words; whether a field here says so now."""
        field = {"budget": self.budget, "longest": self.longest}.get(text.split(" ", 1)[0])
        if field is not None:
            field.complain(text)
        return field is not None
