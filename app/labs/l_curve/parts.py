"""What the L-curve lab's tab consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.labs.l_curve.controls import LCurveControls
from app.labs.l_curve.facts import facts
from app.labs.l_curve.stage import LCurveStage
from app.transport import UNDO
from app.views import Parts

KEYS = {" ": "play", "s": "step", "r": "again", "f": "further", "a": "squared", "c": "rule", UNDO: "undo"}
HELP = """
| **Space** | run or pause, whatever has the focus; **Enter** presses a button |
| **S** | one step |
| **R** | again from the first step |
| **F** | further: half the ribbon's width to reach, or twice the steps |
| **C** | back to the λ of the chosen rule |
| **A** | λ or α = λ² |
| **Ctrl+Z** | back to the problem before, with its files |
"""
POINTER = """
Click or drag on the L-curve to pick a λ: its solution appears below, and every view marks it. The views over λ take
clicks too; among the singular values a click takes λ = σ. A click on a rule takes its λ.
"""
FIRST = {"problem": "heat", "n": 200, "noise": 1e-2, "tolerance": 1e-3}
MOST_NOISE = 0.1  # part of |b|


def over_noise(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """From clean data to noisy ones."""
    return {"noise": 0.0}, {"noise": max(MOST_NOISE, values["noise"])}


PARTS = Parts(
    LCurveStage,
    LCurveControls,
    facts,
    KEYS,
    HELP,
    POINTER,
    values=FIRST,
    pace=1,
    films={"More and more noise": over_noise},
)
