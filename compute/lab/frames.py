"""Immutable results on the host for the screen, small enough for a browser.

A raster has one byte per pixel: levels 0 … 254 represent values from `low` to `high`, 255 a non-finite value; see
Raster.waiting for 254. Levels are mapped to colours in the browser, so a palette change runs no kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from compute.measure.timing import Timing

Value = TypeVar("Value")
TOP_LEVEL = 254
NOT_FINITE = 255
WAITING = 254  # of a pending pixel, in a raster with `waiting`

Extent = tuple[float, float, float, float]  # x0, y0, x1, y1: the position of a picture in its plot
View = tuple[float, float, float, float]  # x0, y0, x1, y1: the requested part of a picture, in cells


@dataclass(frozen=True)
class Raster:
    """One picture.

    levels: (py, px) uint8, row 0 at the lowest y. low, high: values of level 0 and level 254. extent: (x0, y0, x1, y1),
    the cell coordinates of the picture. label, unit: for the colour bar. waiting: whether the picture is unfinished:
    level WAITING then marks pending pixels, and values have levels up to 253.
    """

    levels: NDArray[np.uint8]
    low: float
    high: float
    extent: Extent
    label: str = ""
    unit: str = ""
    waiting: bool = False

    @property
    def span(self) -> tuple[float, float]:
        """(low, high)."""
        return self.low, self.high


@dataclass(frozen=True)
class Curve:
    """One line: x and y are (n,) float64."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    label: str = ""


@dataclass(frozen=True)
class Frame:
    """The results of one state of a lab that are shown.

    parts: pictures and lines by name; facts: plain numbers by name; timing: the cost of this frame; number: counts the
    frames of one lab; notes: texts by name, for numbers beyond float64 and for sentences.
    """

    parts: Mapping[str, Raster | Curve]
    facts: Mapping[str, float]
    timing: Timing
    number: int = 0
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    rasters: Mapping[str, Raster] = field(init=False, repr=False)
    curves: Mapping[str, Curve] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rasters = {name: part for name, part in self.parts.items() if isinstance(part, Raster)}
        curves = {name: part for name, part in self.parts.items() if isinstance(part, Curve)}
        object.__setattr__(self, "rasters", rasters)
        object.__setattr__(self, "curves", curves)


def freeze(named: dict[str, Value]) -> Mapping[str, Value]:
    """Return a read-only view of `named`."""
    return MappingProxyType(named)


def disc_square(shape: tuple[int, ...], y: float, x: float, radius: float) -> tuple[int, int, int, int]:
    """Return (top, left, height, width) of the cells around a disc, clipped to ny x nx cells; a size < 1 is empty."""
    top, left = max(int(y - radius), 0), max(int(x - radius), 0)
    height = min(int(max(y + radius, -1)) + 1, shape[0]) - top
    return top, left, height, min(int(max(x + radius, -1)) + 1, shape[1]) - left


def fit(shape: tuple[int, int], pixels: tuple[int, int]) -> int:
    """Return the smallest whole factor that reduces (rows, columns) to at most `pixels` (height, width)."""
    return max(1, *(-(-size // limit) for size, limit in zip(shape, pixels, strict=True)))
