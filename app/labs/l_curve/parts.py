"""The parts of the L-curve lab's tab: view, controls, help, and facts for the status bar."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from app.labs.l_curve.controls import LCurveControls
from app.labs.l_curve.labels import short
from app.labs.l_curve.view import LCurveView
from app.tab.lab_view import Parts
from compute.lab.frames import Frame
from compute.labs.l_curve.picture import penalised, products_per_second
from compute.measure.rates import spaced

HELP = """
| **Space** | run or pause; **Enter** presses the focused button |
| **S** | one step |
| **R** | restart from the first step |
| **F** | further: ribbons ten times narrower, or twice the steps |
| **C** | use the λ of the selected rule |
| **A** | switch between λ and α = λ² |
| **N** | keep this solution for comparison, or discard it |
| **Ctrl+Z** | previous problem, with its files; not sliders |
"""
POINTER = """
Click or drag on the L-curve to select a λ: its solution appears below, and every view marks it. Views over λ accept
clicks, too; a click on a singular value selects λ = σ, a click on a rule its λ. All pictures of solutions have the
colour scale of the true picture.
"""
FIRST = {"problem": "heat", "n": 200, "noise": 1e-2, "tolerance": 1e-3}
MOST_NOISE = 0.1  # fraction of |b|


def over_noise(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the first and the last values of a film from clean to noisy data."""
    return {"noise": 0.0}, {"noise": max(MOST_NOISE, values["noise"])}


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """Return (label, value, kind) for each fact in the status bar; kind is "", "warn" or "bad"."""
    known = frame.facts
    open_ = known["width"] > known["tolerance"]
    width = f"{short(known['width'])} of {short(known['tolerance'])}"
    items = [
        ("step", spaced(known["steps"], between=" "), ""),
        ("ribbon", "exact" if known["exhausted"] else width, "warn" if open_ and known["done"] else ""),
    ]
    rate = products_per_second(known)
    if isfinite(rate):
        items.append(("products/s", short(rate), ""))
        items.append(("GB/s", short(rate * known["bytes_per_product"] / 1e9), ""))
    items.append(("λ", short(known["lam"]), ""))
    items.append(("‖Ax−b‖", short(known["residual"]), ""))
    items.append((f"‖{penalised(known['derivative'])}‖", short(known["solution"]), ""))
    return items


PARTS = Parts(
    LCurveView,
    LCurveControls,
    facts,
    HELP,
    POINTER,
    values=FIRST,
    pace=1,
    films={"Increasing noise": over_noise},
)
