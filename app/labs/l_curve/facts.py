"""The numbers of the L-curve lab in the status bar."""

from __future__ import annotations

from app.labs.l_curve.words import short
from compute.frames import Frame


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """(label, value, kind) of each; kind is "", "warn" or "bad"."""
    known = frame.facts
    open_ = known["width"] > known["tolerance"]
    width = f"{short(known['width'])} of {short(known['tolerance'])}"
    items = [
        ("step", f"{known['steps']:,.0f}".replace(",", " "), ""),
        ("ribbon", "exact" if known["exhausted"] else width, "warn" if open_ and known["done"] else ""),
    ]
    if known["seconds"] > 0 and known["products"] > 0:
        rate = known["products"] / known["seconds"]
        items.append(("products/s", short(rate), ""))
        items.append(("GB/s", short(rate * known["bytes_per_product"] / 1e9), ""))
    items.append(("λ", short(known["lam"]), ""))
    items.append(("‖Ax−b‖", short(known["residual"]), ""))
    items.append(("‖x‖", short(known["solution"]), ""))
    return items
