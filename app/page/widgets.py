"""Widgets that set a session's values, fields for numbers, buttons.

Bounds, label and choices of a widget come from the lab's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import floor, isclose, isfinite, log10
from pathlib import Path
from typing import Any, TypeAlias

import panel_material_ui as pmui
import param
from bokeh.models import PrintfTickFormatter
from panel.custom import JSComponent

from app.page.markup import plain
from app.tab.session import Session

FULL = {"sizing_mode": "stretch_width", "margin": (6, 8)}
Widget: TypeAlias = Any  # a material widget; the library has no types


class ValueWidgets:
    """Widgets that set a session's values and follow them when the session changes them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._widgets: dict[str, Widget] = {}
        self._following = False  # whether the session sets the widgets, not the user
        self.sliders: list[Widget] = []

    def parameter(self, name: str) -> param.Parameter[Any]:
        """Return the lab's parameter `name`."""
        return self.session.lab.param[name]

    def add(self, name: str, widget: Widget) -> Widget:
        """Connect `widget` to the value `name`, also during dragging."""
        self._widgets[name] = widget
        widget.param.watch(lambda event: self.session.change(**{name: event.new}), "value")
        return widget

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values` that were changed without these widgets."""
        for name, value in values.items():
            if name in self._widgets:
                self._widgets[name].value = value

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Treat changes of widgets during the block as the session's, not the user's."""
        before, self._following = self._following, True
        try:
            yield
        finally:
            self._following = before

    def slider(self, name: str, step: float, **options: Any) -> Widget:
        """Return a slider over the parameter's bounds, with enough digits to distinguish its steps."""
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
        """Return a drop-down of the parameter's objects, or of `options` (label -> value)."""
        parameter = self.parameter(name)
        objects = list(parameter.objects) if options is None else options
        return self.add(
            name,
            pmui.Select(
                label=parameter.label, value=self.session.values[name], options=objects, size="small", **FULL, **more
            ),
        )

    def switch(self, name: str, **more: Any) -> Widget:
        """Return a switch."""
        parameter = self.parameter(name)
        return self.add(name, pmui.Switch(label=parameter.label, value=self.session.values[name], **FULL, **more))


MOST_DECIMALS = 6  # of a number on a slider; smaller steps are shown with a power of ten


def number_format(step: float, start: float) -> str | PrintfTickFormatter:
    """Return the format of a slider's value in which neighbouring positions between `start` and the end differ."""
    shown = max(decimals(step), min(decimals(start), decimals(step / 10)))
    if shown > MOST_DECIMALS:
        return PrintfTickFormatter(format="%.3e")
    return f"0.{'0' * shown}" if shown else "0"


def decimals(number: float) -> int:
    """Return the number of decimals that represent `number`, limited to its first three significant digits."""
    if number == 0:
        return 0
    most = max(0, 2 - floor(log10(abs(number))))
    return next((few for few in range(most) if isclose(round(number, few), number, rel_tol=1e-9)), most)


def set_options(widget: Widget, options: Mapping[str, Any] | Sequence[str], value: Any) -> None:
    """Set the options (label -> value, or a list) and the value of a drop-down.

    The browser identifies an option by its label. Panel sends the label when the value changes, but not when the same
    value has another label among the new options.
    """
    before = _label(widget)
    widget.param.update(options=dict(options) if isinstance(options, Mapping) else list(options), value=value)
    if before not in ("", _label(widget)):
        widget.param.trigger("value")


def _label(widget: Widget) -> str:
    options = widget.options if isinstance(widget.options, dict) else {}
    return next((label for label, value in options.items() if value == widget.value), "")


def icon(name: str, words: str, click: Callable[[], object], **options: Any) -> pmui.IconButton:
    """Return an icon button; `words` are its tooltip and its accessible name."""
    style = {"size": "small", "margin": 2, **options}
    button = pmui.IconButton(icon=name, description=words, description_delay=400, toggle_duration=0, **style)
    button.on_click(lambda event: click())
    return button


OnValue = Callable[[Any], object]


DIGITS = 12  # of a typed number that is shown again: float64 has 15, of which sums of a slider's steps spoil the last
MOST_QUOTED = 40  # characters of a refused text in its error


def number_text(value: float, digits: int | None = None) -> str:
    """Return a number with up to `digits` significant digits, as in 0.25 or 2.5e-7; None: with all of them."""
    shown = repr(float(value)).removesuffix(".0") if digits is None else f"{value:.{digits}g}"
    mantissa, exponent, power = shown.partition("e")
    return f"{mantissa}e{int(power)}" if exponent else mantissa


def typed_number(name: str, text: str, accepted: str = "", whole: bool = False) -> float | int:
    """Return the number of a typed text. Raise ValueError unless it is one.

    name, accepted: of the number in the error, and the accepted range in words, as in "from 0 to 1"; whole: without a
    fraction.
    """
    kind = " ".join(filter(None, ("a whole number" if whole else "a number", accepted)))
    kind += ", with a point before its decimals" * ("," in text)
    try:
        value = float(text.strip().replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        value = None
    if value is None or (whole and not value.is_integer()):
        raise ValueError(f"{name} must be {kind}, not {text[:MOST_QUOTED]!r}")
    return int(value) if whole else value


def range_words(bounds: tuple[float | None, float | None] | None) -> str:
    """Return the accepted numbers of a parameter in words, "" without bounds."""
    low, high = bounds or (None, None)
    if low is None or high is None:
        return "" if low is None else f"of at least {number_text(low, DIGITS)}"
    return f"from {number_text(low, DIGITS)} to {number_text(high, DIGITS)}"


class NumberField:
    """A field for a number, `panel`; on_value(value) is called with the entered number and may raise ValueError.

    The error text appears below the field then, and no value changes.

    whole: no fractions; optional: None for an empty field; digits: of a shown value, None for all; accepted(): returns
    the accepted numbers for the error of a text that is none, as `range_words` does; helper_text among the options:
    shown while the input is valid.
    """

    def __init__(
        self,
        label: str,
        value: float | None,
        on_value: OnValue,
        whole: bool = False,
        optional: bool = False,
        digits: int | None = DIGITS,
        accepted: Callable[[], str] = str,
        **options: Any,
    ) -> None:
        self._on_value, self._whole, self._optional, self._digits = on_value, whole, optional, digits
        self._accepted = accepted
        self._shown, self._hint = self._text(value), options.get("helper_text", "")
        self.panel = pmui.TextInput(label=label, value=self._text(value), size="small", **{**FULL, **options})
        self.panel.param.watch(lambda event: self._entered(), "value")
        self.panel.param.watch(lambda event: self._entered(), "enter_pressed")

    def _text(self, value: float | None) -> str:
        return "" if value is None else number_text(value, self._digits)

    def show(self, value: float | None) -> None:
        """Set the field to `value`, without calling on_value and without an error.

        The field keeps a text that the user is typing: it is entered with Enter, or when the field loses the focus.
        """
        text = self._text(value)
        typing = self.panel.value_input != self.panel.value
        if typing or (text == self.panel.value and not self.panel.error_state):
            return
        self._shown = text
        self.panel.param.update(value=text, value_input=text, error_state=False, helper_text=self._hint)

    def hint(self, words: str) -> None:
        """Show these words below the field while its input is valid."""
        if words != self._hint:
            self._hint = words
            if not self.panel.error_state:
                self.panel.helper_text = words

    def complain(self, words: str) -> None:
        """Show an error below the field."""
        self.panel.param.update(error_state=True, helper_text=plain(words))

    def _entered(self) -> None:
        text = str(self.panel.value or "").strip()
        if text == self._shown and not self.panel.error_state:
            return
        self._shown = text
        try:
            empty = self._optional and not text
            self._on_value(None if empty else typed_number(self.panel.label, text, self._accepted(), self._whole))
        except ValueError as error:
            self.complain(str(error))
        else:
            self.panel.param.update(error_state=False, helper_text=self._hint)


class LimitFields:
    """Two fields for the limits of a colour scale, `panels`; taken(low, high) is called with entered limits.

    A limit on the wrong side of the other one gets an error, until either is corrected. The fields show all digits, as
    a range may be narrow. options: of both fields.
    """

    def __init__(self, names: tuple[str, str], taken: Callable[[float, float], object], **options: Any) -> None:
        self._taken, self._names = taken, names
        self._limits = [0.0, 1.0]
        self.fields = [
            NumberField(name, value, partial(self._enter, index), digits=None, **options)
            for index, (name, value) in enumerate(zip(names, self._limits, strict=True))
        ]
        self.panels = [field.panel for field in self.fields]

    def show(self, low: float, high: float) -> None:
        """Show limits, without calling `taken`."""
        self._limits = [low, high]
        for field, limit in zip(self.fields, self._limits, strict=True):
            field.show(limit)

    def _enter(self, index: int, limit: float) -> None:
        if not isfinite(limit):
            raise ValueError(f"{self._names[index]} must be a finite number, not {limit:g}")
        self._limits[index] = limit
        low, high = self._limits
        if not low < high:
            side, other = ("below", high) if index == 0 else ("above", low)
            raise ValueError(f"{self._names[index]} must be {side} {number_text(other)}, not {number_text(limit)}")
        self.fields[1 - index].show(self._limits[1 - index])
        self._taken(low, high)


def show_refusal(refusal: str, fields: Mapping[str, NumberField]) -> bool:
    """Show an engine's refusal below the field of the parameter that is its first word; return True if one exists."""
    field = fields.get(refusal.split(" ", 1)[0])
    if field is not None:
        field.complain(refusal)
    return field is not None


# -- cards over the page

STATIC = Path(__file__).parent.parent / "static"


def card_script(script: Path, *shared: str) -> str:
    """Return a component's script, preceded by make.js, which creates elements, and by `shared` files of static/."""
    parts = *(STATIC / each for each in ("make.js", *shared)), script
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


class Card(JSComponent):
    """A card that a script draws.

    content: {} for an empty card; received(message): called with each message from the browser, which is untrusted.
    """

    content = param.Dict(default={}, doc="What is shown.")

    _esm = "export function render() { return null; }"

    def __init__(self, received: Callable[[dict[str, Any]], None], **params: Any) -> None:
        super().__init__(margin=0, **params)
        self._received = received

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict):
            self._received(data)
