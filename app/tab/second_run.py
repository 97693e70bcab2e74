"""The control of a second run: the parameter in which it differs from the first one, and its value there.

The widget of the value is made when a parameter is chosen, so that a page without a second run has one list more. The
list follows the session, since a link, an undo or another text may start or end the second run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import panel_material_ui as pmui

from app.page.markup import quiet
from app.page.theme import html_pane
from app.page.typed_slider import TypedSlider
from app.page.widgets import FULL, NumberField, Widget, number_format, set_options
from app.tab.controls import Dial, column, slider_dial
from app.tab.session import Session
from compute.lab.two_runs import SECOND, TwoRuns

OFF = ""  # value of the list without a second run
LEAST_STEPS = 100  # of a slider; a power of ten makes it up to ten times as many
PART = 0.2  # of the slider by which the second run differs at first
DIGITS = 3  # significant ones of that value


@dataclass(frozen=True)
class Offer:
    """A parameter in which the runs can differ. present: its value in the first run.

    bounds: of a number with a slider; options: values by label. A number without both has a field.
    """

    label: str
    present: Any
    bounds: tuple[float, float] | None = None
    options: Mapping[str, Any] | None = None

    @property
    def other(self) -> Any:
        """Another value than the present one: the next option, or a number visibly apart from it."""
        if self.options is not None:
            known = list(self.options.values())
            return known[(known.index(self.present) + 1) % len(known)] if self.present in known else known[0]
        if self.bounds is None:
            return float(f"{self.present / 2:.{DIGITS}g}")
        low, high = self.bounds
        shift = PART * (high - low)
        moved = self.present + shift if high - self.present > self.present - low else self.present - shift
        return min(max(float(f"{moved:.{DIGITS}g}"), low), high)


class SecondRun:
    """The widgets of one tab; `panel` contains them. offers(): return the comparable parameters by name."""

    def __init__(self, session: Session, lab: type[TwoRuns], offers: Callable[[], Mapping[str, Offer]]) -> None:
        self._session, self._lab, self._offers = session, lab, offers
        self._showing = False  # whether the widgets are set from outside, not by the user
        self._shown: Any = None  # the state that the widgets show
        self._of: tuple[str, Offer] | None = None  # the widget of the value
        self._set: Callable[[Any], object] = lambda value: None  # shows a value in that widget
        self.choice = pmui.Select(
            label="Compare with a second run", options={"Off": OFF}, value=OFF, size="small", **FULL
        )
        self.choice.param.watch(lambda event: self._choose(event.new), "value")
        self._slider: Widget | None = None
        self._sentence = html_pane(margin=(0, 8, 8, 8))
        self.panel = column(self.choice)

    def tick(self) -> None:
        """Follow the session; called a few times a second."""
        values, offers = self._session.values, dict(self._offers())
        if (state := (values[SECOND], offers)) != self._shown:
            self._shown = state
            self._show(values[SECOND], offers)

    def dials(self) -> list[Dial]:
        """Return the dial of the second run's value, if a slider sets it."""
        return [slider_dial(self._slider)] if self._slider is not None else []

    def _show(self, second: Mapping[str, Any], offers: Mapping[str, Offer]) -> None:
        name, value = next(((name, value) for name, value in second.items() if name in offers), (OFF, None))
        self._showing = True
        options = {"Off": OFF} | {offer.label: each for each, offer in offers.items()}
        set_options(self.choice, options, name)
        if name == OFF:
            self._of = self._slider = None
            self.panel.objects = [self.choice]
        else:
            self._show_value(name, offers[name], value)
        self._showing = False

    def _show_value(self, name: str, offer: Offer, value: Any) -> None:
        """Show the value in its widget, which is kept as long as it fits."""
        before, offered = self._of, Offer(offer.label, None, offer.bounds, offer.options)
        if before is None or before != (name, offered):
            self._of = name, offered
            self.panel.objects = [self.choice, self._widget(name, offer, value), self._sentence]
        self._set(value)
        self._sentence.object = quiet(self._words(name))

    def _widget(self, name: str, offer: Offer, value: Any) -> Any:
        label, self._slider = f"{offer.label} of the second run", None
        if offer.options is None and offer.bounds is None:
            field = NumberField(label, value, lambda entered: self._change(name, entered))
            self._set = field.show
            return field.panel
        if offer.options is not None:
            widget: Widget = pmui.Select(label=label, options=dict(offer.options), value=value, size="small", **FULL)
            panel = widget
        else:
            self._slider = widget = slider(label, value, *(offer.bounds or (0.0, 1.0)))
            panel = TypedSlider(widget, label).panel
        widget.param.watch(lambda event: self._change(name, event.new), "value")
        self._set = lambda found: widget.param.update(value=found)
        return panel

    def _change(self, name: str, value: Any) -> None:
        if not self._showing:
            self._session.change(**{SECOND: {name: value}})

    def _choose(self, name: str) -> None:
        if not self._showing:
            self._session.change(**{SECOND: {} if name == OFF else {name: self._offers()[name].other}})
            self.tick()

    def _words(self, name: str) -> str:
        """Return the sentence about the differing values."""
        values = self._session.values
        first, second = (self._lab.value_words(name, each) for each in (values, self._lab.values_of_second(values)))
        common = f"All else is equal; strokes and Reset apply to both. Both are at {self._lab.CLOCK}"
        return f"First run: {first}. Second run: {second}. {common}."


def slider(label: str, value: float, low: float, high: float) -> Widget:
    """Return a slider over low … high whose step is a power of ten."""
    step = 10.0 ** floor(log10((high - low) / LEAST_STEPS))
    form = number_format(step, low)
    return pmui.FloatSlider(label=label, value=value, start=low, end=high, step=step, format=form, size="small", **FULL)
