"""The group "Iteration": how many, in which arithmetic, with which shortcuts, how many samples a pixel."""

from __future__ import annotations

from collections.abc import Mapping
from math import log10
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.labs.mandelbrot.goto import whole
from app.session import Session
from app.widgets import FULL, Bound
from compute.frames import Frame

FEWEST, MOST = 1, 7  # log10 of the slider's ends; more can be typed
SAMPLES = {"1": 1, "4": 4, "8": 8, "16": 16}
REASONS = {
    "float32": "float32: 24 bits, enough down to a pixel spacing of 2⁻²²",
    "float64": "float64: its counts are right down to a spacing of 2⁻¹⁶, its pixels apart down to 2⁻⁵⁰",
    "perturbation": "perturbation: float64 differences from one orbit in many digits",
    "extended": "perturbation with exponents of its own, as float64 ends at 1e-290",
}


class Iteration(Bound):
    """The widgets of one session; `panel` is the group's body."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        most = session.values["max_iterations"]
        self._position, self._shown = place(most), most
        label = self.parameter("max_iterations").label
        self.slider_most = pmui.FloatSlider(
            label=label,
            start=FEWEST,
            end=MOST,
            step=0.05,
            value=self._position,
            value_label=thousands(most),
            size="small",
            **FULL,
        )
        self.slider_most.param.watch(lambda event: self._slide(event.new), "value")
        self.typed = pmui.TextInput(label=f"{label}, typed", value=thousands(most), size="small", **FULL)
        self.typed.param.watch(lambda event: self._type(event.new), "value")
        self.precision = self.choice("precision")
        self.samples = self.choice("samples", SAMPLES, description=self.parameter("samples").doc)
        items = (self.slider_most, self.typed, self.precision, self.choice("fidelity"), self.switch("shortcuts"))
        self.panel = column(*items, self.samples)

    def _slide(self, exponent: float) -> None:
        if exponent != self._position:  # moved by hand
            self._set(int(float(f"{10**exponent:.2g}")))

    def _type(self, text: str) -> None:
        """Take what was typed, "5000" or "1e7"; what is wrong with it stands below the field, and nothing changes."""
        try:
            count = whole("".join(text.split()))
        except ValueError as error:
            self.typed.param.update(error_state=True, helper_text=str(error))
        else:
            self._set(count)

    def _set(self, count: int) -> None:
        self.session.change(max_iterations=count)
        self.show()

    def show(self) -> None:
        """Let both widgets show the session's value; the slider stops at its end."""
        most = self.session.values["max_iterations"]
        self._position, self._shown = place(most), most
        self.typed.param.update(value=thousands(most), error_state=False, helper_text="")
        self.slider_most.param.update(value=self._position, value_label=thousands(most))

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which the session took without these widgets."""
        super().follow(values)
        self.show()

    def tick(self, frame: Frame) -> None:
        """Say which arithmetic is at work, and why."""
        if self._shown != self.session.values["max_iterations"]:
            self.show()  # a bookmark, or a step back
        reason = REASONS.get(frame.notes["precision"], "")
        if self.precision.helper_text != reason:
            self.precision.helper_text = reason


def place(count: int) -> float:
    """Where the slider stands for so many; at its end for those beyond."""
    return min(max(log10(max(count, 1)), FEWEST), MOST)


def thousands(count: int) -> str:
    """A whole number with its thousands apart."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
