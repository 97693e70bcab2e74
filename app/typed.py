"""A field for a number. What is wrong with it stands below it, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import panel_material_ui as pmui

from app.markup import plain
from app.widgets import FULL

Take = Callable[[Any], object]


class Typed:
    """The field `panel`; take(value) is called with what was typed and may raise ValueError.

    whole: no fractions; optional: None if it is left empty; helper_text among the options: below it while all is well.
    """

    def __init__(
        self, label: str, value: float | None, take: Take, whole: bool = False, optional: bool = False, **options: Any
    ) -> None:
        self._take, self._whole, self._optional = take, whole, optional
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
        """Put `value` there, without taking it, and without a complaint."""
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
            self._take(None if self._optional and not text else self._number(text))
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


def pass_on(refusal: str, fields: Mapping[str, Typed]) -> bool:
    """Say a refusal of the engine, whose first word is a parameter, below that parameter's field; whether one does."""
    field = fields.get(refusal.split(" ", 1)[0])
    if field is not None:
        field.complain(refusal)
    return field is not None
