"""What the crossover lab's tab consists of."""

from __future__ import annotations

from app.labs.crossover.controls import CrossoverControls
from app.labs.crossover.facts import facts
from app.labs.crossover.readout import CrossoverReadout
from app.labs.crossover.stage import CrossoverStage
from app.views import Parts

KEYS = {" ": "play", "r": "again", **{str(number): f"view {number}" for number in range(1, 8)}}
HELP = """
| **Space** | run, or pause |
| **R** | again from the beginning |
| **1** … **7** | the views: crossover, programs, parts of the time, roofline, lesson, traps, what held |
"""
POINTER = """
Tap a line to read its program; point at a mark for its time, its quartiles and where it is from. Full marks are
measured here, hollow ones were recorded elsewhere, hatched ones are cited.
"""

PARTS = Parts(
    CrossoverStage,
    CrossoverControls,
    facts,
    KEYS,
    HELP,
    POINTER,
    pace=None,
    plays=False,
    readout=lambda session, stage: CrossoverReadout(session, stage.sight),
)
