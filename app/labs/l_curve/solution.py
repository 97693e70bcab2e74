"""The solution for the λ that is shown: a line against the true one, or two pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Range1d

from app.curves import CurvePlot
from app.plot_type import set_type
from app.plots import ImagePlot, levels_mapper
from compute.frames import NOT_FINITE, Frame

COLOURS = "Viridis"
CAPTIONS = {"solution": "Solution", "truth": "True picture"}
LEFT, BORDER = 24, 8  # px at the left of a picture, as its heading, and around it


class Picture:
    """One of the two pictures; both share levels' colours."""

    def __init__(self, name: str, mapper: Any) -> None:
        blank = np.full((1, 1), NOT_FINITE, np.uint8)
        self.source = ColumnDataSource({name: [blank], "x": [0.0], "y": [0.0], "dw": [1.0], "dh": [1.0]})
        self.source.name = f"l-curve {name}"
        borders = {f"min_border_{side}": BORDER for side in ("right", "top", "bottom")} | {"min_border_left": LEFT}
        self.plot = ImagePlot(name, self.source, Range1d(0, 1), Range1d(0, 1), mapper, frame_align=False, **borders)
        self.name, self.figure = name, self.plot.figure
        self.figure.axis.visible = False
        self._extent = (0.0, 0.0, 1.0, 1.0)

    def show(self, frame: Frame) -> bool:
        """Draw the frame's picture; False if it has none."""
        raster = frame.rasters.get(self.name)
        if raster is None:
            return False
        x0, y0, x1, y1 = raster.extent
        if raster.extent != self._extent:
            self._extent = raster.extent
            self.figure.x_range.update(start=x0, end=x1)
            self.figure.y_range.update(start=y0, end=y1)
        self.source.data = {self.name: [raster.levels], "x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0]}
        return True


class Solution:
    """Line and pictures; one kind is shown at a time."""

    def __init__(self) -> None:
        self.line = CurvePlot("t", "x(t)", ("solution", "true"))
        self.line.figure.update(name="solution line", sizing_mode="fixed")
        for source, name in zip(self.line.sources, ("solution", "truth"), strict=True):
            source.name = f"l-curve {name} line"
        self.line.show([None, None])  # until the first frame
        mapper = levels_mapper(COLOURS)
        self.pictures = {name: Picture(name, mapper) for name in CAPTIONS}

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        self.line.dress(dark)
        set_type(self.line.figure, presenter)

    def show(self, frame: Frame, drawn: Sequence[str]) -> None:
        """The frame's solution, and the truth if it is known, in those plots that the browser has `drawn`."""
        for name, picture in self.pictures.items():
            if name in drawn:
                picture.show(frame)
        if "line" in drawn:
            curves = [frame.curves.get(name) for name in ("solution", "truth")]
            self.line.show([(c.x, c.y) if c is not None else None for c in curves])
