"""Descriptions of the plots of a lab's frame: the picture or the lines of each plot, and the names of its axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compute.lab.frames import Frame


@dataclass(frozen=True)
class Line:
    """A curve of the frame by its name.

    look: "line", "dashed", "dotted", "points", "spot" (larger points), or "marked" (a line with its points). against:
    a curve with values that replace its x; only: draw only the point at this value of curve.x; bars: the curves with
    the lower and upper ends of a bar through each point; device: "cpu" or "gpu", each with its own hue, in which lines
    differ by their marks.
    """

    curve: str
    label: str = ""
    look: str = "line"
    against: str = ""
    only: float | None = None
    bars: tuple[str, str] | None = None
    device: str = ""

    def points(self, frame: Frame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return x and y of the drawn points, each (n,)."""
        curve = frame.curves[self.curve]
        x = frame.curves[self.against].y if self.against else curve.x
        kept = slice(None) if self.only is None else curve.x == self.only
        return x[kept], curve.y[kept]


@dataclass(frozen=True)
class Foreign:
    """Figures from outside the frame: of another machine, or published. Drawn differently from measured ones.

    x, y: its points; bars: lower and upper end of a bar through each, () for no bars; device: as in Line; cited:
    whether the figures are published ones, not measured by this project.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    bars: tuple[tuple[float, float], ...] = ()
    device: str = ""
    cited: bool = False


@dataclass(frozen=True)
class Mark:
    """A place on the x axis with its uncertainty, the interval from `low` to `high`."""

    x: float
    label: str
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """One plot. image: name of its raster, "" for lines; log: the logarithmic axes, "x", "y" or "xy".

    extent: (x0, y0, x1, y1) of the image in the units of the axes, None for the raster's own; note: text below it;
    extremes: (minimum, maximum) of the values behind the image, None if unknown: the pixels are means of blocks of
    cells, clipped to the limits of the colours, so that they may lack both.
    """

    title: str
    x: str = ""
    y: str = ""
    log: str = ""
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    image: str = ""
    extent: tuple[float, float, float, float] | None = None
    foreign: tuple[Foreign, ...] = ()
    note: str = ""
    extremes: tuple[float, float] | None = None


def plain(frame: Frame) -> Mapping[str, Panel]:
    """Return a panel for each raster and each curve, the default of labs without their own panels."""
    images = {name: Panel(raster.label or name, "x", "y", image=name) for name, raster in frame.rasters.items()}
    lines = {name: Panel(curve.label or name, lines=(Line(name),)) for name, curve in frame.curves.items()}
    return images | lines
