"""The row of plots below the L-curve: the solution first, then as many linked views as the width holds.

The solution is a line against the true one, or two pictures. A plot is made when it is first shown, and is changed only
after the browser has laid it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document
from bokeh.models import ColumnDataSource, Range1d

from app.builder import builder
from app.curve_plots import CurvePlot
from app.labs.l_curve.labels import LambdaNotation
from app.labs.l_curve.linked_view import VIEWS, LinkedPlot
from app.markup import filled
from app.plots import ImagePlot, levels_mapper
from app.stream import FirstDraw
from app.theme import GRID, heading, set_type
from compute.frames import NOT_FINITE, Curve, Frame

COLOURS = "Viridis"
CAPTIONS = {"solution": "Solution", "truth": "True picture"}
LEFT, BORDER = 24, 8  # px at the left of a picture, as its heading, and around it


class SolutionPicture:
    """The solution or the truth as a picture; both share the colours of levels."""

    def __init__(self, name: str, mapper: Any) -> None:
        blank = np.full((1, 1), NOT_FINITE, np.uint8)
        self.source = ColumnDataSource({name: [blank], "x": [0.0], "y": [0.0], "dw": [1.0], "dh": [1.0]})
        self.source.name = f"l-curve {name}"
        borders = {f"min_border_{side}": BORDER for side in ("right", "top", "bottom")} | {"min_border_left": LEFT}
        self.plot = ImagePlot(name, self.source, Range1d(0, 1), Range1d(0, 1), mapper, frame_align=False, **borders)
        self.name, self.figure = name, self.plot.figure
        self.figure.axis.visible = False
        self._extent = (0.0, 0.0, 1.0, 1.0)

    def show(self, frame: Frame) -> bool:
        """Draw the frame's picture; False if it has none."""
        raster = frame.rasters.get(self.name)
        if raster is None:
            return False
        x0, y0, x1, y1 = raster.extent
        if raster.extent != self._extent:
            self._extent = raster.extent
            self.figure.x_range.update(start=x0, end=x1)
            self.figure.y_range.update(start=y0, end=y1)
        self.source.data = {self.name: [raster.levels], "x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0]}
        return True


class SolutionPlots:
    """The solution for the λ that is shown, as a line against the true one or as two pictures.

    kept: a solution for another λ that is drawn beside it, None for none.
    """

    def __init__(self) -> None:
        self.line = CurvePlot("t", "x(t)", ("solution", "true", "kept"))
        self.kept: Curve | None = None
        self.line.figure.update(name="solution line", sizing_mode="fixed")
        for source, name in zip(self.line.sources, ("solution", "truth", "kept"), strict=True):
            source.name = f"l-curve {name} line"
        self.line.show([None, None, None])  # until the first frame
        mapper = levels_mapper(COLOURS)
        self.pictures = {name: SolutionPicture(name, mapper) for name in CAPTIONS}

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        self.line.set_theme(dark)
        set_type(self.line.figure, presenter)

    def show(self, frame: Frame, drawn: Sequence[str]) -> None:
        """Draw the frame's solution, and the truth if it is known, in those plots that the browser has `drawn`."""
        for name, picture in self.pictures.items():
            if name in drawn:
                picture.show(frame)
        if "line" in drawn:
            curves = [frame.curves.get("solution"), frame.curves.get("truth"), self.kept]
            self.line.show([(c.x, c.y) if c is not None else None for c in curves])


NARROWEST = {False: 312, True: 400}  # px of a small plot; in presenter mode
MOST_VIEWS = 4  # at a time
HEADING = {False: 28, True: 34}  # px
NARROW = {"& .MuiToggleButton-root": {"whiteSpace": "nowrap", "padding": "4px 8px", "lineHeight": 1.2}}
FIRST = ("curvature", "picard", "error", "gcv")


class LinkedPlots:
    """The row, and the buttons that choose its views, which are made as they are first shown."""

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
        self._imaged = False
        self._lam: float | None = None
        self._notation = LambdaNotation()
        self._frame: Frame | None = None
        self._build()

    def _build(self) -> None:
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
        pane = pn.pane.Bokeh(figure, margin=0)
        self._captions[name] = heading(title)
        self._columns[name] = pn.Column(
            self._captions[name], pane, margin=0, sizing_mode="fixed", width=NARROWEST[False], height=240
        )
        self._first_draw.wait(figure, partial(self._fill, name))

    def _is_drawn(self, name: str) -> bool:
        return self._figure(name) not in self._first_draw.waiting

    def _fill(self, name: str) -> None:
        """Fill a plot that the browser has drawn for the first time."""
        if name in self.views:
            self.views[name].set_theme(*self._theme)
            self.views[name].set_notation(self._notation)
            self.views[name].mark(self._lam)
        if not self._first_draw.waiting:
            self._arrange()
            if self._frame is not None:
                self.show_solution(self._frame)  # a curve that is done brings no further frame

    # -- which

    @property
    def shown(self) -> list[str]:
        """Names of the views that are in the row."""
        return self.recent[: self._room]

    def _chosen(self, names: list[str]) -> None:
        """Put a view that was pressed in front; one that is shown already stays."""
        added = [name for name in names if name not in self.shown]
        if added:
            self.recent = [*added, *(name for name in self.recent if name not in added)]
            self._document.add_next_tick_callback(self._arrange)
        elif set(names) != set(self.shown):
            self.chooser.value = self._in_order()

    def _in_order(self) -> list[str]:
        return [name for name in VIEWS if name in self.shown]

    def drawn_views(self) -> list[LinkedPlot]:
        """Return those of the shown views whose plots the browser has."""
        return [self.views[name] for name in self.shown if name in self.views and self._is_drawn(name)]

    # -- sizes

    @property
    def figures(self) -> list[Any]:
        """The plots that there are."""
        return [self._figure(name) for name in self._columns]

    def resize(self, width: int, height: int) -> None:
        """Take that many px in all, headings included."""
        self._size = (width, height)
        self._arrange()

    def _plan(self) -> int:
        """Decide how many views there is room for, and have those made that are missing; returns the row's cells."""
        cells = max(1, self._size[0] // NARROWEST[self._theme[1]])
        self._room = min(MOST_VIEWS, cells - (2 if self._imaged and cells > 2 else 1))
        if self._missing():
            builder().beside(self._document, self._make_missing)
        self.chooser.value = self._in_order()
        return cells

    def _missing(self) -> list[str]:
        """Names of the plots that should be shown and have not been made."""
        return [name for name in (*self._solution_parts(), *self.shown) if name not in self._columns]

    def _make_missing(self) -> None:
        """Make them, some 40 ms each; each finds its size once the browser has drawn it."""
        missing = self._missing()
        for name in missing:
            self._make(name)
        if missing:
            self.row.objects = self._order()

    def _solution_parts(self) -> tuple[str, ...]:
        return tuple(CAPTIONS) if self._imaged else ("line",)

    def _make(self, name: str) -> None:
        """Make a plot that is shown for the first time."""
        if name in VIEWS:
            self.views[name] = LinkedPlot(name, VIEWS[name], self._document, self._picked)
        title = VIEWS[name].title if name in VIEWS else CAPTIONS.get(name, "Solution")
        self._add(name, title, self._figure(name))

    def _arrange(self) -> None:
        width, height = self._size
        cells = self._plan()
        parts = self._room + 1 + (1 if self._imaged and cells > 2 else 0.4 if self._imaged else 0)
        cell = int((width - GRID) / parts)
        inner = height - HEADING[self._theme[1]]
        wanted = (*self._solution_parts(), *self.shown)
        for name, column in self._columns.items():
            if self._is_drawn(name):
                self._figure(name).visible = column.visible = name in wanted
        side = min((width - self._room * cell) // 2 - GRID, inner + LEFT - BORDER)
        for name in wanted:
            if name in self._columns:
                self._place(name, *((side, side) if name in CAPTIONS else (cell, inner)))

    def _order(self) -> list[Any]:
        names = ("line", *CAPTIONS, *VIEWS)
        return [self._columns[name] for name in names if name in self._columns]

    def _figure(self, name: str) -> Any:
        if name in self.views:
            return self.views[name].figure
        return self.solution.line.figure if name == "line" else self.solution.pictures[name].figure

    def _place(self, name: str, width: int, height: int) -> None:
        if not self._is_drawn(name):
            return
        width, height = max(120, width), max(96, height)
        if name in self.views:
            self.views[name].resize(width, height)
        elif name == "line":
            self.solution.line.figure.update(width=width, height=height)
        else:
            inner = max(1, width - LEFT - BORDER)
            height = inner + 2 * BORDER
            self.solution.pictures[name].figure.update(
                width=width, height=height, frame_width=inner, frame_height=inner
            )
        pane = self._columns[name].objects[1]
        pane.param.update(width=width, height=height)
        self._columns[name].param.update(width=width, height=height + HEADING[self._theme[1]])

    # -- looks

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        self._theme = (dark, presenter)
        self.solution.set_theme(dark, presenter)
        for name, view in self.views.items():
            if self._is_drawn(name):
                view.set_theme(dark, presenter)

    def set_notation(self, notation: LambdaNotation) -> None:
        """Write λ or α in every view."""
        self._notation = notation
        for view in self.views.values():
            view.set_notation(notation)

    # -- frames

    def show_solution(self, frame: Frame) -> None:
        """Draw the solution of the newest frame."""
        self._frame = frame
        if bool(frame.rasters) != self._imaged:
            self._imaged = bool(frame.rasters)
            self._arrange()
        self.solution.show(frame, [name for name in self._solution_parts() if self._is_drawn(name)])

    def keep(self, kept: bool) -> None:
        """Go on showing the present solution beside those that follow, or no longer."""
        curve = self._frame.curves.get("solution") if kept and self._frame is not None else None
        self.solution.kept = curve
        if self._frame is not None:
            self.show_solution(self._frame)

    def show_views(self, frame: Frame, rules: dict[str, float]) -> None:
        """Draw the linked views of the newest frame, and λ of each rule."""
        for view in self.drawn_views():
            shown = view.show(frame)
            view.mark_rules(rules)
            self._caption(view.name, "" if shown else view.view.absent)

    def _caption(self, name: str, remark: str) -> None:
        words = VIEWS[name].title if not remark else f"{VIEWS[name].title}: {remark}"
        html = filled("<h2 title='{words}'>{words}</h2>", words=words)
        if self._captions[name].object != html:
            self._captions[name].object = html

    def mark(self, lam: float | None) -> None:
        """Mark the picked λ in all views."""
        if lam != self._lam:
            self._lam = lam
            for view in self.drawn_views():
                view.mark(lam)

    def forget(self) -> None:
        """Let the axes begin anew: another problem's have nothing to do with the last one's."""
        self.solution.kept = None
        for view in self.views.values():
            view.forget()
