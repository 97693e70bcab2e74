"""Corners of the curve: where it bends most, and where its triangles are sharpest."""

from __future__ import annotations

from math import pi

import numpy as np
from numpy.typing import NDArray

from compute.labs.l_curve.rules.reading import OPEN, Choice, Reading, zoom

BENT = 1.0  # curvature of a corner at the least: an arc of radius 1 in natural logarithms is no corner
SHARPEST = 7 * pi / 8  # of a triangle's angle at the corner
NO_CORNER = "no interior corner"


def straight(reading: Reading) -> str:
    """Why there can be no corner at all; empty if the curve bends enough somewhere inside."""
    most = float(reading.points.curvature[1:-1].max())
    if most >= BENT:
        return ""
    return f"{NO_CORNER}: the curve bends by {most:.2g} at most, a right angle by more than {BENT:g}"


def curvature(reading: Reading) -> Choice:
    """The λ of largest curvature of the curve in logarithms (Hansen and O'Leary, SIAM J. Sci. Comput. 14, 1993)."""
    kappa = reading.points.curvature
    peaks = 1 + np.flatnonzero((kappa[1:-1] > kappa[:-2]) & (kappa[1:-1] >= kappa[2:]) & (kappa[1:-1] > 0))
    if not peaks.size:
        return Choice(None, f"{NO_CORNER}: the curvature has no positive maximum inside the range of λ")
    best = peaks[np.argmax(kappa[peaks])]
    lam, bend = zoom(lambda at: reading.at(at).curvature, *reading.lambdas[[best - 1, best + 1]])
    more = "the curvature is larger still at the end of the range" if kappa.max() > bend else ""
    if bend < BENT:
        return Choice(None, f"{NO_CORNER}: {more}" if more else straight(reading))
    return Choice(lam, more)


def triangle(reading: Reading) -> Choice:
    """The point of the sharpest triangle with an earlier point and the last one, if it is sharp and bends inward.

    J. L. Castellanos, S. Gomez and V. Guerra, "The triangle method for finding the corner of the L-curve", Appl.
    Numer. Math. 43 (2002). Points in the order of falling λ: falling residual, growing solution.
    """
    if reason := straight(reading):
        return Choice(None, reason)
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
        return Choice(None, f"{NO_CORNER}: every triangle on the curve is blunter than 7π/8")
    return Choice(float(reading.lambdas[::-1][best]))


def logarithms(reading: Reading) -> NDArray[np.float64]:
    """(count, 2) log10 of residual and solution norm, in the order of falling λ."""
    return np.log10(np.column_stack([reading.points.residual, reading.points.solution]))[::-1]


def where_open(reading: Reading, choice: Choice) -> Choice:
    """The choice, or the reason that nothing can be said yet."""
    if choice.lam is None and reading.first:
        return Choice(None, f"{choice.reason}; below λ = {reading.lambdas[reading.first - 1]:.3g} {OPEN}")
    return choice
