"""What links the views: one picked λ, which any of them may set and all of them show.

HoloViews draws every plot once and brings taps and drags as streams; `Picked` is a stream of our own. What follows a
frame or a pick is written into the lasting Bokeh sources, which takes a tenth of a redraw.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import holoviews as hv
import param
from bokeh.document import Document
from bokeh.plotting import figure
from holoviews.streams import Draw, SingleTap, Stream

from app.plot_type import keep_type

hv.extension("bokeh")
hv.renderer("bokeh").webgl = False


class Picked(Stream):
    """The λ that was picked in one of the views; None: the rule's."""

    lam = param.Number(default=None, allow_None=True, constant=True, doc="λ > 0.")


class Pointer:
    """Taps and drags on one plot as places (x, y) in its data, the newest one a turn of the document's loop.

    HoloViews triggers its streams without the document's lock, and hears no more once a subscriber has failed.
    """

    def __init__(self, element: hv.Element, document: Document, pointed: Callable[[float, float], None]) -> None:
        self._document, self._pointed = document, pointed
        self._place: tuple[float, float] | None = None
        self.streams = [SingleTap(source=element), Draw(source=element)]
        for stream in self.streams:
            stream.add_subscriber(self._hear)

    def _hear(self, x: Any = None, y: Any = None, **more: Any) -> None:
        if x is not None and y is not None and isfinite(x) and isfinite(y):
            if self._place is None:
                self._document.add_next_tick_callback(self._pass_on)
            self._place = float(x), float(y)

    def _pass_on(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            self._pointed(*place)


def draw_linked(element: hv.Element, document: Document, name: str) -> tuple[Any, figure]:
    """(HoloViews plot, Bokeh figure) of `element`, whose streams live until `document`'s session ends."""
    plot = hv.renderer("bokeh").get_plot(element, doc=document)
    document.on_session_destroyed(lambda session_context: plot.cleanup())  # else HoloViews keeps it for good
    drawn = plot.state
    drawn.update(name=name, title=None, outline_line_color=None, sizing_mode="fixed", output_backend="canvas")
    drawn.update(min_border_right=16, min_border_top=8)
    drawn.toolbar.update(tools=[], logo=None)
    drawn.toolbar_location = None
    for axis in drawn.axis:
        axis.update(minor_tick_line_color=None, axis_label_text_font_style="normal")
    keep_type(drawn)
    return plot, drawn
