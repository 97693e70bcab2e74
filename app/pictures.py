"""All pictures of one lab: one shared source, linked ranges, one write a frame, and what the pointer does on them.

The write carries the frame's number; the browser answers through an `Acknowledgement` after it has painted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.core.properties import Float
from bokeh.core.properties import List as ListOf
from bokeh.events import Pan, PanEnd, PanStart, RangesUpdate, Tap
from bokeh.model import DataModel
from bokeh.models import ColumnDataSource, CustomJS, Range1d

from app.plots import RasterPlot
from compute.frames import Raster

ACKNOWLEDGE = """
const number = source.data.number[0], began = performance.now();
requestAnimationFrame(() => {            // bokeh paints in this animation frame
  const {port1, port2} = new MessageChannel();
  port1.onmessage = () => { answer.value = [number, (performance.now() - began) / 1000]; };
  port2.postMessage(0);                  // handled once the browser has painted
});
"""

Point = tuple[float, float]


class Acknowledgement(DataModel):
    """What the browser says after a paint: [frame number, seconds it took there]."""

    value = ListOf(Float, default=[])


class Pictures:
    """The pictures of a frame's rasters `names`, in that order, each with its palette.

    Callbacks, all on the document's loop: painted(number, client seconds); brushed(points, end) with points in cells;
    tapped(x, y) in cells; viewed() after a pan or zoom; section_moved(location in cells).
    """

    def __init__(self, names: Sequence[str], palettes: Mapping[str, str]) -> None:
        self.x_range, self.y_range = Range1d(0, 1), Range1d(0, 1)
        blank = np.full((1, 1), 255, np.uint8)
        data: dict[str, Any] = {"number": [0], "x": [0.0], "y": [0.0], "dw": [1.0], "dh": [1.0]}
        for name in names:
            data |= {name: [blank], f"{name}_low": [0.0], f"{name}_high": [1.0]}
        self.source = ColumnDataSource(data, name="frames")
        self.probe = ColumnDataSource({"x": [0.0], "y": [0.0]}, name="probe point")
        self.plots = {name: RasterPlot(name, self.source, self.x_range, self.y_range, palettes[name]) for name in names}
        self.painted: Callable[[int, float], None] = _ignore
        self.brushed: Callable[[list[Point], bool], None] = _ignore
        self.tapped: Callable[[float, float], None] = _ignore
        self.viewed: Callable[[], None] = _ignore
        self.section_moved: Callable[[float], None] = _ignore
        self.painting = False
        self._shape = (1, 1)
        self._connect()

    def _connect(self) -> None:
        self._answer = Acknowledgement()
        self._answer.on_change("value", self._acknowledged)
        code = CustomJS(args={"source": self.source, "answer": self._answer}, code=ACKNOWLEDGE)
        self.source.js_on_change("data", code)
        spans = [plot.section for plot in self.plots.values()]
        for plot in self.plots.values():
            plot.add_probe(self.probe)
            plot.figure.on_event(PanStart, self._stroke)
            plot.figure.on_event(Pan, self._stroke)
            plot.figure.on_event(PanEnd, self._stroke_end)
            plot.figure.on_event(Tap, self._tap)
            plot.figure.on_event(RangesUpdate, lambda event: self.viewed())
            plot.section.on_change("location", lambda attr, old, new: self.section_moved(new))
            for other in spans:
                if other is not plot.section:
                    plot.section.js_link("location", other, "location")

    def _acknowledged(self, attr: str, old: object, new: list[float]) -> None:
        if len(new) == 2:
            self.painted(int(new[0]), float(new[1]))

    def _stroke(self, event: Pan) -> None:
        if self.painting:
            self.brushed([(event.x, event.y)], False)

    def _stroke_end(self, event: PanEnd) -> None:
        if self.painting:
            self.brushed([(event.x, event.y)], True)

    def _tap(self, event: Tap) -> None:
        if self.painting:
            self.brushed([(event.x, event.y)], True)
        elif event.x is not None and event.y is not None:
            self.tapped(event.x, event.y)

    def show(self, number: int, rasters: Mapping[str, Raster]) -> None:
        """Write one frame: every picture and its number in a single message."""
        shown = {name: rasters[name] for name in self.plots if name in rasters}
        x0, y0, x1, y1 = next(iter(shown.values())).extent
        data: dict[str, Any] = {"number": [number], "x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0]}
        for name, raster in shown.items():
            data |= {name: [raster.levels], f"{name}_low": [raster.low], f"{name}_high": [raster.high]}
        self.source.data = data

    def scale(self, rasters: Mapping[str, Raster]) -> None:
        """Bring the colour bars up to date; a few times a second is enough."""
        for name, plot in self.plots.items():
            if plot.figure.visible and name in rasters:
                plot.scale(rasters[name])

    def whole(self, shape: tuple[int, int] | None = None) -> None:
        """Show the whole field of `shape` (ny, nx), or of the last shape given."""
        self._shape = shape or self._shape
        ny, nx = self._shape
        self.x_range.update(start=0, end=nx)
        self.y_range.update(start=0, end=ny)

    @property
    def view(self) -> tuple[float, float, float, float] | None:
        """What the axes show, (x0, y0, x1, y1) in cells; None for the whole field."""
        ny, nx = self._shape
        x0, x1, y0, y1 = self.x_range.start, self.x_range.end, self.y_range.start, self.y_range.end
        return None if x0 <= 0 and y0 <= 0 and x1 >= nx and y1 >= ny else (x0, y0, x1, y1)

    def use_pointer_for(self, painting: bool) -> None:
        """Dragging paints, or it moves the view."""
        self.painting = painting
        for plot in self.plots.values():
            plot.figure.toolbar.active_drag = None if painting else plot.pan

    def place(self, section: str, location: float, probe: Point) -> None:
        """Put the section line ("horizontal" | "vertical", at `location`) and the probe, in cells."""
        for plot in self.plots.values():
            plot.section.update(dimension="width" if section == "horizontal" else "height", location=location)
        self.probe.data = {"x": [probe[0]], "y": [probe[1]]}


def _ignore(*anything: object) -> None:
    """What a callback does until somebody listens."""
