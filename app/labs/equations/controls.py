"""The side bar of the equations lab: presets, sliders of the parameters, settings of the text, compute, and display.

A text reaches the lab in one of these ways: typed in the editor, chosen as a preset, or rewritten by a control of one
of its settings, which all end in `_apply`; or, by a link or a file, as a value of the session. A new text keeps the
sliders' positions where it does not set others.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import panel_material_ui as pmui

from app.labs.equations.preset_tiles import PresetAbout, PresetTiles
from app.labs.equations.second_panel import SecondPanel, valid
from app.labs.equations.second_picture import AS_IN_TEXT, checked
from app.labs.equations.sliders import ParameterSliders, values_after
from app.labs.equations.text_image import WALL, TextImage
from app.labs.equations.text_settings import Rewriting, TextSettings
from app.labs.equations.view import PALETTES, EquationsView
from app.page.notices import Notices
from app.page.widgets import FULL, NumberField, range_words, set_options
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
from compute.engine import messages
from compute.export.scene import Style
from compute.lab.frames import Frame
from compute.lab.two_runs import SECOND
from compute.labs.equations.lab import Equations
from compute.labs.equations.language import read
from compute.labs.equations.picture import WITH_TEXT
from compute.labs.equations.presets import Preset, presets
from compute.labs.equations.programs import SLOTS, alike, full_text
from compute.labs.equations.rewriting import with_time_step, with_wall
from compute.labs.equations.tree import EquationError, System

SIDES = (64, 128, 256, 512, 1024, 2048, 4096)  # of grids, in cells
WHOLE_KEYS = ("0", "home")
PLOTTED = {"second_panel", "plotted", "section", "probe_x", "probe_y"}  # values of the second panel's plot
KERNELS = {"T-step": "several steps per pass", "one-step": "one step per pass"}  # labels on the page


class EquationsControls(Controls):
    """The controls of one session. The editor is part of its view."""

    def __init__(self, session: Session, lab_view: EquationsView, notices: Notices) -> None:
        super().__init__(session)
        self.lab_view, self.notices = lab_view, notices
        self.transport = transport = Transport(session)
        self.use_speed(transport.typed_speed)
        self._text, self._system = lab_view.editor.text, lab_view.editor.system
        self._sent = ""  # the text that was sent last, until the engine has applied it
        self._undone = ""  # identifies the last undo
        self.sliders_of_text = ParameterSliders(self._turn)
        self.about = PresetAbout(self._load)
        self.tiles = PresetTiles(presets(), self._load, self.about.open)
        self.dialogs = [self.about.panel]
        self.brush = Brush(session, lab_view.pictures, self._into)
        self.settings = TextSettings(self._rewrite, self._set_step)
        self.into = pmui.Select(label="Paint into", size="small", **FULL)
        self.into.param.watch(lambda event: self._paint_into(event.new), "value")
        self.image = TextImage(session, self._use_text)
        groups = {
            "Field": column(self.tiles, self.brush.panel, self.into, self.image.panel),
            "Physics": self._physics(),
            "Compute": self._compute(),
            "Display": self._display(),
        }
        first, second = self.palettes.lists.values()
        self.keep_display(editor=self.editor_shown, first_palette=first, second_palette=second)
        self.keys = transport.keys | {"f": self._toggle_editor, "l": self._toggle_hold, "v": self.second.next}
        self.keys |= dict.fromkeys(WHOLE_KEYS, lab_view.unzoom)
        self.panel = column(transport.panel, accordion(groups, opened=(0, 1)))
        lab_view.applied.subscribe(lambda typed: self._apply(*typed))
        self._follow_text()

    def dials(self) -> list[Dial]:
        """Return the dials of the parameters, also of a second run, and that of the speed."""
        sliders = map(slider_dial, self.sliders_of_text.sliders.values())
        return [*sliders, *self.second_run.dials(), list_dial(self.transport.speed)]

    def landmark(self) -> object:
        """Return the text."""
        return self.session.values["text"]

    def close(self) -> None:
        """Stop the editor's timers, and reading a file."""
        self.lab_view.editor.close()
        self.image.upload.field.close()

    # -- the text

    def _use_text(self, text: str) -> None:
        """Show and apply a text that the page has changed. Raise EquationError for an invalid one."""
        self.lab_view.editor.load(text)
        self._apply(text, self.lab_view.editor.system)

    def _load(self, preset: Preset) -> None:
        """Show a preset with its own values, from its initial values on."""
        again = alike(self._text, preset.text)  # the lab would keep the fields
        self.lab_view.editor.load(preset.text)
        self._apply(preset.text, self.lab_view.editor.system, fresh=True, time_step=None)
        if again:
            self.session.act("reset")

    def _set_step(self, dt: float | None) -> None:
        """Write a time step into the text, None for an automatic one; see _rewrite."""
        self._rewrite(partial(with_time_step, dt=dt), time_step=None)

    def _rewrite(self, change: Rewriting, **more: Any) -> None:
        """Apply a change of the typed text, and `more` values. Raise ValueError if the text is or becomes invalid."""
        editor = self.lab_view.editor
        try:
            read(editor.typed)
        except EquationError as error:
            place = f"line {error.line}, column {error.column}"
            raise ValueError(f"Correct the text first, {place}: {error.message}") from error
        try:
            editor.rewrite(change(editor.typed))
        except EquationError as error:
            raise ValueError(error.message) from error
        self._apply(editor.text, editor.system, **more)

    def _apply(self, text: str, system: System, fresh: bool = False, **more: Any) -> None:
        """Send a valid text, and `more` values. fresh: with its own values of all parameters."""
        values = self.session.values
        kept = values_after(None if fresh else self._system, system, self._numbers())
        if fresh or not alike(self._text, text):
            # First no values, for which the lab takes those of the text: a value that stays would not be sent.
            more |= {
                "limits_field": None,
                "limits_show": None,
                SECOND: {},
                **dict.fromkeys(SLOTS),
                **valid(system, values),
            }
            if not self._shows(system, values["show"]):
                more["show"] = AS_IN_TEXT
        self._sent = text
        self.session.change(text=text, **more)
        if values["text"] != text:  # refused already
            return
        numbers = {name: value for name, value in kept.items() if value != system.parameters[name].value}
        slots = dict(zip(system.parameters, SLOTS, strict=False))
        if numbers:
            self.session.change(**{slots[name]: value for name, value in numbers.items()})
        self._show_text(text, system)

    @staticmethod
    def _shows(system: System, expression: str) -> bool:
        """Return whether the second picture is possible with this system."""
        try:
            checked(system.text, expression)
        except ValueError:
            return False
        return True

    def _numbers(self) -> dict[str, float]:
        """Return the values of the present text's parameters by name."""
        values = self.session.values
        found = zip(self._system.parameters.items(), SLOTS, strict=False)
        return {name: each.value if values[slot] is None else values[slot] for (name, each), slot in found}

    def _show_text(self, text: str, system: System) -> None:
        """Show sliders, tiles and choices of a text."""
        values = self.session.values
        self._text, self._system = text, system
        self.sliders_of_text.show(system, self._numbers())
        self.tiles.show(text)
        self.second.show(system)
        self.settings.show(system, system.dt if values["time_step"] is None else values["time_step"])
        walled = system.wall is not None
        arrays = {name: name for name in system.fields} | {WALL if walled else f"{WALL} (begins again)": WALL}
        known = self.into.value in system.fields or (walled and self.into.value == WALL)
        self.image.show(text, system)
        with self._quiet():
            set_options(self.into, arrays, self.into.value if known else system.fields[0])
            first = values["first_picture"] or system.fields[0]
            self.first.param.update(options=list(system.fields), value=first, visible=len(system.fields) > 1)
        self.hold.value = values["limits_field"] is not None

    def _follow_text(self) -> None:
        """Show the session's text, which may have been changed without these controls."""
        text = full_text(self.session.values["text"])
        with suppress(EquationError):  # of a link: the lab is about to refuse it
            self.lab_view.editor.show(text)
            self._show_text(text, self.lab_view.editor.system)

    def tick(self) -> None:
        """Follow a text that a link or a file has brought."""
        if full_text(self.session.values["text"]) != self._text:
            self._follow_text()
        if self.session.confirmed["text"] == self._sent:
            self._sent = ""
        self.image.upload.field.tick()
        self.second_run.tick()
        if self.second.choice_of_panel.disabled != self.lab_view.pictures.twice:
            self.second.choice_of_panel.disabled = self.lab_view.pictures.twice
        if (frame := self.session.latest) is not None:
            self.image.tick(frame)
            self._follow_undo(frame)
            self.transport.follow_undo(frame.notes)
            self.settings.tell(frame.facts["dt"], frame.facts["limit"], frame.notes["advice"])

    def _follow_undo(self, frame: Frame) -> None:
        """Show the values that an undo has restored. The session has them, or newer ones: they are not sent."""
        if frame.notes["undone"] != self._undone:
            self._undone = frame.notes["undone"]
            self.show_values({name: self.session.values[name] for name in WITH_TEXT})

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        super().show_values(values)
        self.compute.show_values(values)
        self._follow_text()
        if PLOTTED & values.keys():
            self.session.later(self.lab_view.show_panel)
        if "pause_at" in values:
            self.pause.show(values["pause_at"])
        self.size.show_values(values)

    def on_event(self, event: Any) -> bool:
        """Handle an engine event; return True if a control shows a refusal."""
        if isinstance(event, messages.Event) and self.image.upload.on_event(event):
            return True
        if not isinstance(event, messages.Refused):
            return False
        if "text" in event.kept and self._sent:
            self.lab_view.editor.refuse(event.text, self._sent)
            self._sent = ""
            return True
        shown = {"show": self.second.picture.refuse, "pause_at": self.pause.complain}
        concerned = [name for name in event.kept if name in shown]
        for name in concerned:
            shown[name](event.text)
        return bool(concerned)

    # -- painting

    def _paint_into(self, name: str) -> None:
        """Use another array for strokes; the wall is added to a text without one."""
        self.brush.value_panel.visible = name != WALL  # it is 1 there
        if self._following or name != WALL or self._system.wall is not None:
            return
        try:
            self._rewrite(with_wall)
        except ValueError as error:
            self.notices.tell("warning", str(error))
            with self._quiet():
                self.into.value = self._system.fields[0]

    def _into(self) -> dict[str, Any]:
        """Return the arguments of a stroke for the chosen array."""
        wall = {"value": float(self.brush.mode.value != "erase")} if self.into.value == WALL else {}
        return {"field": self.into.value, **wall}

    # -- physics

    def _turn(self, name: str, value: float) -> None:
        slots = dict(zip(self._system.parameters, SLOTS, strict=False))
        self.session.change(**{slots[name]: value})

    def _physics(self) -> Any:
        self.pause = NumberField(
            "Pause at t", self.session.values["pause_at"], lambda value: self.session.change(pause_at=value),
            optional=True, helper_text="Empty: never.",
            accepted=lambda: range_words(self.parameter("pause_at").bounds),
        )  # fmt: skip
        self.second_run = SecondRun(self.session, Equations, self._comparable)
        step, pause = self.settings.step.panel, self.pause.panel
        return column(self.sliders_of_text.panel, self.settings.edges, step, pause, self.second_run.panel)

    def _comparable(self) -> dict[str, Offer]:
        """Return the parameters in which a second run can differ; none before the first frame of a new text."""
        values, frame = self.session.confirmed, self.session.latest
        if frame is None or values["text"] != self._text:
            return {}
        step = frame.facts["dt"] if values["time_step"] is None else values["time_step"]
        slots = {each.slot: each for each in Equations.named_numbers(values)}
        found = {name: slots[name] for name in Equations.comparable(values) if name in slots}
        numbers = {name: Offer(each.name, values[name], (each.low, each.high)) for name, each in found.items()}
        return numbers | {"time_step": Offer("Time step", step)}

    # -- compute

    def _compute(self) -> Any:
        self.compute = ComputeControls(self.session, lambda name: KERNELS.get(name, name))
        self.size = GridSize(self.session, SIDES, self.lab_view.show_whole)
        dtype = [self.compute.dtype] if self.compute.dtype else []
        return column(*self.compute.items, self.size.panel, *dtype, self.settings.scheme)

    # -- display

    def _display(self) -> Any:
        session, view = self.session, self.lab_view
        self.editor_shown = pmui.Switch(label="Show the editor (F)", value=True, **FULL)
        self.editor_shown.param.watch(lambda event: session.later(lambda: view.show_editor(event.new)), "value")
        self.first = pmui.Select(label="First picture", size="small", **FULL)
        self.first.param.watch(lambda event: self._choose_first(event.new), "value")
        labels = {"field": "Palette of the first picture", "show": "Palette of the second picture"}
        self.palettes = PaletteControls(session, view.pictures, labels, PALETTES)
        palette, second = self.palettes.lists.values()
        self.second = SecondPanel(session, self._system, second)
        for widget in (self.second.choice_of_panel, self.second.plotted, self.second.section):
            widget.param.watch(lambda event: session.later(view.show_panel), "value")
        self.hold = pmui.Switch(label="Hold the colour limits (L)", value=False, **FULL)
        self.hold.param.watch(lambda event: self._hold(event.new), "value")
        colours = self.palettes.reverse, self.hold
        return column(self.editor_shown, self.first, palette, self.second.panel, *colours)

    def _choose_first(self, name: str) -> None:
        if not self._following and name:
            self.session.change(first_picture="" if name == self._system.fields[0] else name)

    def _toggle_editor(self) -> None:
        self.editor_shown.value = not self.editor_shown.value

    def _toggle_hold(self) -> None:
        self.hold.value = not self.hold.value

    def _hold(self, held: bool) -> None:
        """Fix the colour limits at those of the latest frame, or let them follow each frame."""
        values, frame = self.session.values, self.session.latest
        if held == (values["limits_field"] is not None):
            return
        names = {"limits_field": "field", "limits_show": "show"}
        limits: dict[str, Any] = dict.fromkeys(names)
        if held and frame is not None:
            rasters = {key: frame.rasters[name] for key, name in names.items()}
            limits |= {key: (each.low, each.high) for key, each in rasters.items() if each.low < each.high}
        self.session.change(**limits)

    def style(self, part: str) -> Style:
        """Return the palette of a picture, "" for the first."""
        return self.palettes.style(part)

    def apply_style(self, style: Style, part: str) -> None:
        """Apply a palette to a picture, "" for the first."""
        self.palettes.apply_style(style, part)
