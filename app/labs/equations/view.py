"""The main area of the equations lab: the editor of the text, and two pictures below it or next to it.

While the editor is hidden, the equations are typeset above the pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt

import panel as pn

from app.labs.equations.editor import EquationEditor
from app.labs.equations.typeset import STYLE, typeset
from app.labs.plain.parts import largest_scale
from app.page.markup import filled, plain
from app.page.theme import GRID, html_pane, set_type, type_size
from app.tab.lab_view import Size
from app.tab.plots import RasterPlots, around
from app.tab.publisher import Publisher
from app.tab.raster_view import RasterView, fixed_pane
from app.tab.session import Session
from compute.engine.shared_memory import MAX_PIXELS
from compute.lab.frames import Frame
from compute.labs.equations.lab import Equations
from compute.labs.equations.tree import System

PALETTES = {"field": "Viridis", "show": "Inferno"}
HEADING = 36  # px of height
SMALLEST, SCANTIEST = 128, 16  # px of a picture: below, the colour bars are hidden; the second is its minimum
# Width and height of the editor in px, larger in presenter mode as its type is, and its share of the area.
LEAST_EDITOR, MOST_EDITOR, SHARE = (360, 200), (560, 340), (0.36, 0.38)
LEAST_PICTURES = (200, 200)  # px of width and height next to and below the editor; without, it covers the main area
TEXT_LINE = 1.5  # height of a line of the text, in type sizes
LINE, MOST_SHARE = 40, 0.3  # px of height of a typeset equation; share of the height, for all of them
LOW = 360  # px of height: lower windows show no typeset equations above the pictures, nor an editor instead of them
MOST_TITLE = 32  # characters of a colour bar's title
WRAPPED = {"flex-wrap": "wrap", "align-content": "flex-start"}


@dataclass(frozen=True)
class Fit:
    """An arrangement of the pictures. scale: px per cell; count: of the pictures; bar: colour bars; title: its px."""

    scale: float
    count: int
    bar: bool
    title: int


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
        apart = "#{:02x}{:02x}{:02x}".format(*Equations.APART)
        self.pictures = RasterPlots(
            tuple(PALETTES), PALETTES, apart=apart, viewed=self.request_soon, unzoomed=self.unzoom
        )
        self.pictures.frames.serve(session)
        self.pictures.place("horizontal", nan, (nan, nan))
        self.pictures.show_section(False)
        self._with_editor = True
        self._headings = dict.fromkeys(PALETTES, "")
        self._titles = {name: html_pane("<h2>\N{NO-BREAK SPACE}</h2>") for name in PALETTES}
        self._panes = {name: fixed_pane(plot.figure) for name, plot in self.pictures.plots.items()}
        self._columns = {
            name: pn.Column(self._titles[name], pane, margin=0, sizing_mode="fixed")
            for name, pane in self._panes.items()
        }
        self._equations = html_pane("", STYLE, sizing_mode="fixed", visible=False)
        self._equations_of = ""  # the text
        self._row = pn.Row(*self._columns.values(), margin=0, sizing_mode="fixed", styles=WRAPPED)
        self.panel = pn.Row(
            self.editor.panel, self._equations, self._row, margin=0, sizing_mode="fixed", styles=WRAPPED
        )
        session.frames.subscribe(lambda frame: self.pictures.show(frame.number, frame.rasters))
        self.wait_for(*(plot.figure for plot in self.pictures.plots.values()))
        self.show_whole()

    # -- layout

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
        rooms = [(width - across, height), (width, height - above)]
        fitting = [
            room for room in rooms if all(side >= least for side, least in zip(room, LEAST_PICTURES, strict=True))
        ]
        editing = self._with_editor and not self.alone and (bool(fitting) or height >= LOW)
        if editing and fitting:
            room = max(fitting, key=lambda each: self._fit(each).scale)
            editor = (across, height) if room[0] < width else (width, above)
        else:
            equations = 0 if editing else self._height(height)
            editor, room = (width, height if editing else equations), (width, height - equations)
        self.panel.param.update(width=width, height=height)
        self.editor.panel.visible = editing
        self._equations.param.update(visible=not editing and editor[1] > 0, width=width, height=max(editor[1], 1))
        if editing:
            self.editor.resize(*editor, round(TEXT_LINE * type_size(self.presenter)))
        self._row.visible = bool(fitting) or not editing or not self.drawn  # a hidden plot is never drawn
        self._arrange_pictures(room)

    def _height(self, height: int) -> int:
        """Return the px of height for the equations above the pictures."""
        if height < LOW or self.alone:
            return 0
        system = self.editor.system
        return int(min(LINE * (len(system.rates) + len(system.named)), MOST_SHARE * height))

    def _fit(self, room: Size) -> Fit:
        """Return how the pictures fit into `room`: without colour bars, then only the first, if they are too small."""
        ny, nx = self.shape
        every = 1 if self.alone else len(PALETTES)
        for count, bar, title in ((every, True, HEADING), (every, False, HEADING), (1, False, 0)):
            wider, higher = around(self.presenter, bar)
            scale = largest_scale(count, room, (nx, ny), (wider + GRID, higher + GRID + title))
            if scale * max(nx, ny) >= SMALLEST:
                break
        return Fit(scale, count, bar, title)

    def _arrange_pictures(self, room: Size) -> None:
        """Arrange the pictures in as many rows as make them largest."""
        (ny, nx), fit = self.shape, self._fit(room)
        size = max(SCANTIEST, int(nx * fit.scale)), max(SCANTIEST, int(ny * fit.scale))
        for number, (name, plot) in enumerate(self.pictures.plots.items()):
            self._columns[name].visible = plot.figure.visible = number < fit.count or not self.drawn
            self._titles[name].visible = fit.title > 0
            plot.resize(*size, self.presenter, fit.bar)
            outer = plot.figure.width, plot.figure.height
            self._panes[name].param.update(width=outer[0], height=outer[1])
            self._columns[name].param.update(width=outer[0] + GRID, height=outer[1] + GRID + fit.title)
        self._row.param.update(width=room[0], height=max(room[1], 1))
        sharp = min(
            1.0, sqrt(MAX_PIXELS / (size[0] * size[1]))
        )  # a 4K screen has more pixels than the limit of a frame
        self.session.set_view(self.pictures.view, (int(size[1] * sharp), int(size[0] * sharp)))

    def apply_theme(self) -> None:
        """Apply fonts to the plots."""
        for plot in self.pictures.plots.values():
            set_type(plot.figure, self.presenter)

    # -- the visible part

    def show_whole(self) -> None:
        """Show the whole grid after its shape has changed."""
        self.pictures.whole(self.shape)
        self.arrange()

    # -- frames

    def tick(self) -> None:
        """Update headings, colour bars and equations, a few times a second."""
        frame = self.session.latest
        if self._equations.visible and self._equations_of != self.editor.text:
            self._equations_of = self.editor.text
            self._equations.object = typeset(self.editor.system)
            self.arrange()
        if frame is None or not self.drawn:
            return
        self.pictures.scale(frame.rasters)
        self._head(frame)

    def _head(self, frame: Frame) -> None:
        """Show what each picture shows: the name of a field, or an expression; and the meaning of cells in grey."""
        apart = "not finite" if frame.facts["nonfinite"] else "wall"
        for plot in self.pictures.plots.values():
            if plot.apart.text != apart:
                plot.apart.text = apart
        for name, raster in frame.rasters.items():
            if raster.label != self._headings.get(name, raster.label):
                self._headings[name] = raster.label
                self._titles[name].object = filled("<h2>{label}</h2>", label=raster.label)
                bar = self.pictures.plots[name].bar
                if bar is not None:
                    bar.title = plain(raster.label, MOST_TITLE)


def _part(whole: int, least: float, most: float, share: float) -> int:
    """Return a share of `whole` between `least` and `most`."""
    return round(min(most, max(least, share * whole)))
