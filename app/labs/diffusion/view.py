"""The diffusion lab's main area: its pictures, the profile on the section line, the probe over time. One a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import panel as pn

from app.curve_plots import CurvePlot
from app.lab_view import LabView, Size
from app.plots import AROUND, RasterPlots
from app.session import Session
from app.theme import GRID, heading, set_type
from compute.frames import Frame

TITLES = {"field": "Field u", "laplacian": "Laplacian ∇²u"}
PALETTES = {"field": "Inferno", "laplacian": "Cool–warm"}
CURVE_TITLES = ("Profile on the section line", "At the probe")
CURVE_HEIGHT, CURVE_HEIGHT_MOST, HEADING = 168, 320, 36  # px
SMALLEST = 128  # px
SHARP = 1.25  # a picture may bring this many pixels for each of the plot's, before it is reduced by a whole factor
VIEW_DELAY = 120  # ms without a pan or zoom before the region is asked for at full resolution
SERIES = 1200  # points of the probe's series that are kept


class DiffusionView(LabView):
    """Pictures and curves of one session, and their sizes in its window."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.pictures = RasterPlots(tuple(TITLES), PALETTES)
        self.profile = CurvePlot("cell", "u", ("profile", "exact"))
        self.series = CurvePlot("step", "u", ("probe",))
        self._series: deque[tuple[float, float]] = deque(maxlen=SERIES)
        self._series_of: tuple[Any, ...] = ()  # run and cell of the probe that the samples belong to
        self._view_timer: Any = None
        self._ticked: Frame | None = None  # the frame that the curves show
        self._shown: Sequence[str] = tuple(TITLES)
        self._panes = {name: pn.pane.Bokeh(plot.figure, margin=0) for name, plot in self.pictures.plots.items()}
        self._columns = {
            name: pn.Column(heading(TITLES[name]), pane, margin=(GRID, 0, 0, 0)) for name, pane in self._panes.items()
        }
        self._lines = [_stretched(curves.figure) for curves in (self.profile, self.series)]
        titled = zip(CURVE_TITLES, self._lines, strict=True)
        self._curves = pn.Row(
            *(pn.Column(heading(words), pane, margin=0, sizing_mode="stretch_width") for words, pane in titled),
            margin=0,
            sizing_mode="stretch_width",
        )
        row = pn.Row(*self._columns.values(), margin=0, sizing_mode="stretch_width")
        self.panel = pn.Column(row, self._curves, margin=0, sizing_mode="stretch_both")
        self._connect()
        pictures = (plot.figure for plot in self.pictures.plots.values())
        self.wait_for(*pictures, self.profile.figure, self.series.figure)
        self.show_whole()

    def _connect(self) -> None:
        pictures = self.pictures
        pictures.frames.serve(self.session, alone=True)
        pictures.tapped = self._probe
        pictures.viewed = self._ask_soon
        pictures.section_moved = self._move_section
        self.session.on_frame = lambda number, frame: pictures.show(number, frame.rasters)

    # -- sizes

    @property
    def shape(self) -> tuple[int, int]:
        """(ny, nx) of the lab."""
        return self.session.values["ny"], self.session.values["nx"]

    def choose(self, shown: Sequence[str]) -> None:
        """Show only these pictures."""
        self._shown = shown
        for name, column in self._columns.items():
            column.visible = self.pictures.plots[name].figure.visible = name in shown
        self.arrange()

    def show_curves(self, shown: bool) -> None:
        """Show the curves below the pictures, or give their room to the pictures."""
        self._curves.visible = shown
        self.arrange()

    def apply_theme(self) -> None:
        """Colour the curves, and set the type of all plots."""
        for curves in (self.profile, self.series):
            curves.set_theme(self.dark)
            set_type(curves.figure, self.presenter)
        for plot in self.pictures.plots.values():
            set_type(plot.figure, self.presenter)

    def show_whole(self) -> None:
        """The lab's grid has another shape: show all of it."""
        self.pictures.whole(self.shape)
        self.place_section()
        self.arrange()

    def show_part(self, view: tuple[float, float, float, float] | None) -> None:
        """Show that part of the field, (x0, y0, x1, y1) in cells; None for all of it."""
        self.pictures.show_part(view)
        self._ask_soon()

    def arrange(self) -> None:
        """Give the pictures the room that the curves leave, in the shape of the grid."""
        ny, nx = self.shape
        width, height = self.size
        room_x = max(SMALLEST, width // len(self._shown) - AROUND[0] - GRID)
        below = CURVE_HEIGHT + HEADING if self._curves.visible else 0
        room_y = max(SMALLEST, height - AROUND[1] - HEADING - below)
        scale = min(room_x / nx, room_y / ny)
        size = max(1, round(nx * scale)), max(1, round(ny * scale))
        for name, plot in self.pictures.plots.items():
            plot.resize(*size)
            self._panes[name].param.update(width=plot.figure.width, height=plot.figure.height)
        curve = max(CURVE_HEIGHT, height - size[1] - AROUND[1] - 2 * HEADING)
        for curves, pane in zip((self.profile, self.series), self._lines, strict=True):
            curves.figure.height = pane.height = min(curve, CURVE_HEIGHT_MOST)
        self.session.set_view(self.pictures.view, (round(size[1] * SHARP), round(size[0] * SHARP)))

    def _ask_soon(self) -> None:
        """Ask for the region that the axes show, once they have come to rest."""
        document = self.session.document
        if self._view_timer is not None:
            document.remove_timeout_callback(self._view_timer)
        self._view_timer = document.add_timeout_callback(self._ask, VIEW_DELAY)

    def _ask(self) -> None:
        self._view_timer = None
        self.session.set_view(self.pictures.view, self.session.pixels)

    # -- section and probe

    def place_section(self) -> None:
        """Draw the section line and the probe where the lab's values say."""
        values, (ny, nx) = self.session.values, self.shape
        length = ny if values["section"] == "horizontal" else nx
        probe = values["probe_x"] * nx, values["probe_y"] * ny
        self.pictures.place(values["section"], values["section_at"] * length, probe)

    def _move_section(self, location: float) -> None:
        ny, nx = self.shape
        length = ny if self.session.values["section"] == "horizontal" else nx
        self.session.change(section_at=min(max(location / length, 0.0), 1.0))

    def _probe(self, x: float, y: float) -> None:
        ny, nx = self.shape
        self.session.change(probe_x=min(max(x / nx, 0.0), 1.0), probe_y=min(max(y / ny, 0.0), 1.0))
        self.place_section()

    # -- frames

    def tick(self) -> None:
        """A few times a second: curves and colour bars of the newest frame."""
        frame = self.session.latest
        if frame is None or frame is self._ticked:  # a paused lab has nothing new
            return
        self._ticked = frame
        self.pictures.scale(frame.rasters)
        self._remember(frame)
        curves = [frame.curves.get(name) for name in ("profile", "exact")]
        self.profile.show([(c.x, c.y) if c is not None else None for c in curves])
        steps, values = zip(*self._series, strict=True)
        self.series.show([(np.array(steps), np.array(values))])

    def _remember(self, frame: Frame) -> None:
        """Add the probe's sample to those of the same run and the same cell; others are dropped.

        The run may have gone back, when an engine died: later samples are dropped. A stroke of the brush is a step in
        the curve: of all samples with one step number the first and the last are kept.
        """
        facts, series = frame.facts, self._series
        belongs = (frame.notes["run"], facts["probe_x"], facts["probe_y"])
        if belongs != self._series_of:
            self._series_of = belongs
            series.clear()
        sample = (facts["step"], facts["probe"])
        while series and series[-1][0] > sample[0]:
            series.pop()
        if len(series) > 1 and series[-2][0] == sample[0]:
            series.pop()
        if not series or series[-1] != sample:
            series.append(sample)


def _stretched(plot: Any) -> pn.pane.Bokeh:
    return pn.pane.Bokeh(plot, margin=0, sizing_mode="stretch_width")
