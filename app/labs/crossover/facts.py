"""The numbers of the crossover lab in the status bar."""

from __future__ import annotations

from app.labs.crossover.times import duration
from compute.frames import Frame


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """(label, value, kind) of each; kind is "", "warn" or "bad"."""
    known = frame.facts
    return [
        ("done", f"{100 * known['progress']:.0f} %", ""),
        ("measuring for", duration(known["elapsed"]), ""),
        ("of", f"{frame.notes['workload']} {frame.notes['dtype']}", ""),
    ]
