"""How λ, numbers and rules are written: λ or α = λ², and a name, a number and a colour for every rule."""

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
# told apart by hue and by their numbers; contrast AA with the number in them
RULE_HUES = {
    False: ("#b3261e", "#2f6db5", "#1c7443", "#8544b8", "#a84a08", "#6d5a00", "#b01f72", "#465665"),
    True: ("#ff8a80", "#7fb2ec", "#66c691", "#cda8f5", "#f59a4a", "#d9c052", "#f78fc4", "#adbcc8"),
}


def rule_hue(rule: str, dark: bool) -> str:
    """Return the colour of `rule` in the dark or the light scheme, "#rrggbb"."""
    return RULE_HUES[dark][list(RULES).index(rule)]


def short(value: float) -> str:
    """Write `value` with three figures, as in "2.1e-3"; a dash if it is not finite."""
    if not isfinite(value):
        return "–"
    mantissa, exponent, power = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(power)}" if exponent else mantissa


SHORT_REASONS = {
    "the ribbon is still open there": "ribbon still open",
    "worked out when the steps are done": "when done",
}


@dataclass(frozen=True)
class LambdaNotation:
    """How the page writes the regularisation: as λ, or `squared` as α = λ², which other packages use."""

    squared: bool = False

    @property
    def symbol(self) -> str:
        """The letter before one value."""
        return "α" if self.squared else "λ"

    @property
    def label(self) -> str:
        """The label of an axis or a field."""
        return "α = λ²" if self.squared else "λ"

    def of(self, lam: Any) -> Any:
        """Return what stands for λ, a number or an array, on an axis."""
        return lam**2 if self.squared else lam

    def back(self, value: float) -> float:
        """Return the λ of what stands on an axis or in a field."""
        return value**0.5 if self.squared else value

    def words(self, lam: float) -> str:
        """Write λ with its letter, as in "λ = 2.1e-3"."""
        return f"{self.symbol} = {short(self.of(lam))}"


def short_reason(reason: str) -> str:
    """Return why a rule has no λ in a few words: what stands before the first punctuation mark."""
    for mark in (":", ";", ","):
        reason = reason.partition(mark)[0]
    return SHORT_REASONS.get(reason, reason.removeprefix("the ")) or "none"
