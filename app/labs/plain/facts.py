"""The first numbers that a lab's frames carry, for the status bar."""

from __future__ import annotations

from compute.frames import Frame

MOST = 6  # that fit beside those of the stream on a laptop


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """(name, value to four figures, "") of each."""
    return [(name.replace("_", " "), f"{value:.4g}", "") for name, value in list(frame.facts.items())[:MOST]]
