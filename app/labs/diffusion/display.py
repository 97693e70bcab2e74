"""The display group: which pictures, their palettes and limits, the direction of the section. No kernel runs for it."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

from app.labs.diffusion.stage import DiffusionStage
from app.palettes import AMOUNTS, SIGNED
from app.session import Session
from app.widgets import FULL, Bound
from compute.export.scene import Look

SHOWN = {"Both": ("field", "laplacian"), "Field": ("field",), "Laplacian": ("laplacian",)}
DEFAULT_PALETTES = {"field": "Inferno", "laplacian": "Cool–warm"}


class Display(Bound):
    """What is seen, apart from the numbers behind it."""

    def __init__(self, session: Session, stage: DiffusionStage) -> None:
        super().__init__(session)
        self.stage = stage
        shown = pmui.RadioButtonGroup(options=list(SHOWN), value="Both", size="small", **FULL)
        shown.param.watch(lambda event: session.later(lambda: stage.choose(SHOWN[event.new])), "value")
        self.curves = pmui.Switch(label="Curves below the pictures", value=True, **FULL)
        self.curves.param.watch(lambda event: session.later(lambda: stage.show_curves(event.new)), "value")
        self.palettes = {
            "field": self._palette("Palette of the field", list({**AMOUNTS, **SIGNED}), "field"),
            "laplacian": self._palette("Palette of the Laplacian", list({**SIGNED, **AMOUNTS}), "laplacian"),
        }
        section = self.choice("section")
        section.param.watch(lambda event: session.later(stage.turned), "value")
        self.reverse = pmui.Switch(label="Reverse palettes", value=False, **FULL)
        self.reverse.param.watch(lambda event: self.session.later(self._recolour), "value")
        self.panel = pmui.Column(
            shown,
            self.curves,
            *self.palettes.values(),
            self.reverse,
            *self._limits(),
            section,
            margin=0,
            sizing_mode="stretch_width",
        )

    def _palette(self, label: str, names: list[str], name: str) -> Any:
        select = pmui.Select(label=label, options=names, value=DEFAULT_PALETTES[name], size="small", **FULL)
        select.param.watch(lambda event: self.session.later(self._recolour), "value")
        return select

    def look(self, part: str) -> Look:
        """How the picture `part` is coloured."""
        return Look(self.palettes.get(part, self.palettes["field"]).value, self.reverse.value)

    def wear(self, look: Look, part: str) -> None:
        """Colour the picture `part`, the field for "", like that."""
        self.palettes.get(part, self.palettes["field"]).value = look.palette
        self.reverse.value = look.reverse

    def _recolour(self) -> None:
        for name, select in self.palettes.items():
            self.stage.pictures.plots[name].colour(select.value, self.reverse.value)

    # -- limits

    def _limits(self) -> list[Any]:
        self.automatic = pmui.Switch(label="Automatic limits", value=True, **FULL)
        self.snap = pmui.Button(
            label="Snap limits once", icon="center_focus_strong", variant="outlined", size="small", **FULL
        )
        self._ends = {name: self._pair() for name in ("field", "laplacian")}
        self._rows = pmui.Column(*(pmui.Row(*pair, margin=0) for pair in self._ends.values()), visible=False, margin=0)
        self._ends["field"][0].label, self._ends["field"][1].label = "field from", "to"
        self._ends["laplacian"][0].label, self._ends["laplacian"][1].label = "Laplacian from", "to"
        self.automatic.param.watch(self._toggle, "value")
        self.snap.on_click(lambda event: self.snap_once())
        return [self.automatic, self.snap, self._rows]

    def _pair(self) -> tuple[Any, Any]:
        inputs = tuple(
            pmui.LiteralInput(value=v, type=(float, int), width=112, size="small", margin=(6, 8)) for v in (0.0, 1.0)
        )
        for item in inputs:
            item.param.watch(lambda event: self._apply(), "value")
        return inputs[0], inputs[1]

    def _toggle(self, event: Any) -> None:
        self._rows.visible = not event.new
        if event.new:
            self.session.change(limits_field=None, limits_laplacian=None)
        elif self.session.values["limits_field"] is None:
            self.snap_once()

    def snap_once(self) -> None:
        """Fix the limits to those of the newest frame."""
        frame = self.session.latest
        if frame is None:
            return
        self.automatic.value = False
        for name, (low, high) in self._ends.items():
            raster = frame.rasters[name]
            low.value, high.value = float(f"{raster.low:.4g}"), float(f"{raster.high:.4g}")
        self._apply()

    def _apply(self) -> None:
        """Use the typed limits, as soon as they are in order."""
        if self.automatic.value:
            return
        limits = {f"limits_{name}": (low.value, high.value) for name, (low, high) in self._ends.items()}
        valid = {key: pair for key, pair in limits.items() if None not in pair and pair[0] < pair[1]}
        if valid:
            self.session.change(**valid)
