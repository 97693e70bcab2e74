"""Rules that choose λ. No rule is best for every problem, which is the lesson; no rule returns an end of the range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compute.labs.l_curve.rules.corners import curvature, pruning, triangle, where_open
from compute.labs.l_curve.rules.minima import discrepancy, gcv, ncp, quasi_optimality, weighted_gcv
from compute.labs.l_curve.rules.reading import OPEN, CurveReading, RuleChoice

__all__ = ["FEWEST", "RULES", "CurveReading", "Rule", "RuleChoice", "choose"]

FEWEST = 3  # minimum λ with a closed ribbon: fewer have no interior point


@dataclass(frozen=True)
class Rule:
    """A rule: its title for the screen, and `pick`, which reads a curve whose ribbons have all closed."""

    title: str
    pick: Callable[[CurveReading], RuleChoice]


RULES: Mapping[str, Rule] = {
    "curvature": Rule("Maximum curvature", curvature),
    "pruning": Rule("Adaptive pruning", pruning),
    "triangle": Rule("Triangle", triangle),
    "gcv": Rule("GCV", gcv),
    "weighted_gcv": Rule("Weighted GCV", weighted_gcv),
    "discrepancy": Rule("Discrepancy principle", discrepancy),
    "quasi_optimality": Rule("Quasi-optimality", quasi_optimality),
    "ncp": Rule("Normalised cumulative periodogram", ncp),
}


def choose(reading: CurveReading) -> dict[str, RuleChoice]:
    """Return the choice of every rule on the part of the curve with closed ribbons."""
    closed = reading.closed()
    if closed.lambdas.size < FEWEST:
        return dict.fromkeys(RULES, RuleChoice(None, OPEN if reading.first else "there are too few λ"))
    return {name: where_open(reading, rule.pick(closed)) for name, rule in RULES.items()}
