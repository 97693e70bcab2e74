"""A slider for each parameter of the typed equations.

A parameter is identified by its name. While a parameter stays in the text, its slider stays the same component, so it
keeps the focus and a drag in progress, and its value: unless the text gives the parameter another value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor, log10
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.page.theme import html_pane
from app.page.typed_slider import TypedSlider
from app.page.widgets import FULL, Widget, number_format
from compute.lab.lab import number_label
from compute.labs.equations.tree import Parameter, System

LEAST_STEPS = 100  # of a slider; a power of ten makes it up to ten times as many
FINER = 100  # at most, if the text's value lies between two steps
NONE = "<p class='quiet'>No parameters. Write <code>D = 0.2 in [0, 1]</code>, and D has a slider here.</p>"


def step_of(parameter: Parameter) -> float:
    """Return the step of a slider: a power of ten that reaches the parameter's value, if possible."""
    step = 10.0 ** floor(log10((parameter.high - parameter.low) / LEAST_STEPS))
    places = (parameter.value - parameter.low) / step
    finer = 1
    while abs(places * finer - round(places * finer)) > 1e-6 and finer < FINER:
        finer *= 10
    return step / finer


def values_after(old: System | None, new: System, values: Mapping[str, float]) -> dict[str, float]:
    """Return the values of the parameters of `new`, after `old` with `values`.

    A parameter keeps its value, limited to its new range, unless the text has changed the value.
    """
    found = {}
    for name, parameter in new.parameters.items():
        before = old.parameters.get(name) if old is not None else None
        kept = before is not None and before.value == parameter.value and name in values
        found[name] = min(max(values[name], parameter.low), parameter.high) if kept else parameter.value
    return found


class ParameterSliders:
    """The sliders of one tab; `panel` is the body of their group.

    turned(name, value) is called while a slider is dragged. sliders: by name, in the order of the text.
    """

    def __init__(self, turned: Callable[[str, float], object]) -> None:
        self._turned = turned
        self._showing = False  # whether values are set from outside, not by the user
        self.sliders: dict[str, Widget] = {}
        self._rows: dict[str, Any] = {}  # slider and field, by name
        self.panel = pn.Column(html_pane(NONE, margin=(4, 8)), margin=0, sizing_mode="stretch_width")

    def show(self, system: System, values: Mapping[str, float]) -> None:
        """Show the parameters of a system at these values; a missing one has the value of the text."""
        self._showing = True
        sliders = {}
        for name, parameter in system.parameters.items():
            options = self._options(name, parameter, values.get(name, parameter.value))
            if name in self.sliders:
                sliders[name] = self.sliders[name]
                sliders[name].param.update(**options)
            else:
                sliders[name] = self._slider(name, options)
        self._showing = False
        if list(sliders) != list(self.sliders):
            self.sliders, self._rows = sliders, {name: self._rows[name] for name in sliders}
            self.panel.objects = list(self._rows.values()) or [html_pane(NONE, margin=(4, 8))]

    def show_values(self, values: Mapping[str, float]) -> None:
        """Show values that were changed without these sliders; other names are ignored."""
        self._showing = True
        for name, slider in self.sliders.items():
            if name in values:
                slider.value = values[name]
        self._showing = False

    @staticmethod
    def _options(name: str, parameter: Parameter, value: float) -> dict[str, Any]:
        step = step_of(parameter)
        return {
            "label": number_label(name, parameter.low, parameter.high),
            "start": parameter.low,
            "end": parameter.high,
            "step": step,
            "format": number_format(step, parameter.low),
            "value": value,
        }

    def _slider(self, name: str, options: dict[str, Any]) -> Widget:
        slider = pmui.FloatSlider(size="small", **options, **FULL)
        slider.param.watch(lambda event: self._changed(name, event.new), "value")
        self._rows[name] = TypedSlider(slider, name).panel
        return slider

    def _changed(self, name: str, value: float) -> None:
        if not self._showing and name in self.sliders:
            self._turned(name, value)
