"""The plots of the L-curve lab, for files: which curves of a frame belong together, and how their axes are called."""

from __future__ import annotations

from collections.abc import Mapping

from compute.frames import Frame
from compute.panels import Line, Panel

LAMBDA = "λ"
ALL: Mapping[str, Panel] = {
    "l-curve": Panel(
        "L-curve",
        "residual norm |A x − b|",
        "solution norm |x|",
        "xy",
        (Line("l-curve"), Line("ribbon-lower", "bounds", "dashed"), Line("ribbon-upper", "", "dashed")),
    ),
    "curvature": Panel("Curvature of the L-curve", LAMBDA, "curvature", "x", (Line("curvature"),)),
    "gcv": Panel(
        "Generalised cross-validation",
        LAMBDA,
        "GCV",
        "xy",
        (Line("gcv", "GCV"), Line("weighted-gcv", "weighted", "dashed")),
    ),
    "picard": Panel(
        "Picard plot",
        "i",
        "",
        "y",
        (
            Line("singular", "σᵢ"),
            Line("picard-coefficients", "|uᵢᵀb|", "points"),
            Line("picard-ratio", "|uᵢᵀb| / σᵢ", "points"),
        ),
    ),
    "error": Panel("Error of the solution", LAMBDA, "relative error", "xy", (Line("error"),)),
    "solution": Panel("Solution", "i", "x", "", (Line("solution", "x"), Line("truth", "true x", "dashed"))),
}


def panels(frame: Frame) -> Mapping[str, Panel]:
    """Those of which the frame has a curve; solution and truth as pictures where they are some."""
    found = {name: panel for name, panel in ALL.items() if any(line.curve in frame.curves for line in panel.lines)}
    return found | {name: Panel(name, "x", "y", image=name) for name in frame.rasters}
