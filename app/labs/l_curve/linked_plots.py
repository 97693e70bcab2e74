"""The row of plots below the L-curve: the solution, then as many linked views as fit the width.

The solution is a line with the true one, or up to three pictures: solution, kept solution, truth. A plot is created
when it is first shown, and changed only after the browser has laid it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document
from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    LinearAxis,
    LinearColorMapper,
    NoOverlap,
    Range1d,
)

from app.labs.l_curve.labels import LambdaNotation
from app.labs.l_curve.linked_view import VIEWS, LinkedPlot
from app.page.explain import term
from app.page.markup import filled, plain
from app.page.theme import GRID, SHORT_NUMBER, heading, keep_type, set_type
from app.server.builder import builder
from app.tab.curve_plots import CurvePlot
from app.tab.plots import ImagePlot, levels_mapper
from app.tab.stream import FirstDraw
from app.upstream.plot_pane import PlotPane
from compute.lab.frames import NOT_FINITE, TOP_LEVEL, Curve, Frame, Raster

COLOURS = "Viridis"
KEPT, TRUTH = "kept", "truth"
CAPTIONS = {"solution": "Solution", KEPT: "Kept", TRUTH: "True picture"}  # in display order
AXES = ("column [pixels]", "row [pixels]")
VALUES = "grey value"  # label of the colour bar
GAP = 12  # px to the right of a picture and above it, for half of a tick label
AXIS = {False: (58, 56), True: (74, 74)}  # px left of the first picture, and below each, for axes with titles
BAR = {False: 84, True: 108}  # px right of the last picture, for the colour bar with its labels and title
BAR_WIDE, BAR_LABEL = 12, 6  # px
LEGIBLE = {False: 104, True: 150}  # px of a picture; below, the titles of its axes would be wider than the picture


def same_colours(raster: Raster, low: float, high: float) -> Raster:
    """Return the picture with levels rescaled to the range from `low` to `high`."""
    if raster.span == (low, high):
        return raster
    values = raster.low + raster.levels / TOP_LEVEL * (raster.high - raster.low)
    levels = np.clip(np.rint((values - low) / ((high - low) or 1.0) * TOP_LEVEL), 0, TOP_LEVEL).astype(np.uint8)
    levels[raster.levels == NOT_FINITE] = NOT_FINITE
    return replace(raster, levels=levels, low=low, high=high)


class SolutionPicture:
    """A picture of the solution, the kept solution or the truth; all use the same colour mapping of levels.

    The first picture of a row has a y axis. The truth, the last one, has the colour bar; `values` maps its limits.
    """

    def __init__(self, name: str, mapper: Any) -> None:
        blank = np.full((1, 1), NOT_FINITE, np.uint8)
        self.source = ColumnDataSource({name: [blank], "x": [0.0], "y": [0.0], "dw": [1.0], "dh": [1.0]})
        self.source.name = f"l-curve {name}"
        self.plot = ImagePlot(name, self.source, Range1d(0, 1), Range1d(0, 1), mapper, frame_align=False)
        self.name, self.figure = name, self.plot.figure
        self.plot.name_axes(*AXES)
        self.figure.axis.major_label_policy = NoOverlap(min_distance=8)
        self.values = LinearColorMapper(palette=mapper.palette, low=0.0, high=1.0)
        self.bar: list[Any] = self._add_bar() if name == TRUTH else []
        keep_type(self.figure)
        self._raster: Raster | None = None

    def _add_bar(self) -> list[Any]:
        """Add and return the colour bar on the right, and an axis without ticks for its title."""
        title = LinearAxis(
            ticker=FixedTicker(ticks=[]), axis_line_color=None, axis_label=VALUES, axis_label_text_font_style="normal",
            axis_label_standoff=2,
        )  # fmt: skip
        bar = ColorBar(
            color_mapper=self.values, ticker=BasicTicker(desired_num_ticks=4), width=BAR_WIDE, padding=6,
            label_standoff=BAR_LABEL, bar_line_color=None,
            formatter=CustomJSTickFormatter(code=SHORT_NUMBER),
        )  # fmt: skip
        for one in (bar, title):
            self.figure.add_layout(one, "right")
        return [bar, title]

    def show(self, raster: Raster | None) -> None:
        """Draw a changed picture; ignore None."""
        if raster is None or raster is self._raster:
            return
        x0, y0, x1, y1 = raster.extent
        if self._raster is None or raster.extent != self._raster.extent:
            self.figure.x_range.update(start=x0, end=x1)
            self.figure.y_range.update(start=y0, end=y1)
        self._raster = raster
        if (self.values.low, self.values.high) != raster.span:
            self.values.update(low=raster.low, high=raster.high)
        self.source.data = {self.name: [raster.levels], "x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0]}

    def resize(self, place: PicturePlace, first: bool, presenter: bool) -> tuple[int, int]:
        """Set the side of the square picture; first: whether to show the y axis. Return the px of the whole figure."""
        full, (left, below) = not place.bare, AXIS[presenter]
        left, below = left if first and full else GAP, below if full else GAP
        right = BAR[presenter] if self.bar and full else GAP
        self.figure.xaxis.visible, self.figure.left[0].visible = full, first and full
        for one in self.bar:
            one.visible = full
        borders = {"left": left, "right": right, "top": GAP, "bottom": below}
        width, height = place.side + left + right, place.side + GAP + below
        self.figure.update(
            width=width, height=height, frame_width=place.side, frame_height=place.side,
            **{f"min_border_{side}": px for side, px in borders.items()},
        )  # fmt: skip
        return width, height


@dataclass(frozen=True)
class PicturePlace:
    """The size of pictures in a row: squares of `side` px; bare: without axes and colour bar."""

    side: int
    bare: bool

    @classmethod
    def within(cls, width: int, height: int, count: int, presenter: bool) -> PicturePlace:
        """Return the size of the largest `count` pictures in a row of width x height px."""
        left, below = AXIS[presenter]
        around = left + BAR[presenter] + (2 * count - 2) * GAP
        side = min((width - around) // count, height - GAP - below)
        if side >= LEGIBLE[presenter]:
            return cls(side, False)
        return cls(max(LEAST, min(width // count, height) - 2 * GAP), True)

    def across(self, count: int, presenter: bool) -> int:
        """Return the px of the whole row."""
        around = 2 * GAP if self.bare else AXIS[presenter][0] + BAR[presenter]
        return count * self.side + around + (2 * count - 2) * GAP


@dataclass(frozen=True)
class KeptSolution:
    """A solution kept for comparison with later ones: its λ, and its line or its picture."""

    lam: float
    curve: Curve | None
    raster: Raster | None


class SolutionPlots:
    """The solution for the current λ, as a line with the true one or as pictures.

    kept: solution for another λ for comparison, or None.
    """

    def __init__(self) -> None:
        self.line = CurvePlot("t", "x(t)", ("solution", "true", "kept"))
        self.kept: KeptSolution | None = None
        self.line.figure.update(name="solution line", sizing_mode="fixed")
        for source, name in zip(self.line.sources, ("solution", "truth", "kept"), strict=True):
            source.name = f"l-curve {name} line"
        self.line.show([None, None, None])  # until the first frame
        self._mapper = levels_mapper(COLOURS)
        self._pictures: dict[str, SolutionPicture] = {}

    def picture(self, name: str) -> SolutionPicture:
        """Return a picture, which is created on first use."""
        if name not in self._pictures:
            self._pictures[name] = SolutionPicture(name, self._mapper)
        return self._pictures[name]

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size."""
        self.line.set_theme(dark)
        set_type(self.line.figure, presenter)

    def parts(self, frame: Frame) -> tuple[str, ...]:
        """Return the names of the plots for a frame: "line", or the pictures in order."""
        if not frame.rasters:
            return ("line",)
        kept = self.kept is not None and self.kept.raster is not None
        return tuple(name for name in CAPTIONS if name != KEPT or kept)

    def show(self, frame: Frame, drawn: Sequence[str]) -> None:
        """Draw the frame's solution, and the truth if known, in the plots that the browser has `drawn`."""
        for name in CAPTIONS:
            if name in drawn:
                self.picture(name).show(self._raster(frame, name))
        if "line" in drawn:
            kept = self.kept.curve if self.kept is not None else None
            curves = [frame.curves.get("solution"), frame.curves.get("truth"), kept]
            self.line.show([(c.x, c.y) if c is not None else None for c in curves])

    def _raster(self, frame: Frame, name: str) -> Raster | None:
        """Return the picture `name`; the kept one with the colour range of the current solution."""
        if name != KEPT:
            return frame.rasters.get(name)
        kept = self.kept.raster if self.kept is not None else None
        present = frame.rasters.get("solution")
        return same_colours(kept, *present.span) if kept is not None and present is not None else kept


NARROWEST = {False: 312, True: 400}  # px of a small plot, by presenter mode
MOST_VIEWS = 4  # maximum of visible views
SQUEEZED = {False: 240, True: 320}  # px of a view next to pictures in a narrow row
LEAST = 64  # px of a picture
HEADING = {False: 28, True: 34}  # px
NARROW = {"& .MuiToggleButton-root": {"whiteSpace": "nowrap", "padding": "4px 8px", "lineHeight": 1.2}}
FIRST = ("curvature", "picard", "error", "gcv")


class LinkedPlots:
    """The row and the buttons that select its views, which are created when they are first shown."""

    def __init__(self, document: Document, picked: Callable[[float], None]) -> None:
        self._document, self._picked = document, picked
        self.solution = SolutionPlots()
        self.views: dict[str, LinkedPlot] = {}
        self.recent = list(FIRST)
        self._columns: dict[str, pn.Column] = {}
        self._captions: dict[str, Any] = {}
        self._first_draw = FirstDraw()
        self._theme: tuple[bool, bool] = (False, False)  # dark, presenter
        self._size = (656, 240)
        self._room = 1
        self._lam: float | None = None
        self._notation = LambdaNotation()
        self._frame: Frame | None = None
        self._build()

    def _build(self) -> None:
        self._all_parts: tuple[str, ...] = ("line",)  # plots of the solution
        self._parts: tuple[str, ...] = self._all_parts  # those for which there is room
        self._bare = False  # whether pictures have neither axes nor long headings
        self.row = pn.Row(margin=0, sizing_mode="fixed")
        self.chooser = pmui.CheckButtonGroup(
            options={view.title: name for name, view in VIEWS.items()},
            value=[],
            size="small",
            margin=(0, 8, 0, 24),
            sx=NARROW,
        )
        self.chooser.param.watch(lambda event: self._chosen(list(event.new)), "value")

    def _add(self, name: str, title: str, figure: Any) -> None:
        pane = PlotPane(figure, margin=0)
        self._captions[name] = heading(title)
        self._columns[name] = pn.Column(
            self._captions[name], pane, margin=0, sizing_mode="fixed", width=NARROWEST[False], height=240
        )
        self._first_draw.wait(figure, partial(self._fill, name))

    def _is_drawn(self, name: str) -> bool:
        return name in self._columns and self._figure(name) not in self._first_draw.pending

    def _fill(self, name: str) -> None:
        """Update a plot after its first draw in the browser."""
        if name in self.views:
            self.views[name].set_theme(*self._theme)
            self.views[name].set_notation(self._notation)
            self.views[name].mark(self._lam)
        if name in CAPTIONS:
            set_type(self._figure(name), self._theme[1])
        if not self._first_draw.pending:
            self._arrange()
            if self._frame is not None:
                self.show_solution(self._frame)  # a finished curve sends no further frame

    # -- selecting views

    @property
    def shown(self) -> list[str]:
        """The names of the visible views."""
        return self.recent[: self._room]

    def _chosen(self, names: list[str]) -> None:
        """Put a newly pressed view first; a visible view cannot be switched off."""
        added = [name for name in names if name not in self.shown]
        if added:
            self.recent = [*added, *(name for name in self.recent if name not in added)]
            self._document.add_next_tick_callback(self._arrange)
        elif set(names) != set(self.shown):
            self.chooser.value = self._in_order()

    def _in_order(self) -> list[str]:
        return [name for name in VIEWS if name in self.shown]

    def drawn_views(self) -> list[LinkedPlot]:
        """Return the visible views that the browser has drawn."""
        return [self.views[name] for name in self.shown if name in self.views and self._is_drawn(name)]

    # -- layout

    @property
    def figures(self) -> list[Any]:
        """The existing plots."""
        return [self._figure(name) for name in self._columns]

    def resize(self, width: int, height: int) -> None:
        """Set the size in px, including headings."""
        self._size = (width, height)
        self._arrange()

    @property
    def _imaged(self) -> bool:
        return self._parts != ("line",)

    def _plan(self) -> None:
        """Compute the number of views that fit, and start creating missing ones."""
        cells = max(1, self._size[0] // NARROWEST[self._theme[1]])
        self._parts = self._fitting()
        count = len(self._parts)
        squeezed = 1 if self._imaged and cells == count else 0
        self._room = min(MOST_VIEWS, max(cells - count, squeezed))
        if self._missing():
            builder().queue_or_call(self._document, self._make_missing)
        self.chooser.value = self._in_order()

    def _fitting(self) -> tuple[str, ...]:
        """Return the legible plots of the solution: in a small space the kept picture replaces the true one."""
        (width, height), presenter = self._size, self._theme[1]
        room = width - GRID, height - HEADING[presenter]
        if KEPT in self._all_parts and PicturePlace.within(*room, len(self._all_parts), presenter).bare:
            return tuple(name for name in self._all_parts if name != TRUTH)
        return self._all_parts

    def _missing(self) -> list[str]:
        """Return the names of plots to be shown that do not exist."""
        return [name for name in (*self._parts, *self.shown) if name not in self._columns]

    def _make_missing(self) -> None:
        """Create missing plots, about 40 ms each; `_fill` sets their size after the first draw."""
        missing = self._missing()
        for name in missing:
            self._make(name)
        if missing:
            self.row.objects = self._order()

    def _make(self, name: str) -> None:
        """Create a plot that is shown for the first time."""
        if name in VIEWS:
            self.views[name] = LinkedPlot(name, VIEWS[name], self._document, self._picked)
        if name in CAPTIONS:
            self.solution.picture(name).resize(PicturePlace(LEAST, True), False, self._theme[1])
        title = VIEWS[name].title if name in VIEWS else CAPTIONS.get(name, "Solution")
        self._add(name, title, self._figure(name))
        if name == KEPT:
            self._name_kept()

    def _arrange(self) -> None:
        """Give pictures the width that their height allows, and views the rest; a line is as wide as a view."""
        (width, height), presenter = self._size, self._theme[1]
        self._plan()
        inner = height - HEADING[presenter]
        visible_names = (*self._parts, *self.shown)
        for name, column in self._columns.items():
            if self._is_drawn(name):
                self._figure(name).visible = column.visible = name in visible_names
        cell = (width - GRID) // (self._room + 1)
        if self._imaged:
            count = len(self._parts)
            least = SQUEEZED[presenter] if width < (count + self._room) * NARROWEST[presenter] else NARROWEST[presenter]
            place = PicturePlace.within(width - GRID - self._room * least, inner, count, presenter)
            if place.bare != self._bare:
                self._bare = place.bare
                self._name_kept()
            cell = (width - GRID - place.across(count, presenter)) // max(1, self._room)
            for name in self._parts:
                if self._is_drawn(name):
                    size = self.solution.picture(name).resize(place, name == self._parts[0], presenter)
                    self._give(name, *size)
        for name in visible_names:
            if name in self._columns and name not in CAPTIONS:
                self._place(name, cell, inner)

    def _order(self) -> list[Any]:
        names = ("line", *CAPTIONS, *VIEWS)
        return [self._columns[name] for name in names if name in self._columns]

    def _figure(self, name: str) -> Any:
        if name in self.views:
            return self.views[name].figure
        return self.solution.line.figure if name == "line" else self.solution.picture(name).figure

    def _place(self, name: str, width: int, height: int) -> None:
        if not self._is_drawn(name):
            return
        width, height = max(120, width), max(96, height)
        if name in self.views:
            self.views[name].resize(width, height)
            self.views[name].mark(self._lam)  # λ may have changed while the view was hidden
        else:
            self.solution.line.figure.update(width=width, height=height)
        self._give(name, width, height)

    def _give(self, name: str, width: int, height: int) -> None:
        """Set the size of a plot's pane and column in px."""
        self._columns[name].objects[1].param.update(width=width, height=height)
        self._columns[name].param.update(width=width, height=height + HEADING[self._theme[1]])

    # -- theme

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size."""
        self._theme = (dark, presenter)
        self.solution.set_theme(dark, presenter)
        for name in CAPTIONS:
            if self._is_drawn(name):
                set_type(self._figure(name), presenter)
        for name, view in self.views.items():
            if self._is_drawn(name):
                view.set_theme(dark, presenter)

    def set_notation(self, notation: LambdaNotation) -> None:
        """Write λ or α in every view."""
        self._notation = notation
        for view in self.views.values():
            view.set_notation(notation)
        self._name_kept()

    # -- frames

    def show_solution(self, frame: Frame) -> None:
        """Draw the solution of the latest frame."""
        self._frame = frame
        parts = self.solution.parts(frame)
        if parts != self._all_parts:
            self._all_parts = parts
            self._arrange()
        self.solution.show(frame, [name for name in self._parts if self._is_drawn(name)])

    def keep(self, kept: bool) -> None:
        """Keep the current solution for comparison with later ones, or discard it."""
        frame, self.solution.kept = self._frame, None
        if kept and frame is not None:
            self.solution.kept = KeptSolution(
                frame.facts["lam"], frame.curves.get("solution"), frame.rasters.get("solution")
            )
        self._name_kept()
        if frame is not None:
            self.show_solution(frame)

    def _name_kept(self) -> None:
        """Write the λ of the kept picture above it."""
        kept = self.solution.kept
        if kept is not None and KEPT in self._captions:
            words = self._notation.words(kept.lam)
            self._say(KEPT, f"{CAPTIONS[KEPT]}, {words}", words if self._bare else "")

    def show_views(self, frame: Frame, rules: dict[str, float]) -> None:
        """Draw the linked views of the latest frame, and the λ of each rule."""
        for view in self.drawn_views():
            shown = view.show(frame)
            view.mark_rules(rules)
            self._caption(view.name, "" if shown else view.view.absent)

    def _caption(self, name: str, remark: str) -> None:
        self._say(name, VIEWS[name].title if not remark else f"{VIEWS[name].title}: {remark}")

    def _say(self, name: str, words: str, short: str = "") -> None:
        """Write `words` above a plot; in a small space `short`, with `words` as its explanation."""
        said = filled("{said}", said=short or words)
        html = f"<h2>{term(said, plain(words), name) if short else said}</h2>"
        if self._captions[name].object != html:
            self._captions[name].object = html

    def mark(self, lam: float | None) -> None:
        """Mark the picked λ in all views."""
        if lam != self._lam:
            self._lam = lam
            for view in self.drawn_views():
                view.mark(lam)

    def forget(self, kept: bool = True) -> None:
        """Reset the axes and, with `kept`, the kept solution; called when the problem or the penalty changes."""
        if kept:
            self.solution.kept = None
        for view in self.views.values():
            view.forget()
