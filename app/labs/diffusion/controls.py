"""The side bar of the diffusion lab: transport, then the groups Field, Physics, Compute and Display.

Changes in the group Display (selection of pictures, palettes, limits, direction of the section) run no kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isclose
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.labs.diffusion.source import InitialField
from app.labs.diffusion.view import PALETTES, DiffusionView
from app.page.notices import Notices
from app.page.theme import html_pane
from app.page.typed_slider import TypedSlider
from app.page.widgets import DIGITS, FULL, LimitFields, NumberField, ValueWidgets, icon, range_words
from app.tab.brush import Brush
from app.tab.controls import (
    ComputeControls,
    Controls,
    Dial,
    GridSize,
    Transport,
    accordion,
    column,
    list_dial,
    slider_dial,
)
from app.tab.palette_controls import PaletteControls
from app.tab.second_run import Offer, SecondRun
from app.tab.session import Session
from compute.devices.devices import devices_name
from compute.devices.gpu_devices import cuda_count
from compute.engine import messages
from compute.export.scene import Style
from compute.lab.lab import number_types, variants
from compute.labs.diffusion.lab import UNSTABLE_LIMIT, Diffusion
from compute.labs.diffusion.scheme import LIMIT, WRONG_VARIANTS

SIDES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)  # of grids, in cells
BLOW_UP = 0.26  # just above the stability limit of 1/4: the chequerboard grows by a factor of 1.08 per step
FARTHEST = 0.3  # upper end of the slider of r in unstable mode, unless r is larger
SEEDS = 1000
KERNELS = {"T-step": "several steps per pass", "one-step": "one step per pass"}  # labels on the page
CALM = 2  # steps per frame in unstable mode: a factor of 1.17 per frame; even, as each step inverts the pattern
CLOSE = 32  # cells per side shown of a larger grid in unstable mode: a cell of the chequerboard is several pixels wide
FITTED = {"the whole curve": 1.0, "its newest half": 0.5, "its newest tenth": 0.1}  # label -> share of the steps
WHOLE_KEYS = ("0", "home")  # keys that show the whole field
HELD, FOLLOWING, TYPED = LIMITS = ("initial field", "each frame", "manual")
SHOWN = {"Both": ("field", "laplacian"), "Field": ("field",), "Laplacian": ("laplacian",)}


def kernel_words(name: str) -> str:
    """Return the label of a kernel on the page."""
    words = KERNELS.get(name, name)
    return f"{words} (wrong on purpose)" if name in WRONG_VARIANTS else words


def r_words(r: float) -> str:
    """Return r with three decimals, or more digits if it has them."""
    return f"{r:.3f}" if isclose(r, round(r, 3), rel_tol=1e-9) else f"{r:.{DIGITS}g}"


def distinct_limits(low: float, high: float) -> tuple[float, float]:
    """Return two limits rounded to four digits, or to more if needed to keep the ends of a narrow range distinct."""
    for digits in range(4, 17):
        pair = float(f"{low:.{digits}g}"), float(f"{high:.{digits}g}")
        if pair[0] < pair[1]:
            return pair
    return low, high


class DiffusionControls(Controls):
    """The controls of the diffusion lab, bound to one session."""

    def __init__(self, session: Session, lab_view: DiffusionView, notices: Notices) -> None:
        super().__init__(session)
        self.lab_view, self.notices = lab_view, notices
        self.transport = transport = Transport(session)
        self.use_speed(transport.typed_speed)
        self.brush = Brush(session, lab_view.pictures)
        self.display = display = DiffusionDisplay(session, lab_view)
        field, laplacian = display.palettes.lists.values()
        self.keep_display(
            pictures=display.shown, curves=display.curves, growth=display.growth, fitted=display.fitted,
            field_palette=field, laplacian_palette=laplacian,
        )  # fmt: skip
        groups = {
            "Field": self._field(),
            "Physics": self._physics(),
            "Compute": self._compute(),
            "Display": self.display.panel,
        }
        self.keys = transport.keys | {"l": self.display.fit} | dict.fromkeys(WHOLE_KEYS, lab_view.unzoom)
        self.panel = column(transport.panel, accordion(groups, opened=(0, 1)))

    def style(self, part: str) -> Style:
        """Return the palette of the field or of the Laplacian."""
        return self.display.palettes.style(part)

    def apply_style(self, style: Style, part: str) -> None:
        """Apply a palette."""
        self.display.palettes.apply_style(style, part)

    def dials(self) -> list[Dial]:
        """Return the dials for r, also that of a second run, and for the speed."""
        return [slider_dial(self.r, r_words), *self.second.dials(), list_dial(self.transport.speed)]

    # -- field

    def _field(self) -> pn.Column:
        self.source = InitialField(self.session, self._show_options)
        self.again = icon("casino", "New random seed", self._reseed, align="center")
        self._mode = column(*(TypedSlider(self.slider(f"mode_{name}", 1), name).panel for name in "pq"))
        self._text = self.add(
            "text", pmui.TextInput(label="Text", value=self.session.values["text"], size="small", **FULL)
        )
        first = pn.Row(self.source.choice, self.again, margin=0, sizing_mode="stretch_width")
        self._show_options(self.session.values["preset"])
        return column(first, self._mode, self._text, self.source.upload.panel, self.brush.panel)

    def _reseed(self) -> None:
        self.session.change(seed=(self.session.values["seed"] + 1) % SEEDS)

    def _show_options(self, preset: str) -> None:
        """Show the options of `preset`; an image, "", has none."""
        self._mode.visible = preset == "single mode"
        self._text.visible = preset == "text"
        self.again.disabled = not preset

    def landmark(self) -> object:
        """Return the initial field: a preset, or an image."""
        frame = self.session.latest
        return frame.notes["image"] if frame is not None and frame.notes["image"] else self.session.values["preset"]

    def tick(self) -> None:
        """Show the latest frame's source, the next undo and redo, and the state of uploads, a few times a second."""
        self.source.upload.tick()
        self.second.tick()
        self.display.follow_second_run()
        frame = self.session.latest
        if frame is not None:
            if initial := self.source.tick(frame):
                self.show_values(initial)
            self.transport.follow_undo(frame.notes)

    def close(self) -> None:
        """Stop reading files."""
        self.source.upload.close()

    def on_event(self, event: Any) -> bool:
        """Handle an engine event; return True if the image's field, or that of the pause, shows it."""
        if isinstance(event, messages.Refused) and "pause_at" in event.kept:
            self.pause.complain(event.text)
            return True
        return isinstance(event, messages.Event) and self.source.on_event(event)

    # -- physics

    def _physics(self) -> pn.Column:
        self.r = self.slider("r", 0.005, format="0.000")
        self._stable_r = self.session.values["r"]  # restored when the unstable mode is switched off
        self.unstable = pmui.Switch(label="See it blow up (r > ¼)", value=False, **FULL)
        self.unstable.param.watch(self._allow_unstable, "value")
        self._usual_pace = self.session.steps_per_frame  # restored likewise
        self._calm = False
        words = f"Shows {CLOSE} × {CLOSE} cells at the probe, {CALM} steps per frame. 0 shows the whole field."
        self._closely = html_pane(f"<p>{words}</p>", margin=(0, 8), visible=False)
        typed = TypedSlider(self.r, "r", self._typed_bounds, self._beyond)
        self.pause = NumberField(
            "Pause at step", self.session.values["pause_at"], lambda value: self.session.change(pause_at=value),
            whole=True, optional=True, helper_text="Empty: never.",
            accepted=lambda: range_words(self.parameter("pause_at").bounds),
        )  # fmt: skip
        self.second = SecondRun(self.session, Diffusion, self._comparable)
        edges = self.choice("edges")
        return column(typed.panel, self.unstable, self._closely, edges, self.pause.panel, self.second.panel)

    def _comparable(self) -> dict[str, Offer]:
        """Return the parameters in which a second run can differ."""
        values = self.session.values
        kernels = variants(Diffusion, values["backend"])
        options: dict[str, dict[str, Any]] = {
            "edges": {name: name for name in Diffusion.param["edges"].objects},
            "variant": {kernel_words(name): "" if name == kernels[0] else name for name in kernels},
            "dtype": {name: name for name in number_types(Diffusion, values["backend"])},
        }
        r = Offer("r", values["r"], (self.r.start, self.r.end))
        several = {name: known for name, known in options.items() if len(known) > 1}
        labels = {name: str(Diffusion.param[name].label) for name in several}
        return {"r": r} | {name: Offer(labels[name], values[name], options=known) for name, known in several.items()}

    def _typed_bounds(self) -> tuple[float, float]:
        """Return the bounds of a typed r, which the lab accepts."""
        return 0, UNSTABLE_LIMIT if self.unstable.value else LIMIT

    def _beyond(self) -> str:
        return "" if self.unstable.value else f"; up to {UNSTABLE_LIMIT} with “See it blow up”"

    def _go_calmly(self, calm: bool) -> None:
        """Slow down in unstable mode so that an audience sees the chequerboard grow, or restore the previous speed."""
        if calm == self._calm:
            return
        self._calm, speed = calm, self.transport.speed
        if calm:
            self._usual_pace, speed.value = speed.value, CALM
        elif speed.value == CALM:  # unless the user has changed it
            speed.value = self._usual_pace

    def _allow_unstable(self, event: Any) -> None:
        if self._following:
            return
        self._go_calmly(event.new)
        self._closely.visible = event.new
        if event.new:
            self._stable_r = self.session.values["r"]
            self.r.end = FARTHEST
            self.session.change(unstable=True, r=BLOW_UP)
            self.r.value = BLOW_UP
            self.session.later(partial(self.lab_view.look_closely, CLOSE))
        else:
            self.session.later(self.lab_view.look_away)
            limit = self.parameter("r").bounds[1]
            self.session.change(unstable=False, r=min(self._stable_r, limit))
            self.r.param.update(value=self.session.values["r"], end=self.parameter("r").bounds[1])

    def _show_limit(self) -> None:
        """Update the switch and the range of the slider of r from the session, without changing values."""
        unstable, r = self.session.values["unstable"], self.session.values["r"]
        end = max(FARTHEST, r) if unstable else self.parameter("r").bounds[1]
        self.r.param.update(value=r, end=end)
        self._go_calmly(unstable)
        if not unstable:
            self._closely.visible = False
            self.session.later(self.lab_view.look_away)
        with self._quiet():
            self.unstable.value = unstable

    # -- compute

    def _compute(self) -> pn.Column:
        self.compute = ComputeControls(self.session, kernel_words)
        self.size = GridSize(self.session, SIDES, self.lab_view.show_whole)
        return column(*self.compute.items, *self._together(cuda_count()), self.size.panel, self.compute.dtype)

    def _together(self, found: int) -> list[Any]:
        """Return the drop-down for the number of GPUs that share the grid; empty with fewer than two GPUs."""
        if found < 2:
            return []
        counts = sorted({found, *(count for count in (2, 4, 8, 16) if count < found)})
        options = {"One GPU": ""} | {f"{count} GPUs": devices_name(range(count)) for count in counts}
        chosen = self.session.values["devices"]
        if chosen not in options.values():
            options[chosen] = chosen
        hint = "For the CUDA C kernels: each GPU holds a slab of rows, and passes its edge rows on."
        return [self.choice("devices", options, helper_text=hint)]

    def show_values(self, values: Any) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        if "unstable" in values:
            self._show_limit()
        if "pause_at" in values:
            self.pause.show(values["pause_at"])
        super().show_values(values)
        self.source.show_values(values)
        self.display.show_values(values)
        self.compute.show_values(values)
        self.size.show_values(values)


class DiffusionDisplay(ValueWidgets):
    """The group "Display": selection and colours of the pictures. `panel` is the group's body."""

    def __init__(self, session: Session, lab_view: DiffusionView) -> None:
        super().__init__(session)
        self.lab_view = lab_view
        self.shown = shown = pmui.RadioButtonGroup(options=list(SHOWN), value="Both", size="small", **FULL)
        shown.param.watch(lambda event: session.later(lambda: lab_view.choose(SHOWN[event.new])), "value")
        self.curves = pmui.Switch(label="Show curves", value=True, **FULL)
        self.curves.param.watch(lambda event: session.later(lambda: lab_view.show_curves(event.new)), "value")
        self.growth = pmui.Switch(label="Log axis and growth at the probe", value=False, **FULL)
        self.fitted = pmui.Select(
            label="Growth fitted over", options=FITTED, value=1.0, visible=False, size="small", **FULL
        )
        for widget in (self.growth, self.fitted):
            widget.param.watch(lambda event: self._show_growth(), "value")
        self.palettes = PaletteControls(
            session, lab_view.pictures,
            {"field": "Palette of the field", "laplacian": "Palette of the Laplacian"}, PALETTES,
        )  # fmt: skip
        section = self.choice("section")
        section.param.watch(lambda event: session.later(lab_view.place_section), "value")
        self.panel = pn.Column(
            shown,
            self.curves,
            self.growth,
            self.fitted,
            *self.palettes.lists.values(),
            self.palettes.reverse,
            *self._limits(),
            section,
            margin=0,
            sizing_mode="stretch_width",
        )

    def follow_second_run(self) -> None:
        """Disable the choice of pictures while those of two runs are shown."""
        if self.shown.disabled != self.lab_view.pictures.twice:
            self.shown.disabled = self.lab_view.pictures.twice

    def _show_growth(self) -> None:
        self.fitted.visible = self.growth.value
        self.session.later(lambda: self.lab_view.show_growth(self.growth.value, self.fitted.value))

    # -- limits

    def _limits(self) -> list[Any]:
        self.kind = pmui.Select(
            label="Colour range", options=list(LIMITS), value=self._present_kind(), size="small", **FULL
        )
        self.snap = pmui.Button(
            label="Fit limits now (L)", icon="center_focus_strong", variant="outlined", size="small", **FULL
        )
        narrow: dict[str, Any] = {"width": 112, "sizing_mode": "fixed", "margin": (6, 8)}
        self.limits = {
            name: LimitFields((f"{label} from", f"{label} to"), partial(self._limit, name), **narrow)
            for name, label in (("field", "Field"), ("laplacian", "Laplacian"))
        }
        rows = (pn.Row(*pair.panels, margin=0) for pair in self.limits.values())
        self._rows = pn.Column(*rows, visible=False, margin=0)
        self.kind.param.watch(lambda event: self._use(event.new), "value")
        self.snap.on_click(lambda event: self.fit())
        return [self.kind, self.snap, self._rows]

    def _present_kind(self) -> str:
        """Return the element of LIMITS for the session's values; typed limits of the Laplacian may differ."""
        values = self.session.values
        if values["limits_field"] is not None or values["limits_laplacian"] is not None:
            return TYPED
        return HELD if values["hold_limits"] else FOLLOWING

    def _use(self, kind: str) -> None:
        """Fix the field's limits, update them with each frame, or use typed limits."""
        self._rows.visible = kind == TYPED
        if kind != TYPED:
            self.session.change(hold_limits=kind == HELD, limits_field=None, limits_laplacian=None)
        elif self._present_kind() != TYPED:
            self._type_newest()

    def fit(self) -> None:
        """Set the limits to those of the latest frame: until the next initial field, or as typed numbers."""
        if self.kind.value == TYPED:
            self._type_newest()
            return
        self.kind.value = HELD
        self.session.act("refit")

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance by a link."""
        super().show_values(values)
        if {"hold_limits", "limits_field", "limits_laplacian"} & set(values):
            for name, pair in self.limits.items():
                limits = self.session.values[f"limits_{name}"]
                if limits is not None:
                    pair.show(*limits)
            self.kind.value = self._present_kind()

    def _type_newest(self) -> None:
        """Fill in the limits of the latest frame."""
        frame = self.session.latest
        if frame is None:
            return
        changed = {}
        for name, pair in self.limits.items():
            raster = frame.rasters[name]
            limits = changed[f"limits_{name}"] = distinct_limits(raster.low, raster.high)
            pair.show(*limits)
        self.session.change(**changed)

    def _limit(self, name: str, low: float, high: float) -> None:
        self.session.change(**{f"limits_{name}": (low, high)})
