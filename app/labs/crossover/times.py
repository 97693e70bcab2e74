"""Times, sizes and rates in words."""

from __future__ import annotations

from math import isfinite

from app.readout_view import figure

THIN = "\N{NARROW NO-BREAK SPACE}"
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 0.0))
PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def duration(seconds: float) -> str:
    """A time to three figures, in s, ms, µs or ns."""
    if not isfinite(seconds):
        return "–"
    if not seconds:
        return f"0{THIN}s"
    for unit, size in UNITS:
        if seconds >= size:
            return f"{figure(seconds / (size or 1e-9))}{THIN}{unit}"
    raise ValueError(f"a duration must not be negative, not {seconds}")


def count(n: float) -> str:
    """A whole number, thousands apart."""
    return f"{n:,.0f}".replace(",", THIN)


def rate(value: float, unit: str) -> str:
    """A rate to three figures: "1.23 TB/s"."""
    if not isfinite(value):
        return "–"
    for prefix, size in PREFIXES:
        if value >= size:
            return f"{figure(value / size)}{THIN}{prefix}{unit}"
    return f"{figure(value)}{THIN}{unit}"
