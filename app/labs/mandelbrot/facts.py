"""The numbers of the Mandelbrot lab in the status bar: how deep, how fine, how far."""

from __future__ import annotations

from math import floor, isfinite, log10

from compute.frames import Frame
from compute.labs.mandelbrot.lab import ORBIT_SHARE
from compute.labs.mandelbrot.place import Scaled, number

DEEP = ("perturbation", "extended")


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """(label, value, kind) of each; kind is "", "warn" or "bad"."""
    known, notes = frame.facts, frame.notes
    warned = bool(notes.get("warning"))
    items = [
        ("zoom", power(Scaled.of(number("zoom", notes["zoom"])).log2), ""),
        ("pixel", power(known["spacing_log2"]), ""),
        ("iterations", f"{known['limit']:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}"), ""),
        ("precision", notes["precision"] + " exhausted" * warned, "bad" if warned else ""),
    ]
    if known["samples"] > 1:
        items.append(("samples", f"{known['samples']:.0f}", ""))
    if not known["finished"]:
        items.append(progress(known["progress"], notes["precision"]))
    return items


def progress(part: float, precision: str) -> tuple[str, str, str]:
    """How far the picture is: in a deep view the reference orbit comes first."""
    if precision in DEEP and part < ORBIT_SHARE:
        return "reference orbit", f"{100 * part / ORBIT_SHARE:.0f} %", ""
    return "picture", f"{100 * part:.0f} %", ""


def power(log2: float, digits: int = 2) -> str:
    """2^log2 to that many figures, at any depth: "3.6e-117"; plain between 0.01 and 1000."""
    if not isfinite(log2):
        return "–"
    exponent = floor(log2 * log10(2))
    mantissa = 10 ** (log2 * log10(2) - exponent)
    if float(f"{mantissa:.{digits - 1}f}") >= 10:
        mantissa, exponent = 1.0, exponent + 1
    if -2 <= exponent <= 2:
        return f"{mantissa * 10.0**exponent:.{max(0, digits - 1 - exponent)}f}"
    return f"{mantissa:.{digits - 1}f}e{exponent}"
