"""What a level stands for: ticks of the colour bar and of the histogram, for each way of colouring."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from compute.frames import TOP_LEVEL, Curve, Raster

GAP = 14.0  # px between two labels at least
PLAIN = 1e6  # counts below this are written out
STEPS = (1, 1.5, 2, 3, 5, 7)


def nice(low: float, high: float) -> list[float]:
    """1, 1.5, 2, 3, 5, 7, 10, … between two positive numbers, finer where that gives fewer than four."""
    if not 0 < low <= high:
        return []
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    values = [step * 10.0**power for power in powers for step in STEPS]
    found = [value for value in values if low <= value <= high]
    if len(found) >= 4:
        return found
    step = 10.0 ** np.floor(np.log10(max((high - low) / 3, 1e-9)))
    return [float(v) for v in np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step]


def legible(marks: Mapping[float, str], length: float, letter: float) -> dict[float, str]:
    """Those of `marks` (position 0 … 1 -> label) that have room beside each other on `length` px, the first ones first.

    letter: the width of one, in px.
    """
    chosen: dict[float, str] = {}
    end = -np.inf
    for position in sorted(marks):
        half = len(marks[position]) * letter / 2
        if length * position - half >= end + GAP:
            chosen[position] = marks[position]
            end = length * position + half
    return chosen


def short(value: float) -> str:
    """A count as a reader wants it: "22 200", "2.5e6"."""
    if value < PLAIN:
        return f"{value:,.7g}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    exponent = int(np.floor(np.log10(value)))
    return f"{value / 10.0**exponent:.7g}e{exponent}"


def of_counts(histogram: Curve, share: NDArray[np.float64]) -> dict[float, str]:
    """Position 0 … 1 -> count: where nice counts lie when a count lies at `share` (one for each x of `histogram`).

    None where no pixel has a count.
    """
    if not histogram.y.any():
        return {}
    values = nice(float(histogram.x[0]), float(histogram.x[-1]))
    return {float(np.interp(value, histogram.x, share)): short(value) for value in values}


def bar(raster: Raster, colouring: str, curves: Mapping[str, Curve], length: float, letter: float) -> dict[float, str]:
    """Level -> label of the ticks of a colour bar, `length` px long, in type whose digits are `letter` px wide."""
    if colouring == "interior":
        marks = {part: f"{part:g}" for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    elif colouring == "distance":
        span = raster.high - raster.low
        marks = {(k - raster.low) / span: power(k) for k in range(int(raster.low), int(raster.high) + 1, 2)}
    elif colouring == "histogram":
        marks = of_counts(curves["histogram"], curves["cumulative"].y)
    else:
        marks = of_counts(curves["histogram"], np.linspace(0, 1, len(curves["histogram"].x)))
    return {TOP_LEVEL * position: words for position, words in legible(marks, length, letter).items()}


def power(exponent: int) -> str:
    """2^exponent pixels in words: "1/4 px", "16 px"."""
    return f"{2**exponent} px" if exponent >= 0 else f"1/{2**-exponent} px"
