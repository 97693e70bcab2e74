"""Which curves are compared, and which are drawn beside those that are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.labs.crossover.sight import SHOWN, Sight
from app.widgets import FULL
from compute.labs.crossover.finding import BEST_CPU, BEST_GPU

BEST = {"Best GPU way": BEST_GPU, "Best CPU way": BEST_CPU}
RECORDED = {"of ways that are absent here": SHOWN[0], "all": SHOWN[1], "none": SHOWN[2]}


class CompareControls:
    """The group "Compare": it changes what is shown, and never what is measured."""

    def __init__(self, sight: Sight, changed: Callable[[], object]) -> None:
        self._sight, self._changed = sight, changed
        self.fast = self._list("fast", "From which n is", BEST_GPU)
        self.slow = self._list("slow", "faster than", BEST_CPU)
        self.recorded = pmui.Select(label="Recorded curves", options=RECORDED, value=SHOWN[0], size="small", **FULL)
        self.cited = pmui.Switch(label="Figures of tutorials", value=True, **FULL)
        self.moving = pmui.Switch(label="Count moving the data", value=False, **FULL)
        for name in ("recorded", "cited", "moving"):
            self._bind(name, getattr(self, name))
        self.panel = column(self.fast, self.slow, self.moving, self.recorded, self.cited)

    def _list(self, name: str, label: str, value: str) -> Any:
        field = pmui.Select(label=label, options=BEST, value=value, size="small", **FULL)
        self._bind(name, field)
        return field

    def _bind(self, name: str, widget: Any) -> None:
        widget.param.watch(lambda event: self._set(name, event.new), "value")

    def _set(self, name: str, value: Any) -> None:
        if value is not None and getattr(self._sight.choice, name) != value:
            setattr(self._sight.choice, name, value)
            self._sight.session.later(self._changed)

    def forget(self) -> None:
        """Another workload: the best of each device again."""
        self.fast.value, self.slow.value = BEST_GPU, BEST_CPU

    def show(self) -> None:
        """Offer the lines that there are."""
        lines = {f"{line.label}, {line.place}" if line.place else line.label: line.key for line in self._sight.lines}
        options = {**BEST, **lines}
        for field in (self.fast, self.slow):
            if field.options != options:
                known = field.value in options.values()
                field.param.update(options=options, **({} if known else {"value": next(iter(options.values()))}))
        enabled = bool(self._sight.session.values["split"])
        self.moving.disabled = not enabled
