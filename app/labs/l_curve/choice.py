"""The choice of λ: a rule or one's own, the range of the curve, and how exactly it is worked out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.labs.l_curve.stage import LCurveStage
from app.labs.l_curve.words import NUMBERS
from app.session import Session
from app.typed import Typed, pass_on
from app.widgets import FULL, Bound
from compute.labs.l_curve.lab import require_lambda, require_range
from compute.labs.l_curve.rules import RULES

TOLERANCES = {f"1e-{n}": 10.0**-n for n in range(1, 13)}
BY_HAND = "by hand"


class ChoiceControls(Bound):
    """λ by a rule or by hand; λ of the curve; tolerance and limit."""

    def __init__(self, session: Session, stage: LCurveStage) -> None:
        super().__init__(session)
        self.stage = stage
        rules = {f"{NUMBERS[name]}  {rule.title}": name for name, rule in RULES.items()}
        self.rule = pmui.Select(
            label="λ chosen by", options={**rules, BY_HAND: ""}, value=session.values["rule"], size="small", **FULL
        )
        self.rule.param.watch(lambda event: self._by_rule(event.new), "value")
        self.squared = pmui.Switch(label="Write α = λ² instead of λ", value=False, **FULL)
        self.squared.param.watch(lambda event: session.later(self._count), "value")
        self.lam = Typed("λ", None, self._by_hand)
        self.tolerance = pmui.DiscreteSlider(
            label="Ribbon width to reach", options=TOLERANCES, value=nearest_width(session.values["tolerance"]),
            size="small", **FULL,
        )  # fmt: skip
        self._showing = False
        self.tolerance.param.watch(lambda event: self._reach(event.new), "value")
        self.most = Typed("Steps at most", session.values["steps_at_most"], self._limit, whole=True)
        self.panel = column(self.rule, self.lam.panel, self.squared, *self._range(), self.tolerance, self.most.panel)

    # -- one λ

    def _by_rule(self, rule: str) -> None:
        if rule and (rule != self.session.values["rule"] or self.session.values["lam"] is not None):
            self.stage.take_rule(rule)

    def _by_hand(self, value: float) -> None:
        self.stage.take(require_lambda(self.stage.strength.back(value) if value > 0 else value))

    def show_picked(self, lam: float | None) -> None:
        """A λ was picked in the stage, or its rule's is taken again."""
        self.rule.value = self.session.values["rule"] if lam is None else ""
        self.lam.show(None if lam is None else self.stage.strength.of(lam))

    def _count(self) -> None:
        """λ or α, in every label."""
        self.stage.count_by(self.squared.value)
        self.lam.panel.label = self.stage.strength.label
        self.show_picked(self.session.values["lam"])
        self._show_range()

    # -- the curve's λ

    def _range(self) -> list[Any]:
        self.automatic = pmui.Switch(label="Automatic range of λ", value=True, **FULL)
        self.automatic.param.watch(lambda event: self._toggle(event.new), "value")
        half: dict[str, Any] = {"width": 112, "sizing_mode": "fixed"}
        self.low = Typed("from", None, lambda value: self._between(0, value), **half)
        self.high = Typed("to", None, lambda value: self._between(1, value), **half)
        self.count = Typed("How many", None, lambda value: self._between(2, value), whole=True)
        ends = pmui.Row(self.low.panel, self.high.panel, margin=0)
        self._ends = pmui.Column(ends, self.count.panel, margin=0, visible=False, sizing_mode="stretch_width")
        return [self.automatic, self._ends]

    def _toggle(self, automatic: bool) -> None:
        self._ends.visible = not automatic
        if automatic:
            self.session.change(lambdas=None)
        elif self.session.values["lambdas"] is None and self.session.latest is not None:
            grid = self.session.latest.curves["width"].x
            self.session.change(lambdas=(float(f"{grid[0]:.4g}"), float(f"{grid[-1]:.4g}"), len(grid)))
        self._show_range()

    def _between(self, place: int, value: float) -> None:
        given = list(self.session.values["lambdas"] or (0.0, 0.0, 0))
        given[place] = value if place == 2 or value <= 0 else self.stage.strength.back(value)
        require_range(tuple(given))
        self.session.change(lambdas=tuple(given))

    def _show_range(self) -> None:
        given = self.session.values["lambdas"]
        if given is not None:
            strength = self.stage.strength
            for field, value in zip((self.low, self.high, self.count), (*map(strength.of, given[:2]), given[2]),
                                    strict=True):  # fmt: skip
                field.show(value)

    # -- how exactly

    def _limit(self, steps: int) -> None:
        low, high = self.parameter("steps_at_most").bounds
        if not low <= steps <= high:
            raise ValueError(f"steps_at_most must be from {low} to {high}, not {steps}")
        self.session.change(steps_at_most=steps)

    def _reach(self, tolerance: float) -> None:
        if not self._showing:
            self.session.change(tolerance=tolerance)

    def refresh(self) -> None:
        """Tolerance and limit were changed by a button: the slider shows the nearest width, and changes nothing."""
        self._showing = True
        self.tolerance.value = nearest_width(self.session.values["tolerance"])
        self._showing = False
        self.most.show(self.session.values["steps_at_most"])

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show values that the session took by itself."""
        super().follow(values)
        self.refresh()
        if "lambdas" in values:
            self.automatic.value = values["lambdas"] is None
            self._show_range()
        if "lam" in values or "rule" in values:
            self.show_picked(self.session.values["lam"])

    def refused(self, text: str) -> bool:
        """The engine refused something, in these words; whether a field here says so now."""
        return pass_on(text, {"lam": self.lam, "lambdas": self.low, "steps_at_most": self.most})


def nearest_width(tolerance: float) -> float:
    """The slider's ribbon width that is nearest to `tolerance`."""
    return min(TOLERANCES.values(), key=lambda width: abs(width / tolerance - 1))
