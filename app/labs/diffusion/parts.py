"""What the diffusion lab's tab consists of."""

from __future__ import annotations

from app.labs.diffusion.controls import DiffusionControls
from app.labs.diffusion.facts import facts
from app.labs.diffusion.stage import DiffusionStage
from app.transport import KEYS, UNDO
from app.views import Parts

STEPS = 20  # a frame, at the start: at 512 x 512 the pace at which heat visibly spreads
HELP = """
| **Space** | run or pause, whatever has the focus; **Enter** presses a button |
| **S** | one step |
| **R** | reset to the initial field: the preset, or your image |
| **Ctrl+Z** | bring back what a reset, a checkpoint, a preset, an image or a file replaced |
"""
POINTER = """
Drag on a picture to move it, scroll to zoom; choose *Paint* to draw heat with the pointer. Drag the dashed line to
move the section, click to place the probe.
"""

PARTS = Parts(DiffusionStage, DiffusionControls, facts, {**KEYS, UNDO: "undo"}, HELP, POINTER, pace=STEPS)
