"""The orbit z_0, z_1, z_2, … of the point under the pointer, drawn over a picture: a thin line, and its points."""

from __future__ import annotations

import numpy as np
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure
from numpy.typing import NDArray

from app.labs.mandelbrot.viewport import Anchor
from app.theme import LIGHT
from compute.frames import Curve

SIZES = (11.0, 9.0, 8.0, 7.0)  # px of the first points; z_0 = 0 leads
SIZE = 4.5  # px of all others
MARGIN = 20.0  # views around the picture beyond which a line is cut: canvases know no numbers of any size
RESOLVED = -12  # exponent of the finest unit in which float64 still places an orbit
Points = NDArray[np.float64]


class OrbitMark:
    """One orbit in one figure."""

    def __init__(self, plot: figure, name: str) -> None:
        self.line = ColumnDataSource({"x": [], "y": []})
        self.points = ColumnDataSource({"x": [], "y": [], "size": [], "colour": []}, name=name)
        plot.line("x", "y", source=self.line, line_color="#ffffff", line_width=3, line_alpha=0.55)
        plot.line("x", "y", source=self.line, line_color="#202020", line_width=1.2)
        plot.scatter("x", "y", size="size", source=self.points, fill_color="colour", line_color="#202020")

    def show(self, points: Points, box: tuple[float, float, float, float]) -> None:
        """Draw (n, 2) points; lines are cut at `box` (x0, y0, x1, y1), points outside it left out."""
        cut = clipped(points, box)
        inside = (points >= box[:2]).all(axis=1) & (points <= box[2:]).all(axis=1)
        kept = points[inside]
        order = np.arange(len(points))[inside]
        sizes = np.array([SIZES[k] if k < len(SIZES) else SIZE for k in order])
        colours = [LIGHT["gpu"] if k == 1 else "#ffffff" if k else LIGHT["cpu"] for k in order]
        self.line.data = {"x": cut[:, 0], "y": cut[:, 1]}
        self.points.data = {"x": kept[:, 0], "y": kept[:, 1], "size": sizes, "colour": colours}

    def clear(self) -> None:
        """Draw nothing."""
        if len(self.line.data["x"]) or len(self.points.data["x"]):
            self.show(np.empty((0, 2)), (0, 0, 0, 0))


def counted(curve: Curve, anchor: Anchor) -> Points | None:
    """(n, 2) points of an orbit in an anchor's numbers; None where float64 cannot place them."""
    if anchor.exponent < RESOLVED:
        return None
    unit = float(anchor.unit)
    return np.stack([(curve.x - float(anchor.re)) / unit, (curve.y - float(anchor.im)) / unit], axis=1)


def around(extent: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """A box MARGIN views around a picture's extent."""
    x0, y0, x1, y1 = extent
    wide, high = MARGIN * (x1 - x0), MARGIN * (y1 - y0)
    return x0 - wide, y0 - high, x1 + wide, y1 + high


def clipped(points: Points, box: tuple[float, float, float, float]) -> Points:
    """The line through `points` inside `box`, as points of a line with gaps (NaN) (Liang and Barsky, 1984)."""
    if len(points) < 2:
        return np.empty((0, 2))
    start, step = points[:-1], np.diff(points, axis=0)
    low, high = np.zeros(len(step)), np.ones(len(step))
    for axis in (0, 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = (np.array([box[axis], box[axis + 2]])[:, None] - start[:, axis]) / step[:, axis]
        still, within = step[:, axis] == 0, (start[:, axis] >= box[axis]) & (start[:, axis] <= box[axis + 2])
        low = np.maximum(low, np.where(still, np.where(within, 0.0, 2.0), ends.min(axis=0)))
        high = np.minimum(high, np.where(still, 1.0, ends.max(axis=0)))
    seen = low <= high
    gap = np.full((int(seen.sum()), 2), np.nan)
    pieces = [start[seen] + part[seen, None] * step[seen] for part in (low, high)]
    return np.stack([*pieces, gap], axis=1).reshape(-1, 2)
