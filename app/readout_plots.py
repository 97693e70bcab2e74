"""The history of the live compute time: HoloViews draws it once, then its source is written."""

from __future__ import annotations

from collections import deque
from math import isfinite, nan

import holoviews as hv
import numpy as np
from bokeh.models import BasicTicker

from app.curves import draw
from app.plot_type import keep_type
from app.theme import LIGHT, colours

hv.extension("bokeh")

SPAN = 60.0  # seconds shown
MOST = 300  # points kept: four a second, and some
HEIGHT = 112  # px
MOST_MEDIANS = 4.0  # height of the plot in medians: a rare outlier leaves it instead of flattening the rest
HEADROOM = 1.1


class History:
    """Compute time of a step or of a frame, over the last SPAN seconds. One line; its hue is the device's.

    label: of the axis; unit: seconds that 1 stands for on it.
    """

    def __init__(self, label: str = "µs/step", unit: float = 1e-6) -> None:
        self._unit = unit
        self._points: deque[tuple[float, float]] = deque(maxlen=MOST)
        curve = hv.Curve(([-SPAN, 0.0], [0.0, 1.0]), "live, seconds ago", label).opts(
            color=LIGHT["cpu"], line_width=2, toolbar=None, default_tools=[], show_grid=False
        )
        self.figure = draw(curve)
        self._renderer = self.figure.renderers[0]
        self._source = self._renderer.data_source
        self._columns = self._renderer.glyph.x, self._renderer.glyph.y
        self._source.data = {column: np.empty(0) for column in self._columns}  # no line before a frame has come
        self.set_theme(dark=False)
        self._lay_out()

    def _lay_out(self) -> None:
        plot = self.figure
        plot.update(sizing_mode="stretch_width", height=HEIGHT, output_backend="canvas", title=None)
        plot.update(min_border_right=8, min_border_top=8, outline_line_color=None)
        plot.toolbar.logo = None
        plot.x_range.update(start=-SPAN, end=0)
        for axis in (plot.xaxis[0], plot.yaxis[0]):
            axis.update(axis_label_text_font_style="normal", minor_tick_line_color=None)
            axis.ticker = BasicTicker(desired_num_ticks=3)
        keep_type(plot)

    def set_theme(self, dark: bool) -> None:
        """Use the hues of the dark or the light scheme from the next drawing on."""
        self._scheme = colours(dark)

    def add(self, moment: float, seconds: float) -> None:
        """One point: the median time (seconds) of the frames since the last one, at `moment` (seconds)."""
        if isfinite(seconds):
            self._points.append((moment, seconds / self._unit))

    def rest(self, moment: float) -> None:
        """Nothing is computed: the line ends here, and the next point begins another one."""
        if self._points and isfinite(self._points[-1][1]):
            self._points.append((moment, nan))

    def clear(self) -> None:
        """Another backend or grid: what was before does not belong to it."""
        self._points.clear()

    def draw(self, moment: float, kind: str) -> None:
        """Write the line as of `moment`, in the hue of `kind` ("cpu" or "gpu")."""
        points = [(then - moment, value) for then, value in self._points if moment - then <= SPAN]
        x, y = np.array(points).reshape(-1, 2).T
        self._source.data = {self._columns[0]: x, self._columns[1]: y}
        self._renderer.glyph.line_color = self._scheme[kind]
        known = y[np.isfinite(y)]
        if known.size:
            self.figure.y_range.update(
                start=0.0, end=min(float(known.max()), MOST_MEDIANS * float(np.median(known))) * HEADROOM
            )
