"""The main area of a lab that shows rasters of a grid: requests for the region that is visible after a pan or zoom."""

from __future__ import annotations

from typing import Any

from app.tab.lab_view import LabView
from app.tab.plots import RasterPlots

VIEW_DELAY = 120  # ms without pan or zoom before the region is requested at full resolution


class RasterView(LabView):
    """A view whose `pictures` call `request_soon` after a pan or zoom, and `unzoom` after a double click."""

    pictures: RasterPlots
    _view_timer: Any = None

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
