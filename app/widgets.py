"""Widgets that set a session's values, fields for numbers, buttons.

Bounds, label and choices of a widget come from the lab's parameters, never from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import floor, isclose, log10
from pathlib import Path
from typing import Any, TypeAlias

import panel_material_ui as pmui
import param
from bokeh.models import PrintfTickFormatter
from panel.custom import JSComponent

from app.markup import plain
from app.session import Session

FULL = {"sizing_mode": "stretch_width", "margin": (6, 8)}
Widget: TypeAlias = Any  # a material widget; the library has no types


class ValueWidgets:
    """Widgets that set a session's values, and follow when the session sets them otherwise."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._widgets: dict[str, Widget] = {}
        self._following = False  # whether widgets are set by the session, and by nobody's hand
        self.sliders: list[Widget] = []

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

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Take what widgets show in the block as chosen by nobody."""
        before, self._following = self._following, True
        try:
            yield
        finally:
            self._following = before

    def slider(self, name: str, step: float, **options: Any) -> Widget:
        """A slider over the parameter's bounds. Its value is shown with the digits that tell its steps apart."""
        parameter = self.parameter(name)
        low, high = parameter.bounds
        start, end = options.pop("start", low), options.pop("end", high)
        kind = pmui.IntSlider if isinstance(parameter, param.Integer) else pmui.FloatSlider
        value, label = self.session.values[name], options.pop("label", parameter.label)
        if kind is pmui.FloatSlider:
            options.setdefault("format", number_format(step, start))
        widget = kind(label=label, value=value, start=start, end=end, step=step, size="small", **FULL, **options)
        self.sliders.append(widget)
        return self.add(name, widget)

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


MOST_DECIMALS = 6  # of a number on a slider; smaller steps are shown with a power of ten


def number_format(step: float, start: float) -> str | PrintfTickFormatter:
    """Return the format of a slider's value, so that two neighbouring places between `start` and the end read apart."""
    shown = max(decimals(step), min(decimals(start), decimals(step / 10)))
    if shown > MOST_DECIMALS:
        return PrintfTickFormatter(format="%.3e")
    return f"0.{'0' * shown}" if shown else "0"


def decimals(number: float) -> int:
    """Return how many decimals write `number`, at most those of its first three digits that are not 0."""
    if number == 0:
        return 0
    most = max(0, 2 - floor(log10(abs(number))))
    return next((few for few in range(most) if isclose(round(number, few), number, rel_tol=1e-9)), most)


def icon(name: str, words: str, click: Callable[[], object], **options: Any) -> pmui.IconButton:
    """A button with a symbol only; `words` are its tooltip and its name for a screen reader."""
    style = {"size": "small", "margin": 2, **options}
    button = pmui.IconButton(icon=name, description=words, description_delay=400, toggle_duration=0, **style)
    button.on_click(lambda event: click())
    return button


OnValue = Callable[[Any], object]


class NumberField:
    """A field for a number, `panel`; on_value(value) is called with what was typed and may raise ValueError.

    What is wrong with it stands below it then, and nothing is changed.

    whole: no fractions; optional: None if it is left empty; helper_text among the options: below it while all is well.
    """

    def __init__(
        self,
        label: str,
        value: float | None,
        on_value: OnValue,
        whole: bool = False,
        optional: bool = False,
        **options: Any,
    ) -> None:
        self._on_value, self._whole, self._optional = on_value, whole, optional
        self._shown, self._hint = self._text(value), options.get("helper_text", "")
        self.panel = pmui.TextInput(label=label, value=self._text(value), size="small", **{**FULL, **options})
        self.panel.param.watch(lambda event: self._entered(), "value")
        self.panel.param.watch(lambda event: self._entered(), "enter_pressed")

    @staticmethod
    def _text(value: float | None) -> str:
        if value is None:
            return ""
        mantissa, exponent, power = f"{value:.6g}".partition("e")
        return f"{mantissa}e{int(power)}" if exponent else mantissa

    def show(self, value: float | None) -> None:
        """Put `value` there, without calling on_value, and without a complaint."""
        text = self._text(value)
        self._shown = text
        self.panel.param.update(value=text, value_input=text, error_state=False, helper_text=self._hint)

    def complain(self, words: str) -> None:
        """Say below the field what is wrong with it."""
        self.panel.param.update(error_state=True, helper_text=plain(words))

    def _entered(self) -> None:
        text = str(self.panel.value or "").strip().replace("\N{MINUS SIGN}", "-")
        if text == self._shown and not self.panel.error_state:
            return
        self._shown = text
        try:
            self._on_value(None if self._optional and not text else self._number(text))
        except ValueError as error:
            self.complain(str(error))
        else:
            self.panel.param.update(error_state=False, helper_text=self._hint)

    def _number(self, text: str) -> float | int:
        kind = "a whole number" if self._whole else "a number"
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{self.panel.label} must be {kind}, not {text[:40]!r}") from None
        if not self._whole:
            return value
        if not value.is_integer():
            raise ValueError(f"{self.panel.label} must be {kind}, not {text[:40]!r}")
        return int(value)


def show_refusal(refusal: str, fields: Mapping[str, NumberField]) -> bool:
    """Say a refusal of the engine, whose first word is a parameter, below that parameter's field; whether one does."""
    field = fields.get(refusal.split(" ", 1)[0])
    if field is not None:
        field.complain(refusal)
    return field is not None


# -- cards over the page

STATIC = Path(__file__).with_name("static")


def card_script(*names: str) -> str:
    """Return the scripts of these names in static/, with `make`, which creates their elements."""
    return "\n".join((STATIC / each).read_text(encoding="utf-8") for each in ("make.js", *names))


class Card(JSComponent):
    """A card that a script draws. content: {} while there is nothing to show; told(message): hears the browser, which
    may be anybody's.
    """

    content = param.Dict(default={}, doc="What is shown.")

    _esm = "export function render() { return null; }"

    def __init__(self, told: Callable[[dict[str, Any]], None], **params: Any) -> None:
        super().__init__(margin=0, **params)
        self._told = told

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict):
            self._told(data)
