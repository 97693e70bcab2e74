"""The diffusion lab's main area: its pictures, the profile on the section line, the probe over time. One a session."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import panel as pn

from app.curve_plots import CurvePlot
from app.lab_view import LabView, Size
from app.plots import RasterPlots, around
from app.session import Session
from app.theme import GRID, heading, html_pane, set_type
from app.upstream.plot_pane import PlotPane
from compute.engine.shared_memory import MAX_PIXELS
from compute.frames import Frame

TITLES = {"field": "Field u", "laplacian": "Laplacian ∇²u"}
UNITS = {"field": "u", "laplacian": "∇²u [1/cell²]"}
TIGHT = "<mo lspace='0' rspace='0'>"  # an operator that stands close to what it is of
EQUATION = (  # with no raised figures, which would be smaller than any other text
    f"<math aria-label='the rate of change of u is D times the Laplacian of u'>{TIGHT}∂</mo><mi>u</mi>{TIGHT}/</mo>"
    f"{TIGHT}∂</mo><mi>t</mi><mo>=</mo><mi>D</mi><mo>\u2062</mo>{TIGHT}∇²</mo><mi>u</mi></math>"
)
PALETTES = {"field": "Inferno", "laplacian": "Cool–warm"}
CURVE_TITLES = ("Profile on the section line", "At the probe")
CURVE_HEIGHT, CURVE_HEIGHT_MOST, HEADING = 168, 320, 36  # px
BESIDE = 300  # px at least of the curves where they stand beside the pictures
SMALLEST = 128  # px of a picture; in a lower window its colour bar is left out
LOWEST = 96  # px of a picture without one
WRAPPED = {"flex-wrap": "wrap", "align-content": "flex-start"}
PHONE = 480  # px of width below which a picture stands alone
WORTH = 1.25  # pictures may be this much larger without curves before those are left out
LEGIBLE = 180  # px of a picture, below which one is better than two
SHARP = 1.25  # a picture may bring this many pixels for each of the plot's, before it is reduced by a whole factor
VIEW_DELAY = 120  # ms without a pan or zoom before the region is asked for at full resolution
SERIES = 1200  # points of the probe's series that are kept


@dataclass(frozen=True)
class Placement:
    """One way to place pictures and curves.

    shown: names of the pictures; beside: whether the curves stand beside them; size: (width, height) in px of each
    picture; curve_height: px of a curve, 0 where there is no room for any; bar: whether there is room for colour bars.
    """

    shown: Sequence[str]
    beside: bool
    size: Size
    curve_height: int
    bar: bool


class DiffusionView(LabView):
    """Pictures and curves of one session, and their sizes in its window."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.pictures = RasterPlots(tuple(TITLES), PALETTES, UNITS)
        self.profile = CurvePlot("place [cells]", "u", ("profile", "exact"))
        self.series = CurvePlot("time [steps]", "u", ("probe",))
        self.series.figure.xaxis[0].ticker.min_interval = 1.0  # after a restore there is one step: none are between
        self._series: deque[tuple[float, float]] = deque(maxlen=SERIES)
        self._series_of: tuple[Any, ...] = ()  # run and cell of the probe that the samples belong to
        self._view_timer: Any = None
        self._close_view: tuple[float, float, float, float] | None = None  # the part that `look_closely` has chosen
        self._ticked: Frame | None = None  # the frame that the curves show
        self._shown: Sequence[str] = tuple(TITLES)
        self._panes = {name: PlotPane(plot.figure, margin=0) for name, plot in self.pictures.plots.items()}
        self._columns = {
            name: pn.Column(
                self._heading(name), pane, margin=(GRID, 0, 0, 0), sizing_mode="fixed", width=320, height=320
            )
            for name, pane in self._panes.items()
        }
        self._lines = [_fixed(curves.figure) for curves in (self.profile, self.series)]
        self._titled = [
            pn.Column(heading(words), pane, margin=0, sizing_mode="fixed")
            for words, pane in zip(CURVE_TITLES, self._lines, strict=True)
        ]
        self._curves = pn.Row(*self._titled, margin=0, sizing_mode="fixed", styles=WRAPPED)
        self._row = pn.Row(*self._columns.values(), margin=0, sizing_mode="fixed")
        self._with_curves = True
        self.panel = pn.Row(self._row, self._curves, margin=0, sizing_mode="fixed", styles=WRAPPED)
        self._connect()
        pictures = (plot.figure for plot in self.pictures.plots.values())
        self.wait_for(*pictures, self.profile.figure, self.series.figure)
        self.show_whole()

    def _connect(self) -> None:
        pictures = self.pictures
        pictures.frames.serve(self.session, alone=True)
        pictures.tapped = self._probe
        pictures.viewed = self._ask_soon
        pictures.unzoomed = self.unzoom
        pictures.section_moved = self._move_section
        self.session.on_frame = lambda number, frame: pictures.show(number, frame.rasters)

    # -- sizes

    @property
    def shape(self) -> tuple[int, int]:
        """(ny, nx) of the lab."""
        return self.session.values["ny"], self.session.values["nx"]

    @staticmethod
    def _heading(name: str) -> pn.pane.HTML:
        """The title of a picture; the field's with the equation that it follows."""
        if name != "field":
            return heading(TITLES[name])
        return html_pane(f"<h2 class='with-equation'>{TITLES[name]} {EQUATION}</h2>")

    def choose(self, shown: Sequence[str]) -> None:
        """Show only these pictures."""
        self._shown = shown
        self.arrange()

    def show_curves(self, shown: bool) -> None:
        """Show the curves beside or below the pictures, or give their room to the pictures."""
        self._with_curves = shown
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

    def unzoom(self) -> None:
        """Show the whole field."""
        self.show_part(None)

    def look_closely(self, side: int) -> None:
        """Show `side` cells along the longer side at the probe, unless a part is shown, or the grid is as small."""
        ny, nx = self.shape
        if self.pictures.view is not None or max(ny, nx) <= 2 * side:
            return
        values, part = self.session.values, side / max(ny, nx)
        height, width = max(1, round(ny * part)), max(1, round(nx * part))
        x0 = min(max(round(values["probe_x"] * nx - width / 2), 0), nx - width)
        y0 = min(max(round(values["probe_y"] * ny - height / 2), 0), ny - height)
        self._close_view = (float(x0), float(y0), float(x0 + width), float(y0 + height))
        self.show_part(self._close_view)

    def look_away(self) -> None:
        """Show the whole field again, if `look_closely` has chosen the part that is shown."""
        if self._close_view is not None and self.pictures.view == self._close_view:
            self.unzoom()
        self._close_view = None

    def arrange(self) -> None:
        """Give the pictures the largest room that the curves can leave, in the shape of the grid.

        The curves stand below the pictures, or beside them where those are larger so, as in a low window. Where two
        pictures would be too small to be read, and one alone is larger, the first stands alone.
        """
        wanted = self._shown[:1] if self.alone else self._shown
        places = [self._placed(wanted, beside) for beside in (False, True)]
        if len(wanted) > 1 and max(min(one.size) for one in places) < LEGIBLE:
            places += [self._placed(wanted[:1], beside) for beside in (False, True)]
        best = max(places, key=lambda one: min(one.size) * (WORTH if one.curve_height else 1.0))
        for name, column in self._columns.items():
            column.visible = self.pictures.plots[name].figure.visible = name in best.shown
        self._curves.visible = self._with_curves and best.curve_height > 0
        for name, plot in self.pictures.plots.items():
            plot.resize(*best.size, self.presenter, best.bar)
            self._panes[name].param.update(width=plot.figure.width, height=plot.figure.height)
        self._place_curves(best)
        width, height = best.size
        sharp = min(SHARP, sqrt(MAX_PIXELS / (width * height)))  # a 4K screen has more pixels than a frame may bring
        self.session.set_view(self.pictures.view, (int(height * sharp), int(width * sharp)))

    def _place_curves(self, best: Placement) -> None:
        """Give all their widths: what has no room beside the one before it stands below it."""
        width, pictures = self.size[0], len(best.shown) * (best.size[0] + around(self.presenter)[0])
        all_of_them = width - pictures - 1 if best.beside else width
        each = all_of_them if best.beside else width // 2
        self.panel.param.update(width=width, height=self.size[1])
        high = best.size[1] + around(self.presenter, best.bar)[1] + HEADING + GRID
        self._row.param.update(width=pictures if best.beside else width, height=high)
        for column in self._columns.values():
            column.param.update(width=self._row.width // len(best.shown), height=high - GRID)
        high = best.curve_height or SMALLEST  # where they are not seen, too: a fixed size must have one
        self._curves.param.update(width=all_of_them, height=(2 if best.beside else 1) * (high + HEADING))
        for curves, pane, titled in zip((self.profile, self.series), self._lines, self._titled, strict=True):
            curves.figure.update(width=each, height=high)
            pane.param.update(width=each, height=high)
            titled.param.update(width=each, height=high + HEADING)

    def _placed(self, shown: Sequence[str], beside: bool) -> Placement:
        """Where everything would be with these pictures, and with the curves beside or below them."""
        ny, nx = self.shape
        width, height = self.size
        bar = height - around(self.presenter)[1] - HEADING - GRID >= SMALLEST
        more_x, more_y = around(self.presenter, bar)
        curves_x, curves_y = (BESIDE, 0) if beside else (0, CURVE_HEIGHT + HEADING)
        curves = self._with_curves and not self.alone and width >= PHONE
        least_x = len(shown) * (SMALLEST + more_x + GRID) if beside else SMALLEST
        if not curves or height - more_y - HEADING - curves_y < SMALLEST or width - curves_x < least_x:
            curves, curves_x, curves_y = False, 0, 0
        room_x = max(SMALLEST, (width - curves_x) // len(shown) - more_x - GRID)
        room_y = max(SMALLEST if bar else LOWEST, height - more_y - HEADING - GRID - curves_y)
        scale = min(room_x / nx, room_y / ny)
        size = max(1, round(nx * scale)), max(1, round(ny * scale))
        left = height // 2 - HEADING if beside else height - size[1] - more_y - 2 * HEADING - GRID
        return Placement(shown, beside and curves, size, min(left, CURVE_HEIGHT_MOST) if curves else 0, bar)

    def _ask_soon(self) -> None:
        """Ask for the region that the axes show, once they have come to rest."""
        document = self.session.document
        if self._view_timer is not None:
            document.remove_timeout_callback(self._view_timer)
        self._view_timer = document.add_timeout_callback(self._ask, VIEW_DELAY)

    def _ask(self) -> None:
        """Request the region of the axes; zooming out ends at the whole field, which has no empty margin."""
        self._view_timer = None
        if self.pictures.view is None:
            self.pictures.whole()
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

    def samples(self) -> tuple[str, str]:
        """The samples of "At the probe": step, cell and value, the oldest first."""
        if not self._series:
            return "", ""
        _, x, y = self._series_of
        rows = (f"{step:.0f},{x:.0f},{y:.0f},{value!r}" for step, value in self._series)
        return "probe", "\n".join(("step,x_cell,y_cell,u", *rows)) + "\n"

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


def _fixed(plot: Any) -> PlotPane:
    plot.sizing_mode = "fixed"
    return PlotPane(plot, margin=0, sizing_mode="fixed")
