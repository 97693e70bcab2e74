"""The side bar: transport, then four groups by what they change: field, physics, compute, display."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

from app.controls import Controls, accordion, column
from app.labs.diffusion.brush import Brush
from app.labs.diffusion.display import Display
from app.labs.diffusion.source import Source
from app.labs.diffusion.stage import DiffusionStage
from app.machine import Machine
from app.notices import Notices
from app.session import Session
from app.transport import Transport
from app.widgets import FULL, icon
from compute.engine import messages
from compute.export.scene import Look
from compute.labs.diffusion.scheme import WRONG_VARIANTS

SIZES = {f"{n} × {n}": n for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192)}
BLOW_UP = 0.26  # just beyond the stability limit of 1/4: the chequerboard grows 1.08-fold a step
SEEDS = 1000


def kernel_words(name: str) -> str:
    """What the list of kernels calls the kernel `name`."""
    return f"{name} (wrong on purpose)" if name in WRONG_VARIANTS else name


class DiffusionControls(Controls):
    """Every control of the diffusion lab, bound to one session."""

    def __init__(self, session: Session, stage: DiffusionStage, notices: Notices) -> None:
        super().__init__(session)
        self.stage, self.notices = stage, notices
        self.transport = transport = Transport(session)
        self.brush = Brush(session, stage.pictures)
        self.display = Display(session, stage)
        groups = {
            "Field": self._field(),
            "Physics": self._physics(),
            "Compute": self._compute(),
            "Display": self.display.panel,
        }
        self.acts = {
            "play": transport.toggle,
            "step": transport.step,
            "reset": transport.reset,
            "undo": transport.undo.press,
        }
        self.panel = column(transport.panel, accordion(groups, opened=(0, 1)))

    def look(self, part: str) -> Look:
        """The palette of the field or of the Laplacian."""
        return self.display.look(part)

    def wear(self, look: Look, part: str) -> None:
        """Take over a palette."""
        self.display.wear(look, part)

    def present(self, on: bool, cramped: bool) -> None:
        """A low window has no room for the curves beside large type."""
        if cramped:
            self.display.curves.value = not on

    # -- field

    def _field(self) -> pmui.Column:
        self.source = Source(self.session, self._show_options)
        self.again = icon("casino", "The same kind of field from another seed", self._reseed, align="center")
        self._mode = pmui.Row(self.slider("mode_p", 1, label="p"), self.slider("mode_q", 1, label="q"), margin=0)
        self._text = self.add(
            "text", pmui.TextInput(label="Text", value=self.session.values["text"], size="small", **FULL)
        )
        self._show_options(self.session.values["preset"])
        first = pmui.Row(self.source.choice, self.again, margin=0, sizing_mode="stretch_width")
        return column(first, self._mode, self._text, self.source.upload.panel, self.brush.panel)

    def _reseed(self) -> None:
        self.session.change(seed=(self.session.values["seed"] + 1) % SEEDS)

    def _show_options(self, preset: str) -> None:
        """Those of `preset`; an image, "", has none."""
        self._mode.visible = preset == "single mode"
        self._text.visible = preset == "text"
        self.again.disabled = not preset

    def tick(self) -> None:
        """A few times a second: what the newest frame began as, and what an undo would bring back."""
        frame = self.session.latest
        if frame is not None:
            initial = self.source.tick(frame)
            if initial:  # the lab has them already: nothing is made anew
                self.session.change(**initial)
                self.follow(initial)
            self.transport.undo.offer(frame.notes["undo"])

    def hear(self, event: Any) -> bool:
        """An engine event; whether the image's field says what it means."""
        return isinstance(event, messages.Event) and self.source.hear(event)

    # -- physics

    def _physics(self) -> pmui.Column:
        self.r = self.slider("r", 0.005, format="0.000")
        self.unstable = pmui.Switch(label="See it blow up (r > ¼)", value=False, **FULL)
        self.unstable.param.watch(self._allow_unstable, "value")
        return column(self.r, self.unstable, self.choice("edges"))

    def _allow_unstable(self, event: Any) -> None:
        if event.new:
            self.r.end = 0.3
            self.session.change(unstable=True, r=BLOW_UP)
            self.r.value = BLOW_UP
        else:
            self.session.change(unstable=False, r=min(self.session.values["r"], self.parameter("r").bounds[1]))
            self.r.param.update(value=self.session.values["r"], end=self.parameter("r").bounds[1])

    # -- compute

    def _compute(self) -> pmui.Column:
        self.machine = Machine(self.session, kernel_words)
        size = pmui.Select(label="Grid [cells]", options=SIZES, value=self.session.values["ny"], size="small", **FULL)
        size.param.watch(lambda event: self._resize(event.new), "value")
        self.size = size
        return column(*self.machine.items, size, self.choice("dtype"))

    def _resize(self, cells: int) -> None:
        if self.session.values["ny"] != cells:
            self.session.change(ny=cells, nx=cells)
            self.session.later(self.stage.resized)

    def follow(self, values: Any) -> None:
        """Show values that the session took by itself, for instance because the engine refused others."""
        super().follow(values)
        self.source.follow(values)
        self.machine.follow(values)
        if "ny" in values:
            self.size.value = values["ny"]
            self.session.later(self.stage.resized)
