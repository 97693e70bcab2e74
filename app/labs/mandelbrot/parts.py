"""The parts of the Mandelbrot lab's tab: view, controls, help, and facts for the status bar."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, isfinite, log10
from typing import Any

from app.labs.mandelbrot.bookmarks import HOME
from app.labs.mandelbrot.controls import MandelbrotControls
from app.labs.mandelbrot.view import MandelbrotView
from app.tab.lab_view import Parts
from compute.lab.frames import Frame
from compute.labs.mandelbrot.lab import ORBIT_SHARE
from compute.labs.mandelbrot.place import Scaled, number
from compute.measure.rates import spaced

DEEP = ("perturbation", "extended")
HELP = """
| **← → ↑ ↓** | move |
| **+ −** | zoom in and out by a factor of 2 |
| **0** | show the whole set |
| **Backspace** or **Ctrl+Z**, with **Shift** | previous view, next view; not sliders |
| **G**, **M** | go to coordinates, add a bookmark |
| **O**, **J**, **A** | orbit and Julia set of the point under the pointer, area of the set |
| **C** | cycle the palette |
| **L** | hold the colour limits of this view; otherwise each view has its own |
| **Space** | pause or resume the picture |
"""
POINTER = """
Drag to move, scroll to zoom at the pointer, double-click to zoom in by 2, Shift-drag a box to zoom into it.
"""
VALUES = {"center": HOME.center, "zoom": HOME.zoom, "max_iterations": HOME.max_iterations, "reuse": True}


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """Return (label, value, kind) for each fact; kind is "", "warn" or "bad"."""
    known, notes = frame.facts, frame.notes
    warned = bool(notes.get("warning"))
    items = [
        ("zoom", power_of_two(Scaled.of(number("zoom", notes["zoom"])).log2), ""),
        ("pixel", power_of_two(known["spacing_log2"]), ""),
        ("iterations", spaced(known["limit"]), ""),
        ("precision", notes["precision"] + " exhausted" * warned, "bad" if warned else ""),
    ]
    if name := notes.get("computed_by", ""):
        items.append(("computed by", name, "warn"))
    if known["samples"] > 1:
        items.append(("samples", f"{known['samples']:.0f}", ""))
    if known["area_wanted"]:
        items.append(("area of the set", area(known), ""))
    if not known["finished"]:
        items.append(progress(known["progress"], notes["precision"]))
    return items


def area(known: Mapping[str, float]) -> str:
    """Return the estimate with its standard error, or its status: the group "Explain" may be closed."""
    if isfinite(known["area"]) and isfinite(known["area_error"]):
        return f"{known['area']:.5f} ± {known['area_error']:.5f}"
    return "measuring" if known["finished"] else "after the picture"


def progress(part: float, precision: str) -> tuple[str, str, str]:
    """Return the progress of the picture; in a deep view the reference orbit is computed first."""
    if precision in DEEP and part < ORBIT_SHARE:
        return "reference orbit", f"{100 * part / ORBIT_SHARE:.0f} %", ""
    return "picture", f"{100 * part:.0f} %", ""


def power_of_two(log2: float) -> str:
    """Format 2^log2 with two digits at any depth: "3.6e-117"; without exponent between 0.01 and 1000."""
    if not isfinite(log2):
        return "–"
    exponent = floor(log2 * log10(2))
    mantissa = 10 ** (log2 * log10(2) - exponent)
    if float(f"{mantissa:.1f}") >= 10:
        mantissa, exponent = 1.0, exponent + 1
    if -2 <= exponent <= 2:
        return f"{mantissa * 10.0**exponent:.{max(0, 1 - exponent)}f}"
    return f"{mantissa:.1f}e{exponent}"


def zoom_in(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the first and last values of a film from the whole set to the current view."""
    last = {name: values[name] for name in ("center", "zoom")}
    return {"center": HOME.center, "zoom": HOME.zoom}, last


PARTS = Parts(
    MandelbrotView,
    MandelbrotControls,
    facts,
    HELP,
    POINTER,
    VALUES,
    films={"Zoom from the whole set to this view": zoom_in},
)
