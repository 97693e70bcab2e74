"""What the tab of a lab without parts of its own consists of."""

from __future__ import annotations

from app.labs.plain.controls import PlainControls
from app.labs.plain.facts import facts
from app.labs.plain.stage import PlainStage
from app.transport import KEYS
from app.views import Parts

HELP = """
| **Space** | run or pause |
| **S** | one step |
| **R** | reset |
"""
POINTER = "Drag on a picture to move it, scroll to zoom."

PARTS = Parts(PlainStage, PlainControls, facts, KEYS, HELP, POINTER)
