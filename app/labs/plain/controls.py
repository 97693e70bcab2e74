"""Controls made from a lab's parameters, grouped by what its class says that they change."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui
import param

from app.controls import Controls, accordion, column
from app.machine import Machine
from app.notices import Notices
from app.session import Session
from app.transport import Transport
from app.widgets import FULL, Widget

MACHINE = ("backend", "device_index", "variant")
STEPS = 200  # of a slider over real numbers
WIDE = 1000  # whole numbers beyond this span are typed, because a slider cannot hit them


class PlainControls(Controls):
    """One widget a parameter: Field holds those that choose the initial state, Compute those that rebuild it."""

    def __init__(self, session: Session, stage: object, notices: Notices) -> None:
        super().__init__(session)
        self.transport = transport = Transport(session)
        self.acts = {"play": transport.toggle, "step": transport.step, "reset": transport.reset}
        self.machine = Machine(session)
        groups: dict[str, list[Any]] = {"Field": [], "Physics": [], "Compute": self.machine.items, "Display": []}
        for name in session.values:
            if name not in MACHINE:
                groups[self._group(name)].append(self._widget(name))
        filled = {title: column(*items) for title, items in groups.items() if items}
        self.panel = column(transport.panel, accordion(filled, opened=(0, 1)))

    def _group(self, name: str) -> str:
        lab = self.session.lab
        if name in lab.STRUCTURAL:
            return "Compute"
        if name in getattr(lab, "INITIAL", ()):
            return "Field"
        return "Display" if isinstance(self.parameter(name), param.Range) else "Physics"

    def _widget(self, name: str) -> Widget:
        parameter: Any = self.parameter(name)
        if isinstance(parameter, param.Selector):
            return self.choice(name)
        if isinstance(parameter, param.Boolean):
            return self.switch(name)
        step = step_of(parameter) if isinstance(parameter, param.Number) else 0
        return self.slider(name, step) if step else self._typed(name)

    def _typed(self, name: str) -> Widget:
        parameter, value = self.parameter(name), self.session.values[name]
        options = {"label": parameter.label, "value": value, "size": "small", **FULL}
        kind = pmui.TextInput if isinstance(parameter, param.String) else pmui.LiteralInput
        return self.add(name, kind(**options))

    def follow(self, values: Any) -> None:
        """Show values that the session took by itself."""
        super().follow(values)
        self.machine.follow(values)


def step_of(parameter: Any) -> float:
    """The step of a slider over the parameter's bounds; 0 if a slider cannot cover them."""
    low, high = parameter.bounds or (None, None)
    if low is None or high is None:
        return 0
    if isinstance(parameter, param.Integer):
        return 1 if high - low <= WIDE else 0
    return (high - low) / STEPS
