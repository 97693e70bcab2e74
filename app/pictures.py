"""All pictures of one lab: one shared source, linked ranges, one write a frame, and what the pointer does on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.events import Pan, PanEnd, PanStart, RangesUpdate, Tap
from bokeh.models import ColumnDataSource, Range1d

from app.frame_source import FrameSource
from app.plots import RasterPlot
from compute.frames import Raster

Point = tuple[float, float]


class Pictures:
    """The pictures of a frame's rasters `names`, in that order, each with its palette.

    frames.painted hears of every paint. Callbacks, all on the document's loop: brushed(points, end) with points in
    cells; tapped(x, y) in cells; viewed() after a pan or zoom; section_moved(location in cells).
    """

    def __init__(self, names: Sequence[str], palettes: Mapping[str, str]) -> None:
        self.x_range, self.y_range = Range1d(0, 1), Range1d(0, 1)
        blank = np.full((1, 1), 255, np.uint8)
        data: dict[str, Any] = {"x": [0.0], "y": [0.0], "dw": [1.0], "dh": [1.0]}
        for name in names:
            data |= {name: [blank], f"{name}_low": [0.0], f"{name}_high": [1.0]}
        self.frames = FrameSource(data, "frames")
        self.probe = ColumnDataSource({"x": [0.0], "y": [0.0]}, name="probe point")
        source = self.frames.source
        self.plots = {name: RasterPlot(name, source, self.x_range, self.y_range, palettes[name]) for name in names}
        self.brushed: Callable[[list[Point], bool], None] = _ignore
        self.tapped: Callable[[float, float], None] = _ignore
        self.viewed: Callable[[], None] = _ignore
        self.section_moved: Callable[[float], None] = _ignore
        self.painting = False
        self._shape = (1, 1)
        self._connect()

    def _connect(self) -> None:
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
        data: dict[str, Any] = {"x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0]}
        for name, raster in shown.items():
            data |= {name: [raster.levels], f"{name}_low": [raster.low], f"{name}_high": [raster.high]}
        self.frames.write(number, data)

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

    def show_part(self, view: tuple[float, float, float, float] | None) -> None:
        """Show (x0, y0, x1, y1) in cells; None for the whole field."""
        if view is None:
            self.whole()
            return
        self.x_range.update(start=view[0], end=view[2])
        self.y_range.update(start=view[1], end=view[3])

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
