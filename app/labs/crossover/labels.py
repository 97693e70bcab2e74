"""Formats of times, sizes and rates, and the styles of the ways.

Each device has a hue, and each of its ways a marker and a dash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from app.readout.readout_html import figure
from compute.measure.statistics import Spread
from compute.ways.workload import Way

THIN = "\N{NARROW NO-BREAK SPACE}"
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 0.0))
PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def duration(seconds: float) -> str:
    """Format a time in seconds with three digits, in s, ms, µs or ns; a dash for nan and inf."""
    if not isfinite(seconds):
        return "–"
    if not seconds:
        return f"0{THIN}s"
    for unit, size in UNITS:
        if seconds >= size:
            return f"{figure(seconds / (size or 1e-9))}{THIN}{unit}"
    raise ValueError(f"a duration must not be negative, not {seconds}")


def quartiles(spread: Spread) -> str:
    """Format the quartiles and the number of samples; for one sample only the number."""
    if spread.n == 1:
        return "1 sample"
    samples = f", {spread.n} samples" if spread.n else ""
    return f"{duration(spread.q1)} to {duration(spread.q3)}{samples}"


def rate(value: float, unit: str) -> str:
    """Format a rate with three digits, as in "1.23 TB/s"; a dash for nan and inf."""
    if not isfinite(value):
        return "–"
    for prefix, size in PREFIXES:
        if value >= size:
            return f"{figure(value / size)}{THIN}{prefix}{unit}"
    return f"{figure(value)}{THIN}{unit}"


MARKERS = (  # Bokeh's name and the corresponding character
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
class WayStyle:
    """The style of a way.

    marker, dash: Bokeh's names; sign: the marker as a character; kind: "cpu" or "gpu", which determines the hue.
    """

    marker: str
    sign: str
    dash: str
    kind: str


def way_styles(ways: Iterable[Way]) -> dict[str, WayStyle]:
    """Return the style of each way of a workload by name, independent of the selection."""
    found: dict[str, WayStyle] = {}
    counts = {"cpu": 0, "gpu": 0}
    for way in ways:
        device = way.kind
        index = counts[device]
        counts[device] += 1
        marker, sign = MARKERS[index % len(MARKERS)]
        found[way.name] = WayStyle(marker, sign, DASHES[index % len(DASHES)], device)
    return found
