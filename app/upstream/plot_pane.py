"""A pane for a Bokeh plot that keeps the plot's callbacks when it is removed from the page.

Panel 1.9's Syncable._cleanup clears the callbacks of every model that it removes. A plot's callbacks belong to the
application: `figure.on_event(Tap, …)` never fires again once the pane has been removed from a page and added again.
"""

from __future__ import annotations

import panel as pn
from bokeh.model import Model


class PlotPane(pn.pane.Bokeh):
    """A pn.pane.Bokeh whose plot keeps its callbacks."""

    def _cleanup(self, root: Model | None = None) -> None:
        """Remove the plot from the page of `root`."""
        plot = self.object
        kept = plot._callbacks, plot._event_callbacks  # noqa: SLF001 Panel assigns both
        super()._cleanup(root)
        plot._callbacks, plot._event_callbacks = kept  # noqa: SLF001
