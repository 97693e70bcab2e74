"""What a level stands for: ticks of the colour bar and of the histogram, for each way of colouring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from compute.frames import TOP_LEVEL, Curve, Raster

CLOSE = 26  # levels between two ticks at least: a tenth of the bar
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


def spread(positions: Sequence[float], close: float) -> list[int]:
    """Indices of positions (ascending) that keep at least `close` from the one chosen before."""
    chosen: list[int] = []
    for index, position in enumerate(positions):
        if not chosen or position - positions[chosen[-1]] >= close:
            chosen.append(index)
    return chosen


def short(value: float) -> str:
    """A count in few characters."""
    return f"{value:.3g}" if value < 1e5 else f"{value:.0e}".replace("e+0", "e")


def of_counts(histogram: Curve, share: NDArray[np.float64]) -> dict[float, str]:
    """Position 0 … 1 -> count: where nice counts lie when a count lies at `share` (one for each x of `histogram`)."""
    values = nice(float(histogram.x[0]), float(histogram.x[-1]))
    return {float(np.interp(value, histogram.x, share)): short(value) for value in values}


def bar(raster: Raster, colouring: str, curves: Mapping[str, Curve]) -> dict[float, str]:
    """Level -> label of the colour bar's ticks."""
    if colouring == "interior":
        marks = {part: f"{part:g}" for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    elif colouring == "distance":
        span = raster.high - raster.low
        marks = {(k - raster.low) / span: power(k) for k in range(int(raster.low), int(raster.high) + 1, 2)}
    elif colouring == "histogram":
        marks = of_counts(curves["histogram"], curves["cumulative"].y)
    else:
        marks = of_counts(curves["histogram"], np.linspace(0, 1, len(curves["histogram"].x)))
    positions = sorted(marks)
    return {TOP_LEVEL * positions[k]: marks[positions[k]] for k in spread([TOP_LEVEL * p for p in positions], CLOSE)}


def power(exponent: int) -> str:
    """2^exponent pixels in words: "1/4 px", "16 px"."""
    return f"{2**exponent} px" if exponent >= 0 else f"1/{2**-exponent} px"
