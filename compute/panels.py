"""What a drawing of a lab's frame shows: the picture or the lines of one plot, and what its axes are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compute.frames import Frame


@dataclass(frozen=True)
class Line:
    """A curve of the frame by its name. look: "line", "dashed", "dotted", "points", "spot", larger ones, or "marked", a
    line with its points.

    against: the curve whose values are its x instead of its own; only: the place on its own x of the only point that is
    drawn; bars: the curves at whose values a bar through each of its points begins and ends; device: "cpu" or "gpu",
    which has a hue of its own in which lines differ by their marks.
    """

    curve: str
    label: str = ""
    look: str = "line"
    against: str = ""
    only: float | None = None
    bars: tuple[str, str] | None = None
    device: str = ""

    def points(self, frame: Frame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x and y of what is drawn of it, each (n,)."""
        curve = frame.curves[self.curve]
        x = frame.curves[self.against].y if self.against else curve.x
        kept = slice(None) if self.only is None else curve.x == self.only
        return x[kept], curve.y[kept]


@dataclass(frozen=True)
class Foreign:
    """What is no part of the frame: figures of another machine, or of others. Drawn so that nobody takes it for own.

    x, y: its points; bars: where a bar through each begins and ends, () for none; device: as of a Line; cited: whether
    others say so, which nobody here has measured.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    bars: tuple[tuple[float, float], ...] = ()
    device: str = ""
    cited: bool = False


@dataclass(frozen=True)
class Mark:
    """A place on the x axis, and how far to each side it may be."""

    x: float
    label: str
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """One plot. image: name of the raster it shows, "" for lines; log: axes that are logarithmic, of "x", "y", "xy".

    extent: (x0, y0, x1, y1) of the image in the units of the axes; None for the raster's own; note: said below it.
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


def plain(frame: Frame) -> Mapping[str, Panel]:
    """A panel for each raster and each curve, for a lab that says nothing of its own."""
    images = {name: Panel(raster.label or name, "x", "y", image=name) for name, raster in frame.rasters.items()}
    lines = {name: Panel(curve.label or name, lines=(Line(name),)) for name, curve in frame.curves.items()}
    return images | lines
