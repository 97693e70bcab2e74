"""The main area of a lab that shows rasters of a grid.

It requests the region that is visible after a pan or zoom, and shows a second run in place of the second picture.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bokeh.plotting import figure

from app.tab.lab_view import LabView
from app.tab.plots import RasterPlots
from app.upstream.plot_pane import PlotPane
from compute.lab.frames import Frame
from compute.lab.two_runs import SECOND

RUNS = "First run", "Second run"  # headings of the pictures of two runs
VIEW_DELAY = 120  # ms without pan or zoom before the region is requested at full resolution


class RasterView(LabView):
    """A view whose `pictures` call `request_soon` after a pan or zoom, and `unzoom` after a double click."""

    pictures: RasterPlots
    _view_timer: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (ny, nx) of the lab's grid."""
        return self.session.values["ny"], self.session.values["nx"]

    def show_frame(self, frame: Frame) -> None:
        """Write a frame into the pictures; a frame with a second run changes the panels soon afterwards."""
        self.pictures.show(frame.number, frame.rasters)
        if (SECOND in frame.rasters) != self.pictures.twice:
            self.session.later(partial(self._compare, SECOND in frame.rasters))

    def _compare(self, comparing: bool) -> None:
        self.pictures.show_twice(comparing)
        self.arrange()
        self.tick()

    def show_part(self, view: tuple[float, float, float, float] | None) -> None:
        """Show the region (x0, y0, x1, y1) in cells; None for the whole grid."""
        self.pictures.show_part(view)
        self.request_soon()

    def unzoom(self) -> None:
        """Show the whole grid."""
        self.show_part(None)

    def request_soon(self) -> None:
        """Request the visible region after VIEW_DELAY ms without a change of the axes."""
        document = self.session.document
        if self._view_timer is not None:
            document.remove_timeout_callback(self._view_timer)
        self._view_timer = document.add_timeout_callback(self._request, VIEW_DELAY)

    def _request(self) -> None:
        """Request the visible region; zooming out ends at the whole grid without an empty margin."""
        self._view_timer = None
        if self.pictures.view is None:
            self.pictures.whole()
        self.session.set_view(self.pictures.view, self.session.shown.pixels)


def fixed_pane(plot: figure) -> PlotPane:
    """Return a pane of fixed size for a figure."""
    plot.sizing_mode = "fixed"
    return PlotPane(plot, margin=0, sizing_mode="fixed")


def part_of(place: float, cells: int) -> float:
    """Return a place in cells as a fraction of a side with that many cells, limited to 0 … 1."""
    return min(max(place / cells, 0.0), 1.0)
