"""The main area of a lab without a stage of its own: a picture for each raster of its frames, and their curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import Any

import panel as pn

from app.curves import CurvePlot
from app.pictures import Pictures
from app.plot_type import set_type
from app.plots import AROUND
from app.session import Session
from app.theme import GRID, heading
from compute.frames import Frame

PALETTE = "Viridis"
CURVE_HEIGHT, HEADING, SMALLEST = 168, 36, 128  # px


class PlainStage:
    """Pictures in a row, curves in a row below; both are made when the first frame says which there are."""

    def __init__(self, session: Session, room: tuple[int, int]) -> None:
        self.session, self._room = session, room
        self.panel = pn.Column(margin=0, sizing_mode="stretch_both")
        self.pictures: Pictures | None = None
        self.curves: dict[str, CurvePlot] = {}
        self._panes: list[pn.pane.Bokeh] = []
        self._built = False
        self._unseen: list[Any] = []
        self._extent = (0.0, 0.0, 1.0, 1.0)  # of the rasters, in the lab's cells
        self._look = (False, False)  # dark, presenter
        self.on_ready: Callable[[], object] = _ignore
        session.on_frame = self._show
        session.later(self._begin)

    def _begin(self) -> None:
        """There is nothing to be drawn before the first frame, so that may come at once."""
        self.on_ready()

    @property
    def _plots(self) -> Mapping[str, Any]:
        return self.pictures.plots if self.pictures is not None else {}

    def _show(self, number: int, frame: Frame) -> None:
        if not self._built:
            self._build(frame)
        if self._unseen or self.pictures is None:  # changing a plot before the browser has drawn it is an error there
            self.session.gate.acknowledge(number)
        else:
            self.pictures.show(number, frame.rasters)

    def _build(self, frame: Frame) -> None:
        self._built = True
        names = list(frame.rasters)
        if names:
            self.pictures = pictures = Pictures(names, dict.fromkeys(names, PALETTE))
            pictures.frames.serve(self.session)
            pictures.place("horizontal", nan, (nan, nan))
            self._fit_ranges(pictures, frame)
        for plot in self._plots.values():
            plot.section.visible = False
        self.curves = {name: CurvePlot("x", name, (name,)) for name in frame.curves}
        self._unseen = [plot.figure for plot in self._plots.values()] + [c.figure for c in self.curves.values()]
        for plot in self._unseen:
            plot.on_change("inner_width", lambda attr, old, new, plot=plot: self._drawn(plot))
        self._lay_out()

    def _fit_ranges(self, pictures: Pictures, frame: Frame) -> None:
        x0, y0, x1, y1 = self._extent = next(iter(frame.rasters.values())).extent
        pictures.x_range.update(start=x0, end=x1)
        pictures.y_range.update(start=y0, end=y1)

    def _lay_out(self) -> None:
        self._panes = [pn.pane.Bokeh(plot.figure, margin=0) for plot in self._plots.values()]
        titled = zip(self._plots, self._panes, strict=True)
        row = [pn.Column(heading(name.capitalize()), pane, margin=(GRID, 0, 0, 0)) for name, pane in titled]
        below = [pn.pane.Bokeh(c.figure, margin=0, sizing_mode="stretch_width") for c in self.curves.values()]
        self.panel.objects = [pn.Row(*row, margin=0), pn.Row(*below, margin=0, sizing_mode="stretch_width")]

    def _drawn(self, plot: Any) -> None:
        if plot in self._unseen:
            self._unseen.remove(plot)
            if not self._unseen:
                self.fit(*self._room)
                self.dress(*self._look)

    def fit(self, width: int, height: int) -> None:
        """Use a main area of width x height px, as soon as there are plots."""
        self._room = (width, height)
        if self._unseen or not self._panes:
            return
        x0, y0, x1, y1 = self._extent
        room_x = max(SMALLEST, width // len(self._panes) - AROUND[0] - GRID)
        room_y = max(SMALLEST, height - AROUND[1] - HEADING - (CURVE_HEIGHT if self.curves else 0))
        scale = min(room_x / (x1 - x0), room_y / (y1 - y0))
        size = max(1, round((x1 - x0) * scale)), max(1, round((y1 - y0) * scale))
        for plot, pane in zip(self._plots.values(), self._panes, strict=True):
            plot.resize(*size)
            pane.param.update(width=plot.figure.width, height=plot.figure.height)
        self.session.look(None, (size[1], size[0]))

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        self._look = (dark, presenter)
        if self._unseen:
            return
        for curve in self.curves.values():
            curve.dress(dark)
            set_type(curve.figure, presenter)
        for plot in self._plots.values():
            set_type(plot.figure, presenter)

    def tick(self) -> None:
        """A few times a second: curves and colour bars of the newest frame; the whole of it, if its size changed."""
        frame = self.session.latest
        if frame is None or self._unseen:
            return
        if self.pictures is not None:
            if next(iter(frame.rasters.values())).extent != self._extent:
                self._fit_ranges(self.pictures, frame)
                self.fit(*self._room)
            self.pictures.scale(frame.rasters)
        for name, plot in self.curves.items():
            curve = frame.curves.get(name)
            plot.show([(curve.x, curve.y) if curve is not None else None])


def _ignore() -> None:
    """Nobody waits."""
