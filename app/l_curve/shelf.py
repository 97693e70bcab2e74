"""The small plots below the L-curve: the solution first, then as many linked views as the width holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document

from app.l_curve.solution import BORDER, CAPTIONS, Solution
from app.l_curve.view_plot import ViewPlot
from app.l_curve.views import VIEWS
from app.l_curve.words import Strength
from app.theme import GRID, heading
from compute.frames import Frame

NARROWEST = {False: 312, True: 400}  # px of a small plot; in presenter mode
MOST_VIEWS = 4  # at a time
HEADING = {False: 32, True: 40}  # px
NARROW = {"& .MuiToggleButton-root": {"whiteSpace": "nowrap", "padding": "4px 8px", "lineHeight": 1.2}}
FIRST = ("curvature", "picard", "error", "gcv")


class Shelf:
    """The row, and the buttons that choose its views. ready() is called once its first plots have been drawn."""

    def __init__(self, document: Document, picked: Callable[[float], None], ready: Callable[[], None]) -> None:
        self._document, self._picked, self._ready = document, picked, ready
        self.solution = Solution()
        self.views: dict[str, ViewPlot] = {}
        self.recent = list(FIRST)
        self._columns: dict[str, pn.Column] = {}
        self._captions: dict[str, Any] = {}
        self._undrawn: set[str] = set()
        self._look: tuple[bool, bool] = (False, False)
        self._size = (656, 240)
        self._room = 1
        self._imaged = False
        self._lam: float | None = None
        self._strength = Strength()
        self._first = True
        self._build()

    def _build(self) -> None:
        figures = {"line": self.solution.line.figure}
        figures |= {name: picture.figure for name, picture in self.solution.pictures.items()}
        titles = {"line": "Solution", **CAPTIONS}
        for name, figure in figures.items():
            self._add(name, titles[name], figure)
        self.row = pn.Row(*self._columns.values(), margin=0, sizing_mode="stretch_width")
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
        self._undrawn.add(name)
        figure.on_change("inner_width", partial(self._drawn, name))

    def _drawn(self, name: str, attr: str, old: Any, new: Any) -> None:
        """The browser has laid a plot out for the first time. Changing a plot before that is an error there."""
        if name not in self._undrawn:
            return
        self._undrawn.discard(name)
        if name in self.views:
            self.views[name].dress(*self._look)
            self.views[name].count_by(self._strength)
            self.views[name].mark(self._lam)
        if not self._undrawn:
            self._arrange()
            if self._first:
                self._first = False
                self._ready()

    # -- which

    @property
    def shown(self) -> list[str]:
        """Names of the views that are on the shelf."""
        return self.recent[: self._room]

    def _chosen(self, names: list[str]) -> None:
        """A press adds a view in front; one that is shown stays."""
        added = [name for name in names if name not in self.shown]
        if added:
            self.recent = [*added, *(name for name in self.recent if name not in added)]
            self._document.add_next_tick_callback(self._arrange)
        elif set(names) != set(self.shown):
            self.chooser.value = self._in_order()

    def _in_order(self) -> list[str]:
        return [name for name in VIEWS if name in self.shown]

    def drawn_views(self) -> list[ViewPlot]:
        """Those of the shown views whose plots the browser has."""
        return [self.views[name] for name in self.shown if name in self.views and name not in self._undrawn]

    # -- sizes

    def fit(self, width: int, height: int) -> None:
        """Take that many px in all, headings included."""
        self._size = (width, height)
        if not self._first:
            self._arrange()

    def _arrange(self) -> None:
        width, height = self._size
        presenter = self._look[1]
        cells = max(2, width // NARROWEST[presenter])
        self._room = min(MOST_VIEWS, cells - (2 if self._imaged and cells > 2 else 1))
        self._make_missing()
        self.chooser.value = self._in_order()
        parts = self._room + 1 + (1 if self._imaged and cells > 2 else 0.4 if self._imaged else 0)
        cell = int((width - GRID) / parts)
        inner = height - HEADING[presenter]
        for name, column in self._columns.items():
            visible = name in self.shown if name in VIEWS else (name != "line") == self._imaged
            if name not in self._undrawn:
                self._figure(name).visible = column.visible = visible
        self._place("line", cell, inner)
        side = min((width - self._room * cell) // 2 - GRID, inner)
        for name in CAPTIONS:
            self._place(name, side, side)
        for name in self.shown:
            self._place(name, cell, inner)

    def _make_missing(self) -> None:
        """A view is drawn when it is first shown."""
        missing = [name for name in self.shown if name not in self.views]
        for name in missing:
            self.views[name] = ViewPlot(name, VIEWS[name], self._document, self._picked)
            self._add(name, VIEWS[name].title, self.views[name].figure)
        if missing or self._order() != list(self.row.objects):
            self.row.objects = self._order()

    def _order(self) -> list[Any]:
        fixed = [name for name in self._columns if name not in VIEWS]
        return [self._columns[name] for name in (*fixed, *(n for n in VIEWS if n in self.views))]

    def _figure(self, name: str) -> Any:
        if name in self.views:
            return self.views[name].figure
        return self.solution.line.figure if name == "line" else self.solution.pictures[name].figure

    def _place(self, name: str, width: int, height: int) -> None:
        if name in self._undrawn:
            return
        width, height = max(120, width), max(96, height)
        if name in self.views:
            self.views[name].resize(width, height)
        elif name == "line":
            self.solution.line.figure.update(width=width, height=height)
        else:
            inner = max(1, width - 2 * BORDER)
            self.solution.pictures[name].plot.figure.update(
                width=width, height=height, frame_width=inner, frame_height=inner
            )
        pane = self._columns[name].objects[1]
        pane.param.update(width=width, height=height)
        self._columns[name].param.update(width=width, height=height + HEADING[self._look[1]])

    # -- looks

    def dress(self, dark: bool, presenter: bool) -> None:
        """Follow the page's scheme and type size."""
        self._look = (dark, presenter)
        self.solution.dress(dark, presenter)
        for name, view in self.views.items():
            if name not in self._undrawn:
                view.dress(dark, presenter)

    def count_by(self, strength: Strength) -> None:
        """Write λ or α."""
        self._strength = strength
        for view in self.views.values():
            view.count_by(strength)

    # -- frames

    def show_solution(self, frame: Frame) -> None:
        """The solution of the newest frame."""
        if bool(frame.rasters) != self._imaged:
            self._imaged = bool(frame.rasters)
            self._arrange()
        self.solution.show(frame)

    def show_views(self, frame: Frame, rules: dict[str, float]) -> None:
        """The linked views of the newest frame."""
        for view in self.drawn_views():
            shown = view.show(frame)
            view.mark_rules(rules)
            self._caption(view.name, "" if shown else view.view.absent)

    def _caption(self, name: str, remark: str) -> None:
        words = VIEWS[name].title if not remark else f"{VIEWS[name].title}: {remark}"
        html = f"<h2 title='{words}'>{words}</h2>"
        if self._captions[name].object != html:
            self._captions[name].object = html

    def mark(self, lam: float | None) -> None:
        """Mark the picked λ in all views."""
        if lam != self._lam:
            self._lam = lam
            for view in self.drawn_views():
                view.mark(lam)

    def forget(self) -> None:
        """Another problem: axes begin anew."""
        for view in self.views.values():
            view.forget()
