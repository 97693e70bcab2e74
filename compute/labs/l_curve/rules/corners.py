"""Corners of the curve: largest curvature, sharpest triangle, and adaptive pruning.

The adaptive pruning algorithm computes the corners of less and less pruned curves, and selects the best: P. C. Hansen,
T. K. Jensen and G. Rodriguez, "An adaptive pruning algorithm for the discrete L-curve criterion", J. Comput. Appl.
Math. 198 (2007), as in corner.m of Regularization Tools.
"""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.rules.reading import OPEN, CurveReading, RuleChoice, zoom

BENT = 1.0  # minimum curvature of a corner: an arc of radius 1 in natural logarithms is not a corner
SHARPEST = 7 * pi / 8  # largest angle of a triangle at the corner
NO_CORNER = "no interior corner"

TURN = 1e-6  # sine of a bend that exceeds rounding
FEWEST = 5  # segments of the most pruned curve
Vector = NDArray[np.float64]


def straight(reading: CurveReading) -> str:
    """Return why there can be no corner; empty if the curve bends enough at an interior point."""
    most = float(reading.points.curvature[1:-1].max())
    if most >= BENT:
        return ""
    return f"{NO_CORNER}: the curve bends by {most:.2g} at most, a right angle by more than {BENT:g}"


def curvature(reading: CurveReading) -> RuleChoice:
    """Return the λ of largest curvature of the log-log curve (Hansen and O'Leary, SIAM J. Sci. Comput. 14, 1993)."""
    kappa = reading.points.curvature
    peaks = 1 + np.flatnonzero((kappa[1:-1] > kappa[:-2]) & (kappa[1:-1] >= kappa[2:]) & (kappa[1:-1] > 0))
    if not peaks.size:
        return RuleChoice(None, f"{NO_CORNER}: the curvature has no positive maximum inside the range of λ")
    best = peaks[np.argmax(kappa[peaks])]
    lam, bend = zoom(lambda at: reading.at(at).curvature, *reading.lambdas[[best - 1, best + 1]])
    more = "the curvature is larger still at the end of the range" if kappa.max() > bend else ""
    if bend < BENT:
        return RuleChoice(None, f"{NO_CORNER}: {more}" if more else straight(reading))
    return RuleChoice(lam, more)


def triangle(reading: CurveReading) -> RuleChoice:
    """Return the point of the sharpest triangle with an earlier and the last point, if it is sharp and bends inward.

    J. L. Castellanos, S. Gomez and V. Guerra, "The triangle method for finding the corner of the L-curve", Appl. Numer.
    Math. 43 (2002). Points are in the order of falling λ: falling residual, growing solution.
    """
    if reason := straight(reading):
        return RuleChoice(None, reason)
    p = logarithms(reading)
    count = p.shape[0]
    best, sharpest = -1, np.cos(SHARPEST)
    for i in range(1, count - 1):
        back, ahead = p[:i] - p[i], p[-1] - p[i]
        lengths = np.hypot(*back.T) * np.hypot(*ahead)
        cosine = np.divide(back @ ahead, lengths, out=np.full(i, -1.0), where=lengths > 0)
        inward = back[:, 0] * ahead[1] - back[:, 1] * ahead[0] > 0
        value = np.max(cosine, where=inward, initial=-1.0)
        if value > sharpest:
            best, sharpest = i, value
    if best < 0:
        return RuleChoice(None, f"{NO_CORNER}: every triangle on the curve is blunter than 7π/8")
    return RuleChoice(float(reading.lambdas[::-1][best]))


def logarithms(reading: CurveReading) -> NDArray[np.float64]:
    """Return (count, 2) log10 of residual and solution norm, in the order of falling λ."""
    return np.log10(np.column_stack([reading.points.residual, reading.points.solution]))[::-1]


def where_open(reading: CurveReading, choice: RuleChoice) -> RuleChoice:
    """Return the choice; if it has no λ and some ribbons are open, add that to its reason."""
    if choice.lam is None and reading.first:
        return RuleChoice(None, f"{choice.reason}; below λ = {reading.lambdas[reading.first - 1]:.3g} {OPEN}")
    return choice


# -- adaptive pruning


def pruning(reading: CurveReading) -> RuleChoice:
    """Return the λ of the grid at the corner; None if no pruned curve bends inward, or if the corner is an end."""
    if reason := straight(reading):
        return RuleChoice(None, reason)
    p = logarithms(reading)
    p = p[np.r_[True, np.any(np.diff(p, axis=0) != 0, axis=1)]]
    if p.shape[0] < 3:
        return RuleChoice(None, f"{NO_CORNER}: the curve has too few points")
    candidates, convex = _candidates(p)
    if not convex:
        return RuleChoice(None, f"{NO_CORNER}: no pruned curve bends inward")
    corner = _best(p, candidates)
    if corner in (0, p.shape[0] - 1):
        return RuleChoice(None, f"{NO_CORNER}: the best candidate is an end of the curve")
    return RuleChoice(float(reading.lambdas[::-1][_place(reading, p[corner])]))


def _place(reading: CurveReading, point: Vector) -> int:
    return int(np.flatnonzero((logarithms(reading) == point).all(axis=1))[0])


def _candidates(p: Vector) -> tuple[list[int], bool]:
    """Return the corners of curves of the 5, 10, 20 ... longest segments, ascending; and whether one bends inward."""
    segments = np.diff(p, axis=0)
    lengths = np.hypot(*segments.T)
    directions = segments / lengths[:, None]
    longest = np.argsort(lengths, kind="stable")[::-1]
    found, convex, kept = {0}, False, min(FEWEST, longest.size)
    while kept < 2 * longest.size:
        chosen = np.sort(longest[: min(kept, longest.size)])
        wedge = _wedge(directions[chosen])
        if wedge.size and wedge.min() < -TURN:
            found.add(int(chosen[np.argmin(wedge)]) + 1)
            convex = True
        if (near := _nearest_origin(p, directions[chosen], chosen)) is not None:
            found.add(near)
        kept *= 2
    return sorted(found), convex


def _wedge(directions: Vector) -> Vector:
    """Return the sines of the angles between neighbours; negative at a right turn from right to left: a corner."""
    return directions[:-1, 0] * directions[1:, 1] - directions[1:, 0] * directions[:-1, 1]


def _nearest_origin(p: Vector, directions: Vector, chosen: NDArray[np.int64]) -> int | None:
    """Return the point nearest to the intersection of the most horizontal and the most vertical segment.

    Returns None if no steep segment follows a flat one.
    """
    order = np.argsort(np.abs(directions[:, 1]), kind="stable")
    pairs = _flat_before_steep(order)
    if pairs is None:
        return None
    flat, steep = chosen[pairs[0]], chosen[pairs[1]]
    (x0, y0), (x1, y1) = p[steep], p[steep + 1]
    if y1 == y0:
        return None
    level = p[flat, 1]
    origin = np.array([x1 + (level - y1) / (y1 - y0) * (x1 - x0), level])
    return int(np.argmin(((p - origin) ** 2).sum(axis=1)))


def _flat_before_steep(order: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first pair (flat, steep) with flat before steep; tries the flattest and steepest segments first."""
    for count in range(1, order.size):
        for flat in order[:count]:
            for steep in order[::-1][:count]:
                if flat < steep:
                    return int(flat), int(steep)
    return None


def _best(p: Vector, candidates: list[int]) -> int:
    """Return the last candidate before the solution norm grows fast and while the curve bends inward."""
    corners = p[candidates]
    steps = np.diff(corners, axis=0)
    grows = np.flatnonzero(steps[:, 1] >= np.abs(steps[:, 0]))
    if grows.size and grows[0] == 0:
        grows = grows[1:]
    if not grows.size:
        return candidates[-1]
    wedge = _wedge(steps / np.hypot(*steps.T)[:, None])
    bends = np.flatnonzero(wedge[grows - 1] <= 0)
    return candidates[grows[bends[0]] if bends.size else grows[-1]]
