"""The adaptive pruning algorithm: corners of ever less pruned curves, and the best of them.

P. C. Hansen, T. K. Jensen and G. Rodriguez, "An adaptive pruning algorithm for the discrete L-curve criterion", J.
Comput. Appl. Math. 198 (2007), as in corner.m of Regularization Tools.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.rules.corners import NO_CORNER, logarithms, straight
from compute.labs.l_curve.rules.reading import Choice, Reading

TURN = 1e-6  # sine of a bend that is more than rounding
FEWEST = 5  # segments of the most pruned curve
Array = NDArray[np.float64]


def pruning(reading: Reading) -> Choice:
    """The λ of the grid at the corner; None if no pruned curve bends inward, or if the corner is an end."""
    if reason := straight(reading):
        return Choice(None, reason)
    p = logarithms(reading)
    p = p[np.r_[True, np.any(np.diff(p, axis=0) != 0, axis=1)]]
    if p.shape[0] < 3:
        return Choice(None, f"{NO_CORNER}: the curve has too few points")
    candidates, convex = _candidates(p)
    if not convex:
        return Choice(None, f"{NO_CORNER}: no pruned curve bends inward")
    corner = _best(p, candidates)
    if corner in (0, p.shape[0] - 1):
        return Choice(None, f"{NO_CORNER}: the best candidate is an end of the curve")
    return Choice(float(reading.lambdas[::-1][_place(reading, p[corner])]))


def _place(reading: Reading, point: Array) -> int:
    return int(np.flatnonzero((logarithms(reading) == point).all(axis=1))[0])


def _candidates(p: Array) -> tuple[list[int], bool]:
    """Corners of curves of the 5, 10, 20 ... longest segments, ascending; and whether one of them bends inward."""
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


def _wedge(directions: Array) -> Array:
    """Sines of the angles between neighbours; negative where the curve, from right to left, turns right: a corner."""
    return directions[:-1, 0] * directions[1:, 1] - directions[1:, 0] * directions[:-1, 1]


def _nearest_origin(p: Array, directions: Array, chosen: NDArray[np.int64]) -> int | None:
    """The point nearest to where the most horizontal segment and the most vertical one meet; None if none follows."""
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
    """The first pair (flat, steep) with flat before steep, the flattest and the steepest segments tried first."""
    for count in range(1, order.size):
        for flat in order[:count]:
            for steep in order[::-1][:count]:
                if flat < steep:
                    return int(flat), int(steep)
    return None


def _best(p: Array, candidates: list[int]) -> int:
    """The last candidate before the solution norm grows fast and the curve still bends inward."""
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
