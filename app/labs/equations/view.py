"""The main area of the equations lab: the editor of the text, and two panels below it or next to it.

The first panel is a picture; the second one is a picture, or a plot of a field. While the editor is hidden, the
equations are typeset above the panels, or next to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose, nan, prod, sqrt

import panel as pn

from app.labs.equations.editor import LEAST_PAIR, SCROLLED, EquationEditor, least_height
from app.labs.equations.second_plot import SecondPlot
from app.labs.equations.typeset import STYLE, equation_lines, typeset
from app.labs.plain.parts import largest_scale
from app.page.markup import filled, plain
from app.page.theme import GRID, html_pane, letter, set_type, type_size
from app.tab.lab_view import Size
from app.tab.plot_words import rename
from app.tab.plots import RasterPlots, around, hex_colour
from app.tab.publisher import Publisher
from app.tab.raster_view import RUNS, RasterView, fixed_pane, part_of
from app.tab.session import Session
from compute.engine.shared_memory import MAX_PIXELS
from compute.lab.frames import Frame
from compute.labs.equations.lab import PANELS, Equations
from compute.labs.equations.programs import step_system
from compute.labs.equations.tree import System

PALETTES = {"field": "Viridis", "show": "Inferno"}
PLOT = "plot"  # name of the plot among the panels
HEADING = 36  # px of height
SMALLEST, SCANTIEST = 128, 16  # px of a picture: below, the colour bars are hidden; the second is its minimum
# Width and height of the editor in px, larger in presenter mode as its type is, and its share of the area.
LEAST_EDITOR, MOST_EDITOR, SHARE = (360, 200), (560, 340), (0.36, 0.32)
LEAST_PICTURES = (200, 200)  # px of width and height next to and below the editor; without, it covers the main area
TEXT_LINE = 1.5  # height of a line of the text, in type sizes
LINE, TALL = 40, 1.5  # px of height of a typeset equation; factor for one with a fraction or cases
MARGINS = 24  # px of width around typeset equations
MOST_SHARE = 0.3  # of the height, for typeset equations above the panels
LOW = 360  # px of height: lower windows show no typeset equations above the pictures, nor an editor instead of them
MOST_TITLE = 32  # characters of a colour bar's title
LEAST_PLOT, PLOT_SHARE = (300, 168), (0.3, 0.22)  # px of width and height of a plot, and share of the room, at least
NARROWEST, MOST_PLOT = 240, 320  # px of width of a plot below the picture at least, and of its height at most
WORTH = 1.15  # factor by which the picture must be larger with a plot next to it that is smaller than the one below it
FINER = 1.25  # pixels of a raster per px of its picture at most: 256 cells in 206 px are not reduced to 128
BOLD = 1.25  # width of a title's letter, in digits of the smallest size
TINY = 1e-9  # of a side: a smaller movement is rounding
WRAPPED = {"flex-wrap": "wrap", "align-content": "flex-start"}


@dataclass(frozen=True)
class Fit:
    """An arrangement of the panels.

    scale: px per cell; count: of the pictures; bar: whether they have colour bars; title: px of height of their titles;
    plot: (width, height) of the second panel's plot in px, None without it; below: whether it is below the picture.
    """

    scale: float
    count: int
    bar: bool
    title: int
    plot: Size | None = None
    below: bool = False


class EquationsView(RasterView):
    """Editor and pictures of one session, and their layout.

    applied: publishes each valid text that the user has typed, with its system.
    """

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.applied: Publisher[tuple[str, System]] = Publisher()
        self.editor = EquationEditor(
            session.document, session.values["text"], lambda text, system: self.applied.publish((text, system))
        )
        apart = hex_colour(Equations.APART)
        self.pictures = RasterPlots(
            tuple(PALETTES), PALETTES, apart=apart, tapped=self._probe, viewed=self.request_soon,
            unzoomed=self.unzoom, section_moved=self._move_section,
        )  # fmt: skip
        self.pictures.frames.serve(session)
        self.plot = SecondPlot()
        self._with_editor = True
        self._headings = dict.fromkeys((*PALETTES, PLOT), "")
        self._titles = {name: html_pane("<h2>\N{NO-BREAK SPACE}</h2>") for name in PALETTES}
        self._titles[PLOT] = html_pane("<h2>\N{NO-BREAK SPACE}</h2>")
        figures = {name: plot.figure for name, plot in self.pictures.plots.items()} | {PLOT: self.plot.curves.figure}
        self._panes = {name: fixed_pane(figure) for name, figure in figures.items()}
        self._columns = {
            name: pn.Column(self._titles[name], pane, margin=0, sizing_mode="fixed")
            for name, pane in self._panes.items()
        }
        self._equations = html_pane("", STYLE, sizing_mode="fixed", visible=False, styles=SCROLLED)
        self._equations_of = ""  # the text
        self._row = pn.Row(*self._columns.values(), margin=0, sizing_mode="fixed", styles=WRAPPED)
        self.panel = pn.Row(
            self.editor.panel, self._equations, self._row, margin=0, sizing_mode="fixed", styles=WRAPPED
        )
        session.frames.subscribe(self.show_frame)
        self.wait_for(*figures.values())
        self.show_whole()

    # -- layout

    @property
    def plotting(self) -> bool:
        """Whether the second panel is a plot. A second run takes its place."""
        return self.session.values["second_panel"] != PANELS[0] and not self.pictures.twice

    def show_panel(self) -> None:
        """Show the second panel that the session's values select."""
        self.place_probe()
        self.arrange()
        self.tick()

    def show_editor(self, shown: bool) -> None:
        """Show the editor, or the typeset equations in its place."""
        self._with_editor = shown
        self.arrange()

    def arrange(self) -> None:
        """Give the editor its share above the pictures, or next to them if that makes the pictures larger."""
        width, height = self.size
        larger = type_size(self.presenter) / type_size(False)
        across, above = (
            _part(side, larger * least, larger * most, share)
            for side, least, most, share in zip(self.size, LEAST_EDITOR, MOST_EDITOR, SHARE, strict=True)
        )
        line = round(TEXT_LINE * type_size(self.presenter))
        if self.plotting and width < LEAST_PAIR:  # a phone
            above = least_height(line)
        rooms = [(width - across, height), (width, height - above)]
        fitting = [
            room for room in rooms if all(side >= least for side, least in zip(room, LEAST_PICTURES, strict=True))
        ]
        editing = self._with_editor and not self.alone and (bool(fitting) or height >= LOW)
        if editing and fitting:
            room = max(fitting, key=lambda each: self._fit(each).scale)
            editor = (across, height) if room[0] < width else (width, above)
        else:
            editor, room = (self.size, self.size) if editing else self._beside_equations(across)
        self.panel.param.update(width=width, height=height)
        self.editor.panel.visible = editing
        self._equations.param.update(visible=not editing and editor[1] > 0, width=editor[0], height=max(editor[1], 1))
        if editing:
            self.editor.resize(*editor, line)
        self._row.visible = bool(fitting) or not editing or not self.drawn  # a hidden plot is never drawn
        self._arrange_pictures(room)

    def _beside_equations(self, across: int) -> tuple[Size, Size]:
        """Return the size of the typeset equations, and the room that they leave to the panels.

        They are above the panels, or next to them, at most `across` px wide, if that makes the pictures larger.
        """
        width, height = self.size
        if height < LOW or self.alone:
            return (width, 0), self.size
        lines = equation_lines(step_system(self.editor.system))
        rows = sum(TALL if line.is_tall else 1.0 for line in lines)
        # a typeset equation is narrower than its text
        across = min(across, int(max(len(line.words) for line in lines) * letter(self.presenter)) + MARGINS)
        above = int(min(rows * LINE * type_size(self.presenter) / type_size(False), MOST_SHARE * height))
        places = [((width, above), (width, height - above))]
        if width - across >= LEAST_PICTURES[0]:
            places.append(((across, height), (width - across, height)))
        return max(places, key=lambda place: self._fit(place[1]).scale)

    def _fit(self, room: Size) -> Fit:
        """Return how the panels fit into `room`.

        If the pictures are too small, they have no colour bars; then there are no titles; then only the first picture.
        """
        (ny, nx), plotting = self.shape, self.plotting and not self.alone
        every = 1 if plotting or self.alone else len(PALETTES)
        stages = [(every, plotting, True, HEADING), (every, plotting, False, HEADING), (1, False, False, 0)]
        if plotting:
            stages.insert(2, (1, True, False, 0))
        fits = (self._fit_stage(room, *stage) for stage in stages)
        found = next(fits)
        while found.scale * max(nx, ny) < SMALLEST and (smaller := next(fits, None)) is not None:
            found = smaller
        return found

    def _fit_stage(self, room: Size, count: int, plotting: bool, bar: bool, title: int) -> Fit:
        """Return the fit with these parts and the largest pictures."""
        ny, nx = self.shape
        wider, higher = around(self.presenter, bar)
        margins = wider + GRID, higher + GRID + title

        def scale(across: int, down: int) -> float:
            """Return the px per cell if the plot takes these px of width and height."""
            return largest_scale(count, (room[0] - across, room[1] - down), (nx, ny), margins)

        if not plotting:
            return Fit(scale(0, 0), count, bar, title)
        across, down = (
            max(least, int(share * side)) for side, least, share in zip(room, LEAST_PLOT, PLOT_SHARE, strict=True)
        )
        beside, below = scale(across + GRID, 0), scale(0, down + GRID + title)
        width, height = int(nx * below) + wider, int(ny * below) + higher  # of the picture with its axes
        left = room[1] - height - 2 * (GRID + title)
        under = min(max(width, NARROWEST), room[0] - GRID), min(left, height, max(down, MOST_PLOT))
        width, height = int(nx * beside) + wider, int(ny * beside) + higher
        across = min(room[0] - width - 2 * GRID, width)
        aside = across, min(max(down, min(height, across)), room[1] - GRID - title)
        if beside >= (below if prod(aside) > prod(under) else WORTH * below):
            return Fit(beside, count, bar, title, aside)
        return Fit(below, count, bar, title, under, below=True)

    def _arrange_pictures(self, room: Size) -> None:
        """Arrange the panels in as many rows as make the pictures largest."""
        (ny, nx), fit = self.shape, self._fit(room)
        size = max(SCANTIEST, int(nx * fit.scale)), max(SCANTIEST, int(ny * fit.scale))
        for number, (name, plot) in enumerate(self.pictures.plots.items()):
            plot.resize(*size, self.presenter, fit.bar)
            self._arrange_panel(name, number < fit.count, fit.title)
        self.plot.curves.figure.update(**dict(zip(("width", "height"), fit.plot or LEAST_PLOT, strict=True)))
        self._arrange_panel(PLOT, fit.plot is not None, fit.title)
        if fit.below:  # as wide as the row, so that it wraps below the picture
            self._columns[PLOT].width = room[0]
        self._row.param.update(width=room[0], height=max(room[1], 1))
        # a 4K screen has more pixels than the limit of a frame
        sharp = min(FINER, sqrt(MAX_PIXELS / (size[0] * size[1])))
        self.session.set_view(self.pictures.view, (int(size[1] * sharp), int(size[0] * sharp)))

    def _arrange_panel(self, name: str, shown: bool, title: int) -> None:
        """Show or hide a panel, with the size of its figure. title: px of height of its title, 0 for none."""
        pane, column = self._panes[name], self._columns[name]
        figure = pane.object
        column.visible = figure.visible = shown or not self.drawn  # a hidden plot is never drawn
        self._titles[name].visible = title > 0
        pane.param.update(width=figure.width, height=figure.height)
        column.param.update(width=figure.width + GRID, height=figure.height + GRID + title)

    def apply_theme(self) -> None:
        """Apply fonts to the plots, and colours to the curve."""
        self.plot.curves.set_theme(self.dark)
        for pane in self._panes.values():
            set_type(pane.object, self.presenter)

    # -- the visible part

    def show_whole(self) -> None:
        """Show the whole grid after its shape has changed."""
        self.pictures.whole(self.shape)
        self.place_probe()
        self.arrange()

    # -- the probe

    def place_probe(self) -> None:
        """Draw the probe, and the section through it, if the second panel shows their values."""
        values, (ny, nx) = self.session.values, self.shape
        kind, place = values["second_panel"], (values["probe_x"] * nx, values["probe_y"] * ny)
        shown = kind in ("profile", "probe")
        along_row = values["section"] == "horizontal"
        self.pictures.place(values["section"], place[1] if along_row else place[0], place if shown else (nan, nan))
        self.pictures.show_section(kind == "profile")

    def _probe(self, x: float, y: float) -> None:
        """Move the probe to a clicked place, in cells."""
        if self.session.values["second_panel"] in ("profile", "probe"):
            ny, nx = self.shape
            self.session.change(probe_x=part_of(x, nx), probe_y=part_of(y, ny))
            self.place_probe()

    def _move_section(self, location: float) -> None:
        """Move the probe with the dragged section line, which is at `location` in cells."""
        values, (ny, nx) = self.session.values, self.shape
        name, cells = ("probe_y", ny) if values["section"] == "horizontal" else ("probe_x", nx)
        if not isclose(location / cells, values[name], abs_tol=TINY):  # it was dragged
            self.session.change(**{name: part_of(location, cells)})
            self.pictures.place_probe((values["probe_x"] * nx, values["probe_y"] * ny))

    def samples(self) -> tuple[str, str]:
        """Return the name and the samples of the second panel's plot as CSV, else those of the probe; see LabView."""
        return self.plot.csv(self.session.values["second_panel"])

    # -- frames

    def tick(self) -> None:
        """Update headings, colour bars, curve and equations, a few times a second."""
        frame = self.session.latest
        if self._equations.visible and self._equations_of != self.editor.text:
            self._equations_of = self.editor.text
            self._equations.object = typeset(step_system(self.editor.system))
            self.arrange()
        if frame is None or not self.drawn:
            return
        self.pictures.scale(frame.rasters)
        self.plot.record(frame)
        if self.plotting:
            self.plot.show(frame, self.session.values)
        self._head(frame)

    def _head(self, frame: Frame) -> None:
        """Show the content of each panel: a field, an expression, or the quantity of the plot; and what is grey."""
        labels = {name: raster.label for name, raster in self.pictures.shown(frame.rasters).items()}
        heads = {name: f"{run}: {labels[name]}" for name, run in zip(labels, RUNS, strict=True)}
        heads = heads if self.pictures.twice else labels
        digit = letter(self.presenter)
        for name, label in {**heads, PLOT: self.plot.title}.items():
            title = plain(label, int(self._panes[name].width / (BOLD * digit)))
            if title != self._headings[name]:
                self._headings[name] = title
                self._titles[name].object = filled("<h2>{title}</h2>", title=title)
        apart = "not finite" if frame.facts["nonfinite"] else "wall"
        for plot in self.pictures.plots.values():
            if plot.apart.text != apart:
                plot.apart.text = apart
        for name, plot in self.pictures.plots.items():
            title = plain(labels[name], max(1, min(MOST_TITLE, int(plot.figure.frame_width / digit))))
            if plot.bar is not None and plot.bar.title != title:
                plot.bar.title = title
                rename(plot.figure)


def _part(whole: int, least: float, most: float, share: float) -> int:
    """Return a share of `whole` between `least` and `most`."""
    return round(min(most, max(least, share * whole)))
