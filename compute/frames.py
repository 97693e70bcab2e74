"""What the screen gets: immutable host results, small enough for a browser.

A raster is one byte a pixel: levels 0 … 254 stand for values from `low` to `high`, 255 for a value that is not
finite; see Raster.waiting for 254. Numbers become colours in the browser, so a palette change costs no kernel.
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
WAITING = 254  # of a pixel that is not computed yet, in a raster with `waiting`

Extent = tuple[float, float, float, float]  # x0, y0, x1, y1: where a picture lies in its plot
View = tuple[float, float, float, float]  # the part of a picture that is wanted, from (0, 0, 1, 1), the whole of it


@dataclass(frozen=True)
class Raster:
    """One picture.

    levels: (py, px) uint8, row 0 at the lowest y. low, high: values of level 0 and level 254. extent: (x0, y0, x1,
    y1), the cell coordinates the picture covers. label, unit: for the colour bar. waiting: whether the picture is not
    finished: level WAITING is then that of pixels that are not computed yet, and values have levels up to 253.
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
    """Everything a lab shows of one state.

    parts: pictures and lines by name; facts: plain numbers by name; timing: what this frame cost; number: counts the
    frames of one lab; notes: words by name, for what no float64 can hold and what is said in a sentence.
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
    """A read-only view of `named`."""
    return MappingProxyType(named)


def fit(shape: tuple[int, int], pixels: tuple[int, int]) -> int:
    """The smallest whole factor by which (rows, columns) must shrink to fit into `pixels` (height, width)."""
    return max(1, *(-(-size // limit) for size, limit in zip(shape, pixels, strict=True)))
