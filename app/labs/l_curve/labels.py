"""Notation of λ (as λ or α = λ²), number format, and a name, number and colour for every rule."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from compute.labs.l_curve.rules import RULES

RULE_NAMES = {
    "curvature": "Curvature",
    "pruning": "Pruning",
    "triangle": "Triangle",
    "gcv": "GCV",
    "weighted_gcv": "Weighted GCV",
    "discrepancy": "Discrepancy",
    "quasi_optimality": "Quasi-optimality",
    "ncp": "Periodogram",
}
RULE_NUMBERS = {name: str(number) for number, name in enumerate(RULES, start=1)}
# Distinguished by hue and number; contrast AA with the number inside.
RULE_HUES = {
    False: ("#b3261e", "#2f6db5", "#1c7443", "#8544b8", "#a84a08", "#6d5a00", "#b01f72", "#465665"),
    True: ("#ff8a80", "#7fb2ec", "#66c691", "#cda8f5", "#f59a4a", "#d9c052", "#f78fc4", "#adbcc8"),
}


def rule_hue(rule: str, dark: bool) -> str:
    """Return the colour of `rule` in the dark or the light scheme, "#rrggbb"."""
    return RULE_HUES[dark][list(RULES).index(rule)]


def short(value: float) -> str:
    """Format `value` with three digits, as in "2.1e-3"; a dash for nan and inf."""
    if not isfinite(value):
        return "–"
    mantissa, exponent, power = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(power)}" if exponent else mantissa


SHORT_REASONS = {
    "the ribbon is still open there": "ribbon still open",
    "computed after the last step": "when done",
}


@dataclass(frozen=True)
class LambdaNotation:
    """Notation of the regularisation parameter: λ, or with `squared` α = λ², as in other packages."""

    squared: bool = False

    @property
    def symbol(self) -> str:
        """The symbol before a value."""
        return "α" if self.squared else "λ"

    @property
    def label(self) -> str:
        """The label of an axis or a field."""
        return "α = λ²" if self.squared else "λ"

    def of(self, lam: Any) -> Any:
        """Convert λ, a number or an array, to a value on an axis."""
        return lam**2 if self.squared else lam

    def back(self, value: float) -> float:
        """Convert a value on an axis or in a field to λ."""
        return value**0.5 if self.squared else value

    def words(self, lam: float) -> str:
        """Format λ with its symbol, as in "λ = 2.1e-3"."""
        return f"{self.symbol} = {short(self.of(lam))}"


def short_reason(reason: str) -> str:
    """Return the short form of the reason why a rule has no λ: the text before the first punctuation mark."""
    for mark in (":", ";", ","):
        reason = reason.partition(mark)[0]
    return SHORT_REASONS.get(reason, reason.removeprefix("the ")) or "none"
