"""The group "Display": which number is coloured and how, and what is drawn beside the picture. Nothing is iterated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.palettes import AMOUNTS, SIGNED
from app.session import Session
from app.widgets import FULL, Bound
from compute.export.scene import Look

PALETTES = list({**AMOUNTS, **SIGNED})
WORDS = {  # the lab's colourings in words
    "histogram": "equal shares (histogram)",
    "smooth": "smooth count",
    "distance": "distance to the set",
    "interior": "inside, how strongly it attracts",
}
FASTEST = 1.0  # turns of the palette a second
CYCLE = 0.1  # turns a second when the key starts it


class Display(Bound):
    """The widgets of one session; `panel` is the group's body. `stage.colours` colours in the browser."""

    def __init__(self, session: Session, stage: Any) -> None:
        super().__init__(session)
        self.colours = colours = stage.colours
        self.colouring = self.choice("colouring", {WORDS.get(name, name): name for name in self._known("colouring")})
        scale = self.choice("scale", self._known("scale"))
        self.palette = pmui.Select(label="Palette", options=PALETTES, value=colours.name, size="small", **FULL)
        self.reverse = pmui.Switch(label="Reverse palette", value=colours.reverse, **FULL)
        for widget in (self.palette, self.reverse):
            widget.param.watch(lambda event: session.later(self._recolour), "value")
        self.offset = offset = pmui.FloatSlider(
            label="Palette offset [turns]", value=0.0, start=0.0, end=1.0, step=0.005, size="small", **FULL
        )
        offset.param.watch(lambda event: session.later(lambda: colours.offset(event.new)), "value")
        self.cycle = pmui.FloatSlider(
            label="Cycle the palette [turns/s]", value=0.0, start=0.0, end=FASTEST, step=0.01, size="small", **FULL
        )
        self.cycle.param.watch(lambda event: session.later(lambda: colours.cycle(event.new)), "value")
        self.histogram = pmui.Switch(label="Histogram below the picture", value=True, **FULL)
        self.histogram.param.watch(lambda event: session.later(lambda: stage.show_histogram(event.new)), "value")
        items = (self.colouring, scale, self.palette, self.reverse, offset, self.cycle, *self._limits())
        self.panel = column(*items, self.histogram)

    def _known(self, name: str) -> list[str]:
        return list(self.session.lab.param[name].objects)

    def _recolour(self) -> None:
        self.colours.choose(self.palette.value, self.reverse.value)

    def look(self) -> Look:
        """The palette, and how far it is turned where it stands still."""
        return Look(self.palette.value, self.reverse.value, float(self.offset.value))

    def wear(self, look: Look) -> None:
        """Take over a palette, standing still."""
        self.cycle.value = 0.0
        self.palette.value, self.reverse.value, self.offset.value = look.palette, look.reverse, look.offset

    def turn(self) -> None:
        """Start or stop cycling the palette."""
        self.cycle.value = 0.0 if self.cycle.value else CYCLE

    # -- limits

    def _limits(self) -> list[Any]:
        self.automatic = pmui.Switch(label="Automatic limits", value=True, **FULL)
        self.automatic.param.watch(lambda event: self._toggle(event.new), "value")
        self._ends = [
            pmui.LiteralInput(label=label, value=value, type=(float, int), width=112, size="small", margin=(6, 8))
            for label, value in (("count from", 1.0), ("to", 1000.0))
        ]
        for end in self._ends:
            end.param.watch(lambda event: self._apply(), "value")
        self._row = pmui.Row(*self._ends, visible=False, margin=0)
        return [self.automatic, self._row]

    def _toggle(self, automatic: bool) -> None:
        self._row.visible = not automatic
        if automatic:
            self.session.change(limits=None)
            return
        frame = self.session.latest
        if frame is not None:
            for end, name in zip(self._ends, ("minimum", "maximum"), strict=True):
                end.value = float(f"{frame.facts[name]:.4g}")
        self._apply()

    def _apply(self) -> None:
        """Use the typed limits; what the lab refuses is said and put back."""
        low, high = (end.value for end in self._ends)
        if not self.automatic.value and low is not None and high is not None:
            self.session.change(limits=(low, high))

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which the session took without these widgets."""
        super().follow(values)
        limits = values.get("limits")
        if limits is not None:
            for end, value in zip(self._ends, limits, strict=True):
                end.value = value
        elif "limits" in values:
            self.automatic.value = True
