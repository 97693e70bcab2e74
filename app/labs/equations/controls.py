"""The side bar of the equations lab: transport, then the text, its numbers, the compute group and the display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import panel_material_ui as pmui

from app.page.markup import plain
from app.page.notices import Notices
from app.page.widgets import FULL, number_format
from app.tab.controls import ComputeControls, Controls, Dial, Transport, accordion, column, slider_dial
from app.tab.session import Session
from compute.labs.equations.language import MOST_CHARACTERS
from compute.labs.equations.presets import presets
from compute.labs.equations.programs import SLOTS, picture_of, program_of, slots_of
from compute.labs.equations.tree import EquationError

SIZES = {f"{n} × {n}": n for n in (64, 128, 256, 512, 1024, 2048, 4096)}
SLIDER_STEPS = 200
OWN = "your text"
APPLY = "Applied as the field loses the focus. About describes the language."
KERNELS = {"T-step": "several steps per pass", "one-step": "one step per pass"}


class EquationsControls(Controls):
    """One text field for the equations, and a slider for each of its numbers; both follow the engine's values.

    A text is parsed here before it is sent: one with an error stays in its field, with the place of the error below it.
    """

    def __init__(self, session: Session, lab_view: object, notices: Notices) -> None:
        super().__init__(session)
        values = session.values
        self.transport = Transport(session)
        self.keys = self.transport.keys
        self.compute = ComputeControls(session, lambda name: KERNELS.get(name, name))
        self._shown = ""  # the text of the sliders
        self.preset = pmui.Select(
            label="Preset", value=_preset_of(values["text"]), options=_options(), size="small", **FULL
        )
        self.preset.param.watch(lambda event: self._choose(event.new), "value")
        self.text = pmui.TextAreaInput(
            label="Equations", value=values["text"], rows=10, max_length=MOST_CHARACTERS, helper_text=APPLY,
            sx={"textarea": {"fontFamily": "monospace", "fontSize": "0.8rem"}}, size="small", **FULL,
        )  # fmt: skip
        self.text.param.watch(lambda event: self._typed(event.new), "value")
        self.numbers = {name: self._number(name) for name in SLOTS}
        self.first = self.choice("first_picture", [values["first_picture"]])
        self.second = pmui.TextInput(label="Second picture", value=values["show"], size="small", **FULL)
        self.second.param.watch(lambda event: self._draw(event.new), "value")
        self.step = self.add(
            "time_step", pmui.LiteralInput(label="Time step", value=values["time_step"], size="small", **FULL)
        )
        size = pmui.Select(label="Grid", value=values["nx"], options=dict(SIZES), size="small", **FULL)
        size.param.watch(lambda event: session.change(ny=event.new, nx=event.new), "value")
        self.size = size
        groups = {
            "Equations": column(self.preset, self.text),
            "Numbers": column(*self.numbers.values(), self.step),
            "Compute": column(size, *self.compute.items, *([self.compute.dtype] if self.compute.dtype else [])),
            "Display": column(self.first, self.second),
        }
        self.panel = column(self.transport.panel, accordion(groups, opened=(0, 1)))
        self._follow()

    def _number(self, name: str) -> Any:
        """Return the slider of a number of the text, which `_follow` labels."""
        slider = pmui.FloatSlider(label=name, value=0.0, start=0.0, end=1.0, step=0.01, size="small", **FULL)
        slider.param.watch(lambda event: self._slide(name, event.new), "value")
        return slider

    def _slide(self, name: str, value: float) -> None:
        if not self._following:
            self.session.change(**{name: value})

    def dials(self) -> list[Dial]:
        """Return the sliders of the text's numbers."""
        return [slider_dial(each) for each in self.numbers.values() if each.visible]

    def landmark(self) -> object:
        """Return the text."""
        return self.session.values["text"]

    def _choose(self, name: str) -> None:
        if not self._following and name in presets():
            self._apply(presets()[name].text)

    def _typed(self, text: str) -> None:
        if not self._following:
            self._apply(text)

    def _apply(self, text: str) -> None:
        """Send a text without errors; show the error of another one."""
        try:
            program_of(text)
            picture_of(text, self.session.values["show"])
        except EquationError as error:
            self.text.param.update(error_state=True, helper_text=plain(str(error).partition("\n")[0]))
            return
        self.session.change(text=text)
        self._follow()

    def _draw(self, expression: str) -> None:
        """Send the expression of the second picture, if it has no error."""
        if self._following:
            return
        try:
            picture_of(self.session.values["text"], expression)
        except ValueError as error:
            words = error.message if isinstance(error, EquationError) else str(error)
            self.second.param.update(error_state=True, helper_text=plain(words))
            return
        self.second.param.update(error_state=False, helper_text="")
        self.session.change(show=expression)

    def _follow(self) -> None:
        """Show text, numbers and fields of the session's values."""
        values = self.session.values
        text = values["text"]
        with self._quiet():
            if text != self._shown:
                self._shown = text
                self.preset.value = _preset_of(text)
                self.text.param.update(value=text, error_state=False, helper_text=APPLY)
                self._label(text)
                self.first.options = {f"{name}": name for name in program_of(text).system.fields}
            for name, slider in self.numbers.items():
                value = values[name]
                if slider.visible and value is not None and slider.start <= value <= slider.end:
                    slider.value = value
            self.first.value = values["first_picture"] or program_of(text).system.fields[0]

    def _label(self, text: str) -> None:
        """Give each slider name and range of a number of the text; hide the others."""
        slots = {each.slot: each for each in slots_of(text)}
        for name, slider in self.numbers.items():
            if name not in slots:
                slider.visible = False
                continue
            each = slots[name]
            step = (each.high - each.low) / SLIDER_STEPS
            slider.param.update(
                label=each.name, start=each.low, end=each.high, step=step, value=each.value, visible=True,
                format=number_format(step, each.low),
            )  # fmt: skip

    def tick(self) -> None:
        """Follow a text that the engine has applied."""
        if self.session.values["text"] != self._shown:
            self._follow()

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which were changed without these widgets."""
        super().show_values(values)
        self.compute.show_values(values)
        self._follow()
        with self._quiet():
            if "show" in values:
                self.second.value = values["show"]
            if "nx" in values and values["nx"] in SIZES.values():
                self.size.value = values["nx"]


def _preset_of(text: str) -> str:
    """Return the name of the preset with this text, OWN for another text."""
    return next((each.name for each in presets().values() if each.text == text), OWN)


def _options() -> dict[str, str]:
    return {each.title: each.name for each in presets().values()} | {OWN.capitalize(): OWN}
