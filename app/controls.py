"""The side bar: transport, then four groups by what they change: field, physics, compute, display."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.brush import Brush
from app.display import Display
from app.notices import Notices
from app.session import Session
from app.stage import Stage
from app.theme import stylesheet
from app.transport import Transport
from app.widgets import FULL, Bound, icon
from compute.backends import Backend
from compute.gpu_devices import cuda_count
from compute.images import FORMATS, MAX_BYTES
from compute.labs.diffusion import WRONG

SIZES = {f"{n} × {n}": n for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192)}
STABLE = 0.25  # largest stable r of forward Euler in two dimensions
BLOW_UP = 0.26  # just beyond: the chequerboard grows 1.08-fold a step
SEEDS = 1000
GROUPS = ("Field", "Physics", "Compute", "Display")


class Controls(Bound):
    """Every control of the diffusion lab, bound to one session."""

    def __init__(self, session: Session, stage: Stage, notices: Notices) -> None:
        super().__init__(session)
        self.stage, self.notices = stage, notices
        self.transport = Transport(session)
        self.brush = Brush(session, stage.pictures)
        self.display = Display(session, stage)
        bodies = (self._field(), self._physics(), self._compute(), self.display.panel)
        self.groups = pmui.Accordion(
            *zip(GROUPS, bodies, strict=True),
            active=[0, 1],
            dynamic=True,
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
        self.preset = preset = self.choice("preset")
        again = icon("casino", "The same kind of field from another seed", self._reseed, align="center")
        self._mode = pmui.Row(self.slider("mode_p", 1, label="p"), self.slider("mode_q", 1, label="q"), margin=0)
        self._text = self.add(
            "text", pmui.TextInput(label="Text", value=self.session.values["text"], size="small", **FULL)
        )
        self.upload = pmui.FileInput(
            label="Image as field",
            accept=".png,.jpg,.jpeg",
            max_file_size=MAX_BYTES,
            variant="outlined",
            size="small",
            **FULL,
        )
        self.upload.param.watch(self._uploaded, "value")
        preset.param.watch(lambda event: self._show_options(event.new), "value")
        self._show_options(preset.value)
        first = pmui.Row(preset, again, margin=0, sizing_mode="stretch_width")
        return self._group(first, self._mode, self._text, self.upload, self.brush.panel)

    def _reseed(self) -> None:
        self.session.change(seed=(self.session.values["seed"] + 1) % SEEDS)

    def _show_options(self, preset: str) -> None:
        self._mode.visible = preset == "single mode"
        self._text.visible = preset == "text"

    def _uploaded(self, event: Any) -> None:
        data = event.new
        if not data:
            return
        if not isinstance(data, bytes) or len(data) > MAX_BYTES:
            self.notices.tell(
                "warning", f"The image must be one {' or '.join(FORMATS)} file of at most {MAX_BYTES // 2**20} MB."
            )
            return
        self.session.act("load_image", data=data)
        self.upload.clear()

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
        known = self.session.lab.backends()
        absent = [b for b in known if b.missing is not None]
        notes = [absentees(absent)] if absent else []
        names = {b.label: b.name for b in known}
        self.backend = pmui.Select(
            label=self.parameter("backend").label,
            value=self.session.values["backend"],
            options=names,
            disabled_options=[b.name for b in absent],
            size="small",
            **FULL,
        )
        self.backend.param.watch(lambda event: self._use(event.new), "value")
        self.kernel = self.choice("variant", self._kernels())
        devices = {f"GPU {index}": index for index in range(max(1, cuda_count()))}
        device = self.choice("device_index", devices, visible=len(devices) > 1)
        size = pmui.Select(label="Grid [cells]", options=SIZES, value=self.session.values["ny"], size="small", **FULL)
        size.param.watch(lambda event: self._resize(event.new), "value")
        self.size = size
        return self._group(self.backend, *notes, self.kernel, device, size, self.choice("dtype"))

    def _kernels(self) -> dict[str, str]:
        """The present backend's kernels in words; the first is the default and has no name of its own."""
        names = self.session.lab.variants(self.session.values["backend"])
        return {
            f"{name} (wrong on purpose)" if name in WRONG else name: "" if name == names[0] else name for name in names
        }

    def _use(self, backend: str) -> None:
        """Another backend, with its default kernel; the list of kernels follows."""
        if backend != self.session.values["backend"]:
            self.session.change(backend=backend, variant="")
            self._list_kernels()

    def _list_kernels(self) -> None:
        self.kernel.param.update(options=self._kernels(), value=self.session.values["variant"])

    def _resize(self, cells: int) -> None:
        if self.session.values["ny"] != cells:
            self.session.change(ny=cells, nx=cells)
            self.session.later(self.stage.resized)

    def follow(self, values: Any) -> None:
        """Show values that the session took by itself, for instance because the engine refused others."""
        super().follow({name: value for name, value in values.items() if name != "variant"})
        if "backend" in values or "variant" in values:
            self.backend.value = self.session.values["backend"]
            self._list_kernels()
        if "ny" in values:
            self.size.value = values["ny"]
            self.session.later(self.stage.resized)


def absentees(backends: Sequence[Backend]) -> pn.pane.HTML:
    """Backends this machine lacks, greyed, each with its reason, and the lines that install them."""
    reasons = "".join(f"<p><b>{escape(b.label)}</b> is off: {escape(b.missing or '')}</p>" for b in backends)
    lines = dict.fromkeys(b.install for b in backends if b.install)
    installs = "".join(f"<code>{escape(line)}</code>" for line in lines)
    html = f"<div class='absent'>{reasons}{installs}</div>"
    return pn.pane.HTML(html, stylesheets=[stylesheet()], sizing_mode="stretch_width", margin=(2, 8))
