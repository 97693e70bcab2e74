"""The choice of the second panel: the second picture, or a plot of one quantity, with the options of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import panel_material_ui as pmui

from app.labs.equations.second_picture import SecondPicture
from app.page.widgets import FULL, ValueWidgets, Widget
from app.tab.controls import column
from app.tab.session import Session
from compute.labs.equations.lab import PANELS
from compute.labs.equations.picture import SECOND
from compute.labs.equations.tree import System

LABELS = ("Second picture", "Profile", "Value at the probe", "Integral")  # of the choices PANELS
HINTS = {
    "profile": "Click on a picture, or drag the dashed line.",
    "probe": "Click on a picture to move the probe.",
    "integral": "Sum outside walls, times Δx Δy.",
}
SECTIONS = {"Row, along x": "horizontal", "Column, along y": "vertical"}


class SecondPanel(ValueWidgets):
    """The widgets of one tab, which set the values second_panel, plotted, section and show; `panel` contains them.

    palette: the list of the second picture's palettes, shown with that picture.
    """

    def __init__(self, session: Session, system: System, palette: Widget) -> None:
        super().__init__(session)
        self._palette = palette
        self.picture = SecondPicture(system, lambda expression: session.change(show=expression))
        self.choice_of_panel = self.choice("second_panel", dict(zip(LABELS, PANELS, strict=True)))
        self.plotted = pmui.Select(label="Plotted quantity", size="small", **FULL)
        self.plotted.param.watch(lambda event: self._plot(event.new), "value")
        self.section = self.choice("section", SECTIONS)
        self.panel = column(self.choice_of_panel, self.plotted, self.picture.panel, self.section, palette)
        self.choice_of_panel.param.watch(lambda event: self._offer(), "value")

    def show(self, system: System) -> None:
        """Show the choices of a system, and the session's values."""
        values = self.session.values
        self.picture.show(system, values["show"])
        options = {name: name for name in system.fields} | {"the second picture": SECOND}
        with self._quiet():
            quantity = values["plotted"] or values["first_picture"] or system.fields[0]
            self.plotted.param.update(options=options, value=quantity)
        self.show_values({name: values[name] for name in ("second_panel", "section")})
        self._offer()

    def next(self) -> None:
        """Select the next choice of the second panel, after the last one the first."""
        following = (PANELS.index(self.choice_of_panel.value) + 1) % len(PANELS)
        self.choice_of_panel.value = PANELS[following]

    def _plot(self, name: str) -> None:
        if not self._following and name:
            self.session.change(plotted=name)
            self._offer()

    def _offer(self) -> None:
        """Show the options of the selected choice."""
        kind = self.choice_of_panel.value
        plotting = kind != PANELS[0]
        self.choice_of_panel.helper_text = HINTS.get(kind, "")
        self.plotted.visible, self.section.visible, self._palette.visible = plotting, kind == "profile", not plotting
        self.picture.panel.visible = not plotting or self.plotted.value == SECOND


def valid(system: System, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make first_picture and plotted valid for another system."""
    known = {"first_picture": system.fields, "plotted": (*system.fields, SECOND)}
    return {name: "" for name, names in known.items() if values[name] not in ("", *names)}
