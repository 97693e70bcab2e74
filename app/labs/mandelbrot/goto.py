"""A dialog for typed coordinates. What is wrong with a number stands beside it, and nothing moves."""

from __future__ import annotations

from typing import Any

import panel_material_ui as pmui

from app.labs.mandelbrot.navigator import Navigator
from app.session import Session
from app.widgets import FULL
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import short

FIELDS = {  # what a message of the lab begins with -> the label of its field
    "center[0]": "Centre, real part",
    "center[1]": "Centre, imaginary part",
    "zoom": "Zoom (the view is 4 / zoom high)",
    "max_iterations": "Iterations at most",
}
HINT = 'Decimal numbers of any length, such as "-0.75" or "5e113".'


class GoTo:
    """The dialog `panel`, opened by `open`."""

    def __init__(self, session: Session, navigator: Navigator) -> None:
        self._session, self._navigator = session, navigator
        self.fields = {name: pmui.TextInput(label=label, size="small", **FULL) for name, label in FIELDS.items()}
        for field in self.fields.values():
            field.param.watch(lambda event: self.go(), "enter_pressed")
        button = pmui.Button(label="Go", icon="arrow_forward", margin=(12, 8))
        button.on_click(lambda event: self.go())
        hint = pmui.Typography(HINT, variant="body2", margin=(0, 8, 8, 8))
        self.panel = pmui.Dialog(
            hint,
            *self.fields.values(),
            button,
            title="Go to coordinates",
            close_on_click=True,
            show_close_button=True,
            width_option="sm",
        )

    def open(self) -> None:
        """Show where the picture is, to be typed over."""
        texts = (*self._navigator.center, self._navigator.zoom, str(self._session.values["max_iterations"]))
        for field, text in zip(self.fields.values(), texts, strict=True):
            field.param.update(value=text, value_input=text, error_state=False, helper_text="")
        self.panel.open = True

    def go(self) -> None:
        """Go there, or say what keeps it from doing so."""
        for field in self.fields.values():
            field.param.update(error_state=False, helper_text="")
        re, im, zoom, count = (typed(field) for field in self.fields.values())
        try:
            self._navigator.go((re, im), zoom, whole(count))
        except ValueError as error:
            self._complain(str(error))
        else:
            self.panel.open = False

    def _complain(self, text: str) -> None:
        name = next((name for name in self.fields if text.startswith(name)), "zoom")
        self.fields[name].param.update(error_state=True, helper_text=text)


def typed(field: Any) -> str:
    """What stands in `field`, as the lab writes numbers."""
    text = field.value_input or field.value or ""
    return str(text).strip().replace("\N{MINUS SIGN}", "-")


def whole(text: str) -> int:
    """Typed iterations, "5000" or "1e7"; ValueError says what they may be."""
    low, high = Mandelbrot.param["max_iterations"].bounds
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high or value != int(value):
        raise ValueError(f"max_iterations must be a whole number from {low} to {high}, not {short(text)!r}")
    return int(value)
