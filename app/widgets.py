"""Widgets made from a lab's parameters: bounds, label and choices come from the model, never from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import panel_material_ui as pmui
import param

from app.session import Session

FULL = {"sizing_mode": "stretch_width", "margin": (6, 8)}
Widget: TypeAlias = Any  # a material widget; the library has no types


class Bound:
    """Widgets that set a session's values, and follow when the session sets them otherwise."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._widgets: dict[str, Widget] = {}

    def parameter(self, name: str) -> param.Parameter[Any]:
        """The lab's parameter `name`."""
        return self.session.lab.param[name]

    def add(self, name: str, widget: Widget) -> Widget:
        """Let `widget` set the value `name`, while it is dragged."""
        self._widgets[name] = widget
        widget.param.watch(lambda event: self.session.change(**{name: event.new}), "value")
        return widget

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which the session took without these widgets."""
        for name, value in values.items():
            if name in self._widgets:
                self._widgets[name].value = value

    def slider(self, name: str, step: float, **options: Any) -> Widget:
        """A slider over the parameter's bounds."""
        parameter = self.parameter(name)
        low, high = parameter.bounds
        start, end = options.pop("start", low), options.pop("end", high)
        kind = pmui.IntSlider if isinstance(parameter, param.Integer) else pmui.FloatSlider
        value, label = self.session.values[name], options.pop("label", parameter.label)
        return self.add(
            name, kind(label=label, value=value, start=start, end=end, step=step, size="small", **FULL, **options)
        )

    def choice(self, name: str, options: Mapping[str, Any] | list[Any] | None = None, **more: Any) -> Widget:
        """A drop-down of the parameter's objects, or of `options` (words -> value)."""
        parameter = self.parameter(name)
        objects = list(parameter.objects) if options is None else options
        return self.add(
            name,
            pmui.Select(
                label=parameter.label, value=self.session.values[name], options=objects, size="small", **FULL, **more
            ),
        )

    def switch(self, name: str, **more: Any) -> Widget:
        """An on-off switch."""
        parameter = self.parameter(name)
        return self.add(name, pmui.Switch(label=parameter.label, value=self.session.values[name], **FULL, **more))


def icon(name: str, words: str, click: Callable[[], object], **options: Any) -> pmui.IconButton:
    """A button with a symbol only; `words` are its tooltip and its name for a screen reader."""
    look = {"size": "small", "margin": 2, **options}
    button = pmui.IconButton(icon=name, description=words, description_delay=400, toggle_duration=0, **look)
    button.on_click(lambda event: click())
    return button
