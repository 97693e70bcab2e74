"""What tells the ways apart: one hue for each device, and for each way of it a marker and a dash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compute.labs.crossover.catalogue import Way

MARKERS = (  # Bokeh's name, and the same as a character
    ("circle", "●"),
    ("square", "■"),
    ("triangle", "▲"),
    ("diamond", "◆"),
    ("inverted_triangle", "▼"),
    ("hex", "⬢"),
    ("star", "★"),
    ("plus", "✚"),
)
DASHES = ("solid", "dashed", "dotted", "dotdash")


@dataclass(frozen=True)
class Look:
    """marker, dash: as Bokeh calls them; sign: the marker as a character; kind: "cpu" or "gpu", whose hue it has."""

    marker: str
    sign: str
    dash: str
    kind: str


def looks(ways: Iterable[Way]) -> dict[str, Look]:
    """The look of each way of a workload, by name; the same whichever of them are chosen."""
    found: dict[str, Look] = {}
    counts = {"cpu": 0, "gpu": 0}
    for way in ways:
        device = way.kind
        index = counts[device]
        counts[device] += 1
        marker, sign = MARKERS[index % len(MARKERS)]
        found[way.name] = Look(marker, sign, DASHES[index % len(DASHES)], device)
    return found
