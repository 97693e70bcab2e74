"""The parts of the equations lab's tab: view, controls, help, and facts for the status bar."""

from __future__ import annotations

from math import isfinite
from typing import Any

from app.labs.equations.controls import EquationsControls
from app.labs.equations.generated_files import generated_files
from app.labs.equations.view import EquationsView
from app.tab.lab_view import Parts
from compute.devices.backends import backend
from compute.lab.frames import Frame
from compute.labs.equations import Equations
from compute.labs.equations.programs import full_text, slots_of
from compute.measure.rates import spaced

STEPS = 20  # per frame at the start: Gray–Scott grows at a visible speed
HELP = """
| **Space** | run or pause; **Enter** presses the focused button |
| **S** | one step |
| **R** | reset to the initial values of the text |
| **F** | show the editor of the text, or the typeset equations in its place |
| **Ctrl+Enter** | in the editor: apply the text |
| **0**, **Home** | show the whole grid; a double click does the same |
| **L** | hold the colour limits of this moment, or let them follow each frame |
| **Ctrl+Z**, **Ctrl+Shift+Z** | undo and redo strokes, resets, images, presets and other texts; not sliders |
| **V** | show the next second panel: picture, profile, value at the probe, integral |
"""
POINTER = """
Drag on a picture to move it, scroll to zoom, double-click to show all of it; choose *Paint* to draw into a field or the
wall. While a profile or the value at the probe is shown, click to place the probe; drag the dashed line to move the
section.
"""


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """Return (label, value, kind) for each fact of `frame` in the status bar; kind is "", "warn" or "bad"."""
    known = frame.facts
    dt, limit = known["dt"], known["limit"]
    bound = f", stable up to about {limit:.3g}" if isfinite(limit) else ""
    items = [
        ("step", spaced(known["step"], between=" "), ""),
        ("t", f"{known['t']:.5g}", ""),
        ("Δt", f"{dt:.3g}{bound}", "bad" if dt > limit else ""),
        ("range", f"{known['minimum']:.3g} … {known['maximum']:.3g}", ""),
        ("integral", f"{known['integral']:.5g}", ""),
    ]
    if "interim" in frame.notes:
        items.append(("computed by", backend(frame.timing.backend).label, "warn"))
    if "slower" in frame.notes:
        items.append(("kernel", f"{frame.timing.variant}, a faster one compiles", "warn"))
    if known["nonfinite"]:
        items.append(("not finite", f"{known['nonfinite']:.0f} values", "bad"))
    return items


def values() -> dict[str, Any]:
    """Return the numbers of the first text, so that the sliders have them before the engine answers."""
    return {each.slot: each.value for each in slots_of(Equations.text)}


PARTS = Parts(
    EquationsView,
    EquationsControls,
    facts,
    HELP,
    POINTER,
    values=values,
    pace=STEPS,
    code=lambda session: generated_files(full_text(session.confirmed["text"]), session.confirmed["dtype"]),
)
