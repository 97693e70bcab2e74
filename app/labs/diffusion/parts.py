"""The parts of the diffusion lab's tab: view, controls, help, and facts for the status bar."""

from __future__ import annotations

from app.labs.diffusion.controls import DiffusionControls, r_words
from app.labs.diffusion.view import DiffusionView
from app.tab.lab_view import Parts
from compute.lab.frames import Frame
from compute.measure.rates import spaced

STEPS = 20  # per frame at the start: at 512 x 512 heat spreads at a visible speed
HELP = """
| **Space** | run or pause; **Enter** presses the focused button |
| **S** | one step |
| **R** | reset to the initial field: the preset, or your image |
| **0**, **Home** | show the whole field; a double click does the same |
| **L** | fit the colour limits to the current field |
| **Ctrl+Z**, **Ctrl+Shift+Z** | undo and redo strokes, resets, checkpoints, presets, images and files; not sliders |
"""
POINTER = """
Drag on a picture to move it, scroll to zoom, double-click to show the whole field; choose *Paint* to draw heat with
the pointer. Drag the dashed line to move the section, click to place the probe.
"""


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """Return (label, value, kind) for each fact of `frame` in the status bar; kind is "", "warn" or "bad"."""
    known = frame.facts
    r, limit = known["r"], known["limit"]
    kind = "bad" if r > limit else "warn" if r == limit else ""
    items = [
        ("step", spaced(known["step"], between=" "), ""),
        ("r", f"{r_words(r)} of {limit:g}", kind),
        ("heat", f"{known['heat']:.5g}", ""),
        ("drift", f"{known['heat_drift']:+.1e}", ""),
    ]
    if "exact_error" in known:
        items.append(("error against exact", f"{known['exact_error']:.1e}", ""))
    if "racing_error" in known:
        items.append(("error of the racing kernel", f"{known['racing_error']:.1e}", "bad"))
    if known["nonfinite"]:
        items.append(("not finite", f"{known['nonfinite']:.0f} cells", "bad"))
    return items


PARTS = Parts(
    DiffusionView,
    DiffusionControls,
    facts,
    HELP,
    POINTER,
    values={"hold_limits": True},
    pace=STEPS,
)
