"""What the Mandelbrot lab's tab consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.labs.mandelbrot.bookmarks import HOME
from app.labs.mandelbrot.controls import MandelbrotControls
from app.labs.mandelbrot.facts import facts
from app.labs.mandelbrot.stage import MandelbrotStage
from app.transport import UNDO
from app.views import Parts

KEYS = {
    "arrowleft": "left",
    "arrowright": "right",
    "arrowup": "up",
    "arrowdown": "down",
    "+": "closer",
    "=": "closer",  # the key of + without Shift on many keyboards
    "-": "farther",
    "0": "home",
    "backspace": "undo",
    UNDO: "undo",
    "shift+backspace": "redo",
    " ": "play",
    "o": "orbit",
    "j": "julia",
    "a": "area",
    "c": "cycle",
    "g": "goto",
    "m": "mark",
}
HELP = """
| **← → ↑ ↓** | move |
| **+ −** | zoom in and out, twofold |
| **0** | the whole set |
| **Backspace** or **Ctrl+Z**, **Shift+Backspace** | back to the last view, forward again |
| **G**, **M** | go to typed coordinates, mark this place |
| **O**, **J**, **A** | orbit and Julia set of the point under the pointer, area of the set |
| **C** | cycle the palette |
| **Space** | leave the picture as it is, or go on with it |
"""
POINTER = """
Drag to move, scroll to zoom at the pointer, double-click to zoom in twofold, Shift-drag a box to see it whole.
"""
VALUES = {"center": HOME.center, "zoom": HOME.zoom, "max_iterations": HOME.max_iterations, "reuse": True}


def zoom_in(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """From the whole set to what is shown."""
    last = {name: values[name] for name in ("center", "zoom")}
    return {"center": HOME.center, "zoom": HOME.zoom}, last


PARTS = Parts(
    MandelbrotStage,
    MandelbrotControls,
    facts,
    KEYS,
    HELP,
    POINTER,
    VALUES,
    films={"The zoom from the whole set to here": zoom_in},
)
