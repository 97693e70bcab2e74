"""The diffusion lab's main area: its pictures, the profile along the section line, and the probe over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import panel as pn
from numpy.typing import NDArray

from app.page.markup import filled, plain
from app.page.theme import GRID, heading, html_pane, letter, set_type, type_size
from app.tab.curve_plots import CurvePlot
from app.tab.lab_view import Size
from app.tab.plot_words import rename
from app.tab.plots import RasterPlots, around
from app.tab.raster_view import RUNS, RasterView, fixed_pane, part_of
from app.tab.samples import Samples
from app.tab.session import Session
from app.upstream.plot_pane import PlotPane
from compute.engine.shared_memory import MAX_PIXELS
from compute.lab.frames import Frame
from compute.lab.growth import FEWEST, Growth, fitted_growth
from compute.lab.two_runs import PROFILE, SECOND, SECOND_PROFILE

TITLES = {"field": "Field u", "laplacian": "Laplacian ∇²u"}
UNITS = {"field": "u", "laplacian": "∇²u [1/cell²]"}
TIGHT = "<mo lspace='0' rspace='0'>"  # an operator close to its operand
EQUATION = (  # without superscripts, which would be smaller than any other text
    f"<math aria-label='the rate of change of u is D times the Laplacian of u'>{TIGHT}∂</mo><mi>u</mi>{TIGHT}/</mo>"
    f"{TIGHT}∂</mo><mi>t</mi><mo>=</mo><mi>D</mi><mo>\u2062</mo>{TIGHT}∇²</mo><mi>u</mi></math>"
)
PALETTES = {"field": "Inferno", "laplacian": "Cool–warm"}
OF_FIRST = ", first run"  # of two
EXACT = "exact"  # curve of a frame
CURVE_TITLES = ("Profile on the section line", "At the probe")
CURVE_HEIGHT, CURVE_HEIGHT_MOST, HEADING = 168, 320, 36  # px
BESIDE = 300  # px, minimum width of curves next to the pictures
SMALLEST = 128  # px of a picture; in a lower window the colour bar is hidden
LOWEST = 96  # px of a picture without colour bar
WRAPPED = {"flex-wrap": "wrap", "align-content": "flex-start"}
PHONE = 480  # px of width below which only one picture is shown
WORTH = 1.25  # factor by which pictures must grow without curves before these are hidden
LEGIBLE = 180  # px of a picture; below, one picture is shown instead of two
GROWTH_LINES = 3  # height of the two lines of the growth factor, in font sizes
ONE_EXPONENTIAL = 0.1  # largest residual of samples that are called one exponential
GROWTH_STYLE = """
p { margin: 0; padding-left: 24px; font-size: var(--small, 14px); line-height: 1.4; color: var(--muted);
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
b { color: var(--ink); font-variant-numeric: tabular-nums; }
"""
SHARP = 1.25  # maximum of frame pixels per plot pixel and axis, before the frame is reduced by an integer factor


@dataclass(frozen=True)
class Placement:
    """One layout of pictures and curves.

    shown: names of the pictures; side_by_side: whether the curves are next to them; size: (width, height) in px of each
    picture; curve_height: in px, 0 if the curves are hidden; bar: whether colour bars are shown.
    """

    shown: Sequence[str]
    side_by_side: bool
    size: Size
    curve_height: int
    bar: bool


def growth_html(growth: Growth | None, facts: Mapping[str, float]) -> str:
    """Return the measured growth factor, and those of the theory that the lab knows, as two lines."""
    if growth is None:
        return f"<p>Growth per step: at least {FEWEST} samples of one r are needed</p>"
    over = f"least squares over {growth.samples} samples, steps {growth.first:,.0f} to {growth.last:,.0f}"
    fits = f"residual {100 * growth.residual:.2g} %" if growth.residual < ONE_EXPONENTIAL else "not one exponential"
    measured = f"<b>{growth.factor:.7g}</b> per step, {fits}"
    known = []
    if "mode_growth" in facts:
        mode = f"mode ({facts['mode_p']:.0f}, {facts['mode_q']:.0f})"
        known.append(f"<b>{abs(facts['mode_growth']):.7g}</b> {mode}")
    if "fastest_growth" in facts:
        known.append(f"<b>{facts['fastest_growth']:.7g}</b> finest")
    theory = f"<p>Theory: {', '.join(known)}</p>" if known else ""
    return f"<p title='{over}'>Growth: {measured}</p>{theory}"


class DiffusionView(RasterView):
    """The pictures and curves of one session, and their layout."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.pictures = RasterPlots(
            tuple(TITLES), PALETTES, UNITS, tapped=self._probe, viewed=self.request_soon, unzoomed=self.unzoom,
            section_moved=self._move_section,
        )  # fmt: skip
        self.profile = CurvePlot("place [cells]", "u", (PROFILE, EXACT))
        self.series = CurvePlot("time [steps]", "u", ("probe", "fit"))
        self.series.figure.xaxis[0].ticker.min_interval = 1.0  # after a restore there is only one step
        self._samples = Samples()  # of the probe
        self._logarithmic, self._share = False, 1.0  # see show_growth
        self._scheme: tuple[Any, ...] = ()  # r and edges of the newest samples
        self._since = 0.0  # their first step
        self._growth = html_pane("", GROWTH_STYLE, visible=False)
        self._close_view: tuple[float, float, float, float] | None = None  # region chosen by `look_closely`
        self._ticked: Frame | None = None  # frame shown in the curves
        self._shown: Sequence[str] = tuple(TITLES)
        self._panes = {name: PlotPane(plot.figure, margin=0) for name, plot in self.pictures.plots.items()}
        self._headings = {name: self._heading(name) for name in TITLES}
        self._heads = {name: str(each.object) for name, each in self._headings.items()}  # of a single run
        self._columns = {
            name: pn.Column(
                self._headings[name], pane, margin=(GRID, 0, 0, 0), sizing_mode="fixed", width=320, height=320
            )
            for name, pane in self._panes.items()
        }
        self._lines = [fixed_pane(curves.figure) for curves in (self.profile, self.series)]
        self._probe_head = heading(CURVE_TITLES[1])
        above = [heading(CURVE_TITLES[0])], [self._probe_head, self._growth]
        self._titled = [
            pn.Column(*words, pane, margin=0, sizing_mode="fixed")
            for words, pane in zip(above, self._lines, strict=True)
        ]
        self._curves = pn.Row(*self._titled, margin=0, sizing_mode="fixed", styles=WRAPPED)
        self._row = pn.Row(*self._columns.values(), margin=0, sizing_mode="fixed")
        self._with_curves = True
        self.panel = pn.Row(self._row, self._curves, margin=0, sizing_mode="fixed", styles=WRAPPED)
        self.pictures.frames.serve(session, alone=True)
        session.frames.subscribe(self.show_frame)
        pictures = (plot.figure for plot in self.pictures.plots.values())
        self.wait_for(*pictures, self.profile.figure, self.series.figure)
        self.show_whole()

    # -- layout

    @staticmethod
    def _heading(name: str) -> pn.pane.HTML:
        """Return the title of a picture; the field's includes its equation."""
        if name != "field":
            return heading(TITLES[name])
        return html_pane(f"<h2 class='with-equation'>{TITLES[name]} {EQUATION}</h2>")

    def choose(self, shown: Sequence[str]) -> None:
        """Show only these pictures."""
        self._shown = shown
        self.arrange()

    def show_curves(self, shown: bool) -> None:
        """Show the curves next to or below the pictures, or hide them in favour of the pictures."""
        self._with_curves = shown
        self.arrange()

    def apply_theme(self) -> None:
        """Apply colours to the curves, and fonts to all plots."""
        for curves in (self.profile, self.series):
            curves.set_theme(self.dark)
            set_type(curves.figure, self.presenter)
        for plot in self.pictures.plots.values():
            set_type(plot.figure, self.presenter)

    def show_whole(self) -> None:
        """Show the whole grid after its shape has changed."""
        self.pictures.whole(self.shape)
        self.place_section()
        self.arrange()

    def look_closely(self, side: int) -> None:
        """Zoom to `side` cells along the longer side at the probe, unless the view is zoomed or the grid is small."""
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
        """Show the whole field if the visible region was chosen by `look_closely`."""
        if self._close_view is not None and self.pictures.view == self._close_view:
            self.unzoom()
        self._close_view = None

    def arrange(self) -> None:
        """Choose the layout with the largest pictures, in the shape of the grid.

        The curves are below the pictures, or next to them if that makes the pictures larger, as in a low window. If two
        pictures would be too small and one alone is larger, only the first is shown.
        """
        chosen = tuple(TITLES) if self.pictures.twice else self._shown
        chosen = chosen[:1] if self.alone else chosen
        places = [self._placed(chosen, side_by_side) for side_by_side in (False, True)]
        if len(chosen) > 1 and not self.pictures.twice and max(min(one.size) for one in places) < LEGIBLE:
            places += [self._placed(chosen[:1], side_by_side) for side_by_side in (False, True)]
        best = max(places, key=lambda one: min(one.size) * (WORTH if one.curve_height else 1.0))
        for name, column in self._columns.items():
            column.visible = self.pictures.plots[name].figure.visible = name in best.shown
        self._curves.visible = self._with_curves and best.curve_height > 0
        for name, plot in self.pictures.plots.items():
            plot.resize(*best.size, self.presenter, best.bar)
            self._panes[name].param.update(width=plot.figure.width, height=plot.figure.height)
        self._place_curves(best)
        width, height = best.size
        sharp = min(SHARP, sqrt(MAX_PIXELS / (width * height)))  # a 4K screen has more pixels than the limit of a frame
        self.session.set_view(self.pictures.view, (int(height * sharp), int(width * sharp)))

    def _place_curves(self, best: Placement) -> None:
        """Set all widths; an element without room next to the previous one wraps below it."""
        width, pictures = self.size[0], len(best.shown) * (best.size[0] + around(self.presenter)[0])
        all_of_them = width - pictures - 1 if best.side_by_side else width
        each = all_of_them if best.side_by_side else width // 2
        self.panel.param.update(width=width, height=self.size[1])
        high = best.size[1] + around(self.presenter, best.bar)[1] + HEADING + GRID
        self._row.param.update(width=pictures if best.side_by_side else width, height=high)
        for column in self._columns.values():
            column.param.update(width=self._row.width // len(best.shown), height=high - GRID)
        high = best.curve_height or SMALLEST  # hidden curves, too, as a fixed size needs a value
        self._curves.param.update(width=all_of_them, height=(2 if best.side_by_side else 1) * (high + HEADING))
        text = GROWTH_LINES * type_size(self.presenter) if self._logarithmic else 0
        self._growth.param.update(visible=self._logarithmic, height=text, width=each, sizing_mode="fixed")
        heights = high, high - text
        for curves, height, pane, titled in zip(
            (self.profile, self.series), heights, self._lines, self._titled, strict=True
        ):
            curves.figure.update(width=each, height=height)
            pane.param.update(width=each, height=height)
            titled.param.update(width=each, height=high + HEADING)

    def _placed(self, shown: Sequence[str], side_by_side: bool) -> Placement:
        """Return the layout with these pictures, and with the curves next to or below them."""
        ny, nx = self.shape
        width, height = self.size
        bar = height - around(self.presenter)[1] - HEADING - GRID >= SMALLEST
        more_x, more_y = around(self.presenter, bar)
        curves_x, curves_y = (BESIDE, 0) if side_by_side else (0, CURVE_HEIGHT + HEADING)
        curves = self._with_curves and not self.alone and width >= PHONE
        least_x = len(shown) * (SMALLEST + more_x + GRID) if side_by_side else SMALLEST
        if not curves or height - more_y - HEADING - curves_y < SMALLEST or width - curves_x < least_x:
            curves, curves_x, curves_y = False, 0, 0
        least = LOWEST if self.pictures.twice else SMALLEST  # a phone shows both runs
        room_x = max(least, (width - curves_x) // len(shown) - more_x - GRID)
        room_y = max(SMALLEST if bar else LOWEST, height - more_y - HEADING - GRID - curves_y)
        scale = min(room_x / nx, room_y / ny)
        size = max(1, round(nx * scale)), max(1, round(ny * scale))
        left = height // 2 - HEADING if side_by_side else height - size[1] - more_y - 2 * HEADING - GRID
        return Placement(shown, side_by_side and curves, size, min(left, CURVE_HEIGHT_MOST) if curves else 0, bar)

    # -- section and probe

    def place_section(self) -> None:
        """Draw the section line and the probe at the session's values."""
        values, (ny, nx) = self.session.values, self.shape
        length = ny if values["section"] == "horizontal" else nx
        probe = values["probe_x"] * nx, values["probe_y"] * ny
        self.pictures.place(values["section"], values["section_at"] * length, probe)

    def _move_section(self, location: float) -> None:
        ny, nx = self.shape
        length = ny if self.session.values["section"] == "horizontal" else nx
        self.session.change(section_at=part_of(location, length))

    def _probe(self, x: float, y: float) -> None:
        ny, nx = self.shape
        self.session.change(probe_x=part_of(x, nx), probe_y=part_of(y, ny))
        self.place_section()

    # -- frames

    def tick(self) -> None:
        """Update curves and colour bars from the latest frame, a few times a second."""
        frame = self.session.latest
        if frame is None or frame is self._ticked:  # a paused lab has no new frame
            return
        self._ticked = frame
        self.pictures.scale(frame.rasters)
        self._head(frame)
        self._remember(frame)
        second = SECOND_PROFILE in frame.curves  # the place of the exact solution
        curves = [frame.curves.get(name) for name in (PROFILE, SECOND_PROFILE if second else EXACT)]
        self.profile.name_lines(RUNS if second else (PROFILE, EXACT))
        self.profile.show([(c.x, c.y) if c is not None else None for c in curves])
        self._show_series(frame)

    def _compare(self, comparing: bool) -> None:
        self._ticked = None  # a tick before this call has shown the frame with the headings of the other mode
        super()._compare(comparing)

    def _head(self, frame: Frame) -> None:
        """Show which run a picture shows and its value, if there are two."""
        twice = self.pictures.twice and SECOND in frame.rasters
        self._probe_head.object = f"<h2>{CURVE_TITLES[1]}{OF_FIRST * twice}</h2>"
        for (name, raster), run in zip(self.pictures.shown(frame.rasters).items(), RUNS, strict=False):
            words = raster.label.partition(", ")[2]
            html = filled("<h2>{run}: {words}</h2>", run=run, words=words) if twice else self._heads[name]
            if html != self._headings[name].object:
                self._headings[name].object = html
                bar = self.pictures.plots[name].bar
                if bar is not None:
                    room = max(1, int(self.pictures.plots[name].figure.frame_width / letter(self.presenter)))
                    bar.title = plain(raster.label, room) if twice else UNITS[name]
                    rename(self.pictures.plots[name].figure)

    # -- the probe over time

    def show_growth(self, shown: bool, share: float) -> None:
        """Show |u| at the probe on a logarithmic axis, with the growth factor of a fit to the newest `share` of it."""
        changed, self._logarithmic, self._share = shown != self._logarithmic, shown, share
        if changed:
            self.series.name_axes("time [steps]", "|u|" if shown else "u")
            self.series.use_logarithms(shown)
            self.arrange()
        if self.session.latest is not None:
            self._show_series(self.session.latest)

    def _show_series(self, frame: Frame) -> None:
        steps, values = self._samples.column(0), self._samples.column(-1)
        if not self._logarithmic:
            self.series.show([(steps, values), None])
            return
        growth = self._fitted(steps, values)
        ends = np.array([growth.first, growth.last]) if growth else np.empty(0)
        with np.errstate(divide="ignore"):  # 0 leaves a gap
            curve = np.log10(np.abs(values))
        self.series.show([(steps, curve), (ends, growth.log10(ends)) if growth else None])
        html = growth_html(growth, frame.facts)
        if html != self._growth.object:
            self._growth.object = html

    def _fitted(self, steps: NDArray[np.float64], values: NDArray[np.float64]) -> Growth | None:
        """Return the fit to the newest share of the samples of the current r and edges."""
        alike = steps >= self._since
        steps, values = steps[alike], values[alike]
        first = steps[-1] - self._share * (steps[-1] - steps[0]) if steps.size else 0.0
        return fitted_growth(steps[steps >= first], values[steps >= first])

    def samples(self) -> tuple[str, str]:
        """Return the name and the samples of "At the probe" as CSV: step, cell, value, the oldest first."""
        text = self._samples.csv(("step", "x_cell", "y_cell", "u"))
        return ("probe", text) if text else ("", "")

    def _remember(self, frame: Frame) -> None:
        facts = frame.facts
        cell = int(facts["probe_x"]), int(facts["probe_y"])
        self._samples.add((frame.notes["run"], cell), (facts["step"], *cell, facts["probe"]))
        scheme = (frame.notes["run"], facts["r"], self.session.confirmed["edges"])
        if scheme != self._scheme or facts["step"] < self._since:
            self._scheme, self._since = scheme, facts["step"]
