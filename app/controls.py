"""The side bar: transport, then four groups by what they change: field, physics, compute, display."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui
from compute.backends import Backend
from compute.images import FORMATS, MAX_BYTES

from app.brush import Brush
from app.display import Display
from app.notices import tell
from app.session import Session
from app.stage import Stage
from app.theme import stylesheet
from app.transport import Transport
from app.widgets import FULL, Bound

SIZES = {f"{n} × {n}": n for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192)}
STABLE = 0.25  # largest stable r of forward Euler in two dimensions
BLOW_UP = 0.26  # just beyond: the chequerboard grows 1.08-fold a step
GROUPS = ("Field", "Physics", "Compute", "Display")


class Controls(Bound):
    """Every control of the diffusion lab, bound to one session."""

    def __init__(self, session: Session, stage: Stage) -> None:
        super().__init__(session)
        self.stage = stage
        self.transport = Transport(session)
        self.brush = Brush(session, stage.pictures)
        self.display = Display(session, stage)
        bodies = (self._field(), self._physics(), self._compute(), self.display.panel)
        self.groups = pmui.Accordion(
            *zip(GROUPS, bodies, strict=True),
            active=[0, 1],
            title_variant="h6",
            disable_gutters=True,
            margin=0,
            sizing_mode="stretch_width",
        )
        self.panel = pmui.Column(self.transport.panel, self.groups, margin=0, sizing_mode="stretch_width")

    def _group(self, *items: Any) -> pmui.Column:
        return pmui.Column(*items, margin=0, sizing_mode="stretch_width")

    # -- field

    def _field(self) -> pmui.Column:
        preset = self.choice("preset")
        self._mode = pmui.Row(self.slider("mode_p", 1, label="p"), self.slider("mode_q", 1, label="q"), margin=0)
        self._text = self.add("text", pmui.TextInput(label="Text", value=self.session.values["text"], size="small", **FULL))
        self.upload = pmui.FileInput(
            label="Image as field", accept=".png,.jpg,.jpeg", max_file_size=MAX_BYTES, variant="outlined", size="small", **FULL
        )
        self.upload.param.watch(self._uploaded, "value")
        preset.param.watch(lambda event: self._show_options(event.new), "value")
        self._show_options(preset.value)
        return self._group(preset, self._mode, self._text, self.upload, self.brush.panel)

    def _show_options(self, preset: str) -> None:
        self._mode.visible = preset == "single mode"
        self._text.visible = preset == "text"

    def _uploaded(self, event: Any) -> None:
        data = event.new
        if not data:
            return
        if not isinstance(data, bytes) or len(data) > MAX_BYTES:
            tell("warning", f"The image must be one {' or '.join(FORMATS)} file of at most {MAX_BYTES // 2**20} MB.")
            return
        self.session.act("load_image", data=data)

    # -- physics

    def _physics(self) -> pmui.Column:
        self.r = self.slider("r", 0.005, format="0.000")
        self.unstable = pmui.Switch(label="See it blow up (r > ¼)", value=False, **FULL)
        self.unstable.param.watch(self._allow_unstable, "value")
        return self._group(self.r, self.unstable, self.choice("edges"))

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
        present = [b for b in self.session.lab.backends() if b.missing is None]
        absent = [b for b in self.session.lab.backends() if b.missing is not None]
        backend = self.choice("backend", {b.label: b.name for b in present})
        size = pmui.Select(label="Grid [cells]", options=SIZES, value=self.session.values["ny"], size="small", **FULL)
        size.param.watch(lambda event: self._resize(event.new), "value")
        self.size = size
        notes = [_absent(b) for b in absent]
        return self._group(backend, *notes, size, self.choice("dtype"))

    def _resize(self, cells: int) -> None:
        if self.session.values["ny"] != cells:
            self.session.change(ny=cells, nx=cells)
            self.session.later(self.stage.resized)

    def follow(self, values: Any) -> None:
        """Show values that the session took by itself, for instance because the engine refused others."""
        super().follow(values)
        if "ny" in values:
            self.size.value = values["ny"]
            self.session.later(self.stage.resized)


def _absent(backend: Backend) -> pn.pane.HTML:
    """A backend this machine lacks, greyed, with its reason and the line that installs it."""
    text = f"<b>{backend.label}</b> is off: {backend.missing}"
    install = f"<code>{backend.install}</code>" if backend.install else ""
    return pn.pane.HTML(
        f"<div class='absent'>{text}{install}</div>", stylesheets=[stylesheet()], sizing_mode="stretch_width", margin=(2, 8)
    )
