"""The views that are linked to the L-curve: what each of them draws of a frame, and over what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compute.frames import Frame

Vector = NDArray[np.float64]

SPECTRUM = "Picard's plot needs all singular values, which are worked out up to about 400 rows or columns."
TRUTH = "No true solution is known for this problem."


@dataclass(frozen=True)
class View:
    """One small plot.

    title, y_label: words; curves: names of a frame's curves -> labels; over: "λ", "i" or "step", what the abscissa is;
    points: curves that are drawn as points; log: whether the ordinate is logarithmic; rules: whose λ are marked;
    absent: what is said when a frame lacks one of the curves; legend: its corner.
    """

    title: str
    y_label: str
    curves: Mapping[str, str]
    over: str = "λ"
    points: tuple[str, ...] = ()
    log: bool = True
    rules: tuple[str, ...] = ()
    absent: str = ""
    legend: str = "top_right"

    def lines(self, frame: Frame) -> dict[str, tuple[Vector, Vector]]:
        """name -> (x, y) of the curves that the frame has."""
        known = {name: frame.curves.get(name) for name in self.curves}
        return {name: (curve.x, curve.y) for name, curve in known.items() if curve is not None}


VIEWS: Mapping[str, View] = {
    "curvature": View(
        "Curvature", "curvature κ", {"curvature": "κ"}, log=False, rules=("curvature", "pruning", "triangle")
    ),
    "gcv": View(
        "GCV", "GCV(λ)", {"gcv": "GCV", "weighted-gcv": "weighted"}, rules=("gcv", "weighted_gcv"), legend="top_left"
    ),
    "picard": View(
        "Picard",
        "size",
        {"singular": "σᵢ", "picard-coefficients": "|uᵢᵀb|", "picard-ratio": "|uᵢᵀb| / σᵢ"},
        over="i",
        points=("picard-coefficients", "picard-ratio"),
        absent=SPECTRUM,
        legend="bottom_left",
    ),
    "singular": View("Singular values", "σᵢ", {"singular": "σᵢ"}, over="i", points=("singular",)),
    "error": View(
        "Error",
        "‖x − true‖ / ‖true‖",
        {"error": "error"},
        rules=("curvature", "gcv", "discrepancy", "quasi_optimality", "ncp"),
        absent=TRUTH,
    ),
    "quasi": View("Quasi-optimality", "|λ dx/dλ|", {"quasi-optimality": "|λ dx/dλ|"}, rules=("quasi_optimality",)),
    "ribbon": View("Ribbon", "widest ribbon", {"history": "widest ribbon"}, over="step", points=("history",)),
}
