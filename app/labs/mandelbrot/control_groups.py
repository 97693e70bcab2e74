"""The groups "Iteration", "Explain" and "Display" of the side bar.

Iteration: limit, precision, shortcuts, samples per pixel. Explain, for lectures: orbit and Julia set of a point, area
of the set. Display: colouring, palette, limits, histogram; changes there compute no iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, log10, nextafter
from typing import Any

import panel_material_ui as pmui

from app.labs.mandelbrot.places import iterations
from app.labs.mandelbrot.view import MandelbrotView
from app.page.theme import html_pane
from app.page.typed_slider import TypedSlider, corner, with_corner
from app.page.widgets import FULL, LimitFields, ValueWidgets
from app.tab.controls import column
from app.tab.plots import AMOUNTS, SIGNED
from app.tab.session import Session
from compute.cli import settings
from compute.devices.backends import backend
from compute.export.scene import Style
from compute.lab.frames import Frame
from compute.lab.lab import number_types
from compute.measure.rates import spaced

FEWEST, MOST = 1, 7  # log10 of the slider's ends; the text field accepts more
ROOM = 104  # px, width of that field: 1 000 000 000
SAMPLES = {"1": 1, "4": 4, "8": 8, "16": 16}
REASONS = {
    "float32": "float32: 24 bits; counts at the boundary differ from float64's, its pixels are apart down to 2⁻²²",
    "double-single": "sums of two float32 numbers, 48 bits; 0.5 % of the counts at the boundary differ at 2⁻²⁰",
    "float64": "float64: its counts are right down to a spacing of 2⁻¹⁶, its pixels apart down to 2⁻⁵⁰",
    "perturbation": "perturbation: float64 differences from one orbit in many digits",
    "extended": "perturbation with exponents of its own, as float64 ends at 1e-290",
}
ORBIT = 100  # initial length of the orbit
KNOWN = "known: 1.50640 to 1.53121"  # area of the Mandelbrot set
PALETTES = list({**AMOUNTS, **SIGNED})
COLOURINGS = {  # labels of the lab's colourings
    "histogram": "equal shares (histogram)",
    "smooth": "smooth count",
    "distance": "distance to the set",
    "interior": "inside, how strongly it attracts",
}
FASTEST = 1.0  # turns of the palette per second
CYCLE = 0.1  # turns per second when started by the key


class IterationGroup(ValueWidgets):
    """The widgets of one session; `panel` is the group's body."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        most = session.values["max_iterations"]
        self._position, self._shown = slider_position(most), most
        label = self.parameter("max_iterations").label
        self.slider_most = pmui.FloatSlider(
            label=label,
            start=FEWEST,
            end=slider_end(),
            step=0.05,
            value=self._position,
            value_label=spaced(most),
            size="small",
            **FULL,
        )
        self.slider_most.param.watch(lambda event: self._slide(event.new), "value")
        self.typed = pmui.TextInput(label=f"{label}, typed", value=spaced(most), size="small", **FULL | corner(ROOM))
        self.typed.param.watch(lambda event: self._type(event.new), "value")
        self.precision = self.choice("precision")
        self.samples = self.choice("samples", SAMPLES, description=self.parameter("samples").doc)
        most_row = with_corner(self.slider_most, self.typed, ROOM)
        items = (most_row, self.precision, self.choice("fidelity"), self.switch("shortcuts"))
        self.panel = column(*items, self.samples)
        self._offer_precisions()

    def _offer_precisions(self) -> None:
        """Disable the precisions that the current backend does not have."""
        known = number_types(self.session.lab, self.session.values["backend"])
        absent = [each for each in self.parameter("precision").objects if each not in known]
        if self.precision.disabled_options != absent:
            self.precision.disabled_options = absent

    def _slide(self, exponent: float) -> None:
        if exponent != self._position:  # moved by the user
            count = int(float(f"{10**exponent:.2g}"))
            self.session.change(max_iterations=count)
            self._show(count, exponent)

    def _type(self, text: str) -> None:
        """Apply typed text, "5000" or "1e7"; show an error below the field if invalid."""
        if text == spaced(self._shown) and not self.typed.error_state:
            return  # it was written by `_show`
        try:
            count = iterations("".join(text.split()))
        except ValueError as error:
            self.typed.param.update(error_state=True, helper_text=str(error))
        else:
            self.session.change(max_iterations=count)
            self.show()

    def show(self) -> None:
        """Update both widgets from the session; the slider stops at its end."""
        most = self.session.values["max_iterations"]
        self._show(most, slider_position(most))

    def _show(self, most: int, position: float) -> None:
        """Show a count. position: of the slider; the user's own stays, as another could replace a later one."""
        self._position, self._shown = position, most
        self.typed.param.update(value=spaced(most), error_state=False, helper_text="")
        self.slider_most.param.update(value=self._position, value_label=spaced(most))

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which were changed without these widgets."""
        super().show_values(values)
        self.show()
        self._offer_precisions()

    def tick(self, frame: Frame) -> None:
        """Show the current precision and its reason, and the backend that computes in place of the chosen one."""
        self._offer_precisions()  # the backend is chosen in another group
        if self._shown != self.session.values["max_iterations"]:
            self.show()  # changed by a bookmark or an undo
        reason = REASONS.get(frame.notes["precision"], "") + taken_over(frame, self.session.values["backend"])
        if self.precision.helper_text != reason:
            self.precision.helper_text = reason


def taken_over(frame: Frame, chosen: str) -> str:
    """Return the backend that computes in place of the chosen one, and the reason, as text; "" if none does."""
    name = frame.notes.get("computed_by", "")
    return f"; computed by {name}: {backend(chosen).label} has no float64" if name else ""


def slider_end() -> float:
    """Return the upper end of the slider: MOST, or this server's limit."""
    most = settings.bound("iterations")
    return MOST if most is None else min(MOST, log10(most))


def slider_position(count: int) -> float:
    """Return the slider position for a count, clipped to its ends."""
    return min(max(log10(max(count, 1)), FEWEST), slider_end())


class ExplainGroup(ValueWidgets):
    """The widgets of one session; `panel` is the group's body."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.orbit = pmui.Switch(label="Orbit of the point under the pointer (O)", value=False, **FULL)
        self.orbit.param.watch(lambda event: self._draw_orbit(event.new), "value")
        self.length = pmui.IntSlider(
            label=self.parameter("orbit_length").label,
            value=ORBIT,
            start=1,
            end=self.parameter("orbit_length").bounds[1],
            size="small",
            **FULL,
        )
        self.length.param.watch(lambda event: self._draw_orbit(self.orbit.value), "value")
        self.length_row = TypedSlider(self.length).panel
        self.length_row.visible = False
        self.julia = self.switch("julia", description=self.parameter("julia").doc)
        self.area = self.switch("area", description=self.parameter("area").doc)
        self._words = html_pane("", margin=(0, 16), visible=False, sizing_mode=None)
        self.panel = column(self.orbit, self.length_row, self.julia, self.area, self._words)

    def _draw_orbit(self, shown: bool) -> None:
        if self._following:
            return
        self.length_row.visible = shown
        self.session.change(orbit_length=self.length.value if shown else 0)

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which were changed without these widgets."""
        super().show_values(values)
        if "orbit_length" in values:
            length = values["orbit_length"]
            with self._quiet():
                self.length.value = length or self.length.value
                self.orbit.value = length > 0
            self.length_row.visible = length > 0

    def tick(self, frame: Frame) -> None:
        """Show the current estimate of the area."""
        shown = self.session.values["area"]
        if shown != self._words.visible:
            self._words.visible = shown
        html = f"<div class='area'>{area_html(frame.facts)}</div>"
        if shown and html != self._words.object:
            self._words.object = html


def area_html(facts: Mapping[str, float]) -> str:
    """Return the estimate with its standard error as HTML."""
    mean, error, passes = facts["area"], facts["area_error"], facts["area_passes"]
    if not isfinite(mean) or not isfinite(error):
        return "<p>measured once the picture is complete</p>"
    return f"<b>{mean:.5f} ± {error:.5f}</b><p>after {passes:.0f} passes; {KNOWN}</p>"


class MandelbrotDisplay(ValueWidgets):
    """The widgets of one session; `panel` is the group's body. `lab_view.colours` colours in the browser.

    By default the limits of the colours are automatic: counts range from hundreds in one view to millions in the next,
    so limits fixed in one view would give the other a single colour. They can be fixed to compare views.
    """

    def __init__(self, session: Session, lab_view: MandelbrotView) -> None:
        super().__init__(session)
        self.colours = colours = lab_view.colours
        colourings = {COLOURINGS.get(name, name): name for name in self._known("colouring")}
        self.colouring = self.choice("colouring", colourings)
        scale = self.choice("scale", self._known("scale"))
        self.palette = pmui.Select(label="Palette", options=PALETTES, value=colours.name, size="small", **FULL)
        self.reverse = pmui.Switch(label="Reverse palette", value=colours.reverse, **FULL)
        for widget in (self.palette, self.reverse):
            widget.param.watch(lambda event: session.later(self._recolour), "value")
        self.offset = offset = pmui.FloatSlider(
            label="Palette offset [turns]", value=0.0, start=0.0, end=1.0, step=0.005, size="small", **FULL
        )
        offset.param.watch(lambda event: session.later(lambda: colours.offset(event.new)), "value")
        self.cycle = pmui.FloatSlider(
            label="Cycle the palette [turns/s]", value=0.0, start=0.0, end=FASTEST, step=0.01, size="small", **FULL
        )
        self.cycle.param.watch(lambda event: session.later(lambda: colours.cycle(event.new)), "value")
        self.histogram = pmui.Switch(label="Show histogram", value=True, **FULL)
        self.histogram.param.watch(lambda event: session.later(lambda: lab_view.show_histogram(event.new)), "value")
        turning = (TypedSlider(slider).panel for slider in (offset, self.cycle))
        items = (self.colouring, scale, self.palette, self.reverse, *turning, *self._limits())
        self.panel = column(*items, self.histogram)

    def _known(self, name: str) -> list[str]:
        return list(self.session.lab.param[name].objects)

    def _recolour(self) -> None:
        self.colours.choose(self.palette.value, self.reverse.value)

    def style(self) -> Style:
        """Return the palette with the rotation set by the slider; cycling returns to it."""
        return Style(self.palette.value, self.reverse.value, float(self.offset.value))

    def apply_style(self, style: Style) -> None:
        """Apply a palette and stop cycling."""
        self.cycle.value = 0.0
        self.palette.value, self.reverse.value, self.offset.value = style.palette, style.reverse, style.offset

    def turn(self) -> None:
        """Start or stop cycling the palette."""
        self.cycle.value = 0.0 if self.cycle.value else CYCLE

    # -- limits

    def _limits(self) -> list[Any]:
        self.automatic = pmui.Switch(label="Automatic limits", value=True, **FULL)
        self.automatic.param.watch(lambda event: self._toggle(event.new), "value")
        self.limits = LimitFields(("Count from", "Count to"), lambda *ends: self.session.change(limits=ends))
        self._row = column(*self.limits.panels)  # stacked, as fixed limits have all their digits
        self._row.visible = False
        self._fitting = False  # whether to fix the automatic limits of a requested picture
        self.snap = pmui.Button(
            label="Fit limits now (L)", icon="center_focus_strong", variant="outlined", size="small", **FULL
        )
        self.snap.on_click(lambda event: self.fit())
        return [self.automatic, self.snap, self._row]

    def fit(self) -> None:
        """Fix the automatic limits of the current picture, also in place of fixed ones."""
        if self.automatic.value:
            self.automatic.value = False
        else:
            self._fitting = True
            self.session.change(limits=None)

    def tick(self, frame: Frame) -> None:
        """Fix the limits of a requested picture with automatic limits when it is complete or its lab is paused."""
        if not self._fitting or not self.session.answered:
            return
        if self.session.values["limits"] is not None or self.automatic.value:  # changed in the meantime
            self._fitting = False
        elif frame.facts["automatic"] and (frame.facts["finished"] or not self.session.playing):
            self._hold(frame)

    def _toggle(self, automatic: bool) -> None:
        if self._following:
            return
        self._row.visible = not automatic
        latest = self.session.latest
        if automatic:
            self.session.change(limits=None)
        elif latest is not None and latest.facts["automatic"]:
            self._hold(latest)
        else:  # the visible picture has the previously fixed limits
            self._fitting = True

    def _hold(self, frame: Frame) -> None:
        """Fix the limits of a frame's colours with all digits: a range may be narrow, and colours must not change."""
        self._fitting = False
        low, high = frame.facts["minimum"], frame.facts["maximum"]
        if low == high:  # a single count keeps the middle colour, and the lab rejects an empty range
            low, high = nextafter(low, -inf), nextafter(high, inf)
        self.limits.show(low, high)
        self.session.change(limits=(low, high))

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which were changed without these widgets."""
        super().show_values(values)
        if "limits" not in values:
            return
        limits = values["limits"]
        with self._quiet():
            if limits is not None:
                self.limits.show(*limits)
            self.automatic.value = limits is None
        self._row.visible = limits is not None
