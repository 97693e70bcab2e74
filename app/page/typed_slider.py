"""Sliders whose value can be typed: a field in the corner above the rail shows the value and accepts a number.

The slider widget has the value. The field shows all digits of it, also of numbers between two positions of the slider.
A refused text gets an error with the bounds in words, over the controls below; the value stays, and nothing moves.
`TypedSlider` is for a range of numbers, `TypedList` for a list of values to which a typed value is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isclose
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.page.markup import plain
from app.page.widgets import DIGITS, FULL, NumberField, Widget, number_text, range_words, typed_number

NARROW, WIDE = 84, 140  # px, widths of a field
HIDDEN = {  # for the eye; the accessible name of the field remains
    "position": "absolute", "width": "1px", "height": "1px", "overflow": "hidden", "clipPath": "inset(50%)",
    "whiteSpace": "nowrap", "transform": "none",
}  # fmt: skip
ERROR = {  # over the controls below, so that the panel keeps its layout
    "position": "absolute", "top": "100%", "right": 0, "width": "calc(14.5 * var(--small, 14px))", "margin": 0,
    "padding": "4px 8px", "border": "1px solid", "borderColor": "error.main", "borderRadius": "4px",
    "backgroundColor": "background.paper", "pointerEvents": "none", "zIndex": 1,
}  # fmt: skip
FIELD_STYLE = {
    "& .MuiInputLabel-root": HIDDEN,
    "& .MuiInput-root": {"marginTop": "0 !important"},
    "& input": {
        "textAlign": "right",
        "fontSize": "0.875rem",
        "fontWeight": 700,
        "padding": "0 0 2px",
        "height": "20px",
    },
    "& .MuiFormHelperText-root": {"display": "none"},
    "& .MuiFormHelperText-root.Mui-error": {"display": "block", **ERROR},
}


def corner(width: int = NARROW) -> dict[str, Any]:
    """Return the options of a text field in the corner of a slider. width: in px."""
    place = {"position": "absolute", "top": "7px", "right": "8px", "z-index": "5"}
    return {
        "variant": "standard", "margin": 0, "width": width, "sizing_mode": "fixed", "sx": FIELD_STYLE, "styles": place,
    }  # fmt: skip


def with_corner(slider: Widget, field: Widget, width: int = NARROW) -> pn.Row:
    """Return a row of a slider and the field in its corner, which shows the value in place of the slider's label."""
    slider.param.update(show_value=False, sx={"& .MuiFormLabel-root": {"maxWidth": f"calc(100% - {width + 8}px)"}})

    def follow(*events: object) -> None:
        """Disable the field with its slider."""
        field.disabled = slider.disabled

    slider.param.watch(follow, "disabled")
    follow()
    return pn.Row(slider, field, margin=0, sizing_mode="stretch_width", styles={"position": "relative"})


def all_digits(number: float) -> str:
    """Return a number with all its digits, except those that rounding spoils."""
    return number_text(number, DIGITS)


def require_within(name: str, number: float, bounds: tuple[float, float]) -> None:
    """Raise ValueError unless the number is within the bounds."""
    if not bounds[0] <= number <= bounds[1]:
        raise ValueError(f"{name} must be {range_words(bounds)}, not {all_digits(number)}")


def read_number(name: str, text: str, bounds: tuple[float, float]) -> float:
    """Return a typed number. Raise ValueError unless it is one within the bounds."""
    number = typed_number(name, text, range_words(bounds))
    require_within(name, number, bounds)
    return number


class TypedSlider:
    """A slider over numbers with a field for its value; `panel` is both.

    name: of the number in the field's errors; bounds(): returns the bounds of a typed number, by default the ends of
    the slider, of which a number beyond an end moves that end; beyond(): returns the end of the error of a number
    outside of the bounds.
    """

    def __init__(
        self, slider: Widget, name: str = "", bounds: Callable[[], tuple[float, float]] | None = None,
        beyond: Callable[[], str] = str,
    ) -> None:  # fmt: skip
        self.slider, self.name, self._beyond = slider, name or slider.label, beyond
        self._bounds = bounds or (lambda: (slider.start, slider.end))
        self.field = NumberField(
            self.name, slider.value, self._take, whole=isinstance(slider, pmui.IntSlider),
            accepted=lambda: range_words(self._bounds()), **corner(),
        )  # fmt: skip
        slider.param.watch(lambda event: self.field.show(event.new), "value")
        self.panel = with_corner(slider, self.field.panel)

    def _take(self, number: float) -> None:
        try:
            require_within(self.name, number, self._bounds())
        except ValueError as error:
            raise ValueError(f"{error}{self._beyond()}") from None
        slider = self.slider
        slider.param.update(value=number, start=min(slider.start, number), end=max(slider.end, number))


class TypedList:
    """A slider over a list of values with a field for other values; `panel` is both.

    A value that is not in the list is added to it, until another one is added. order(value): its place among the
    others; read(text): return the value of a typed text that is no label of the list, or raise ValueError;
    label(value): return the label of an added value.
    """

    def __init__(
        self, slider: Widget, order: Callable[[Any], float], read: Callable[[str], Any],
        label: Callable[[Any], str] = all_digits, width: int = NARROW,
    ) -> None:  # fmt: skip
        self.slider, self._order, self._read, self._label = slider, order, read, label
        self._own: dict[str, Any] = dict(slider.options)
        self.field = pmui.TextInput(label=slider.label, value=self.words, size="small", **FULL | corner(width))
        self.field.param.watch(lambda *events: self._entered(), ["value", "enter_pressed"])
        slider.param.watch(lambda *events: self._follow(), ["value", "options"])
        self.panel = with_corner(slider, self.field, width)

    def offer(self, options: Mapping[str, Any], value: Any) -> None:
        """Replace the list by `options` (label -> value in their order), and set the slider to one of them."""
        self._own = dict(options)
        self.slider.param.update(options=dict(options), value=value)

    def show(self, value: Any) -> None:
        """Set the slider to `value`, which is added to a list without it."""
        place = self._order(value)
        found = [each for each in self._own.values() if isclose(self._order(each), place, rel_tol=1e-9)]
        if found:
            self.slider.value = found[0]
            return
        options = {**self._own, self._label(value): value}
        self.slider.param.update(
            options=dict(sorted(options.items(), key=lambda each: self._order(each[1]))), value=value
        )

    def enter(self, text: str) -> None:
        """Set the slider to the value of a label or of another text. Raise ValueError for a text that has none."""
        self.show(self._own[text] if text in self._own else self._read(text))

    @property
    def words(self) -> str:
        """The label of the slider's value."""
        slider = self.slider
        return next((label for label, value in slider.options.items() if value == slider.value), "")

    def _follow(self) -> None:
        """Show the slider's value, unless the user is typing."""
        if self.field.value_input == self.field.value:
            self.field.param.update(value=self.words, error_state=False, helper_text="")

    def _entered(self) -> None:
        text = str(self.field.value or "").strip()
        if text != self.words:
            try:
                self.enter(text)
            except ValueError as error:
                self.field.param.update(error_state=True, helper_text=plain(str(error)))
                return
        self._follow()
