"""The default tab of a lab, built from the lab's parameters and frames.

`PlainControls` has one widget per parameter, `PlainView` one picture per raster and one plot per curve, and `facts`
shows the first numbers of a frame in the status bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param

from app.page.notices import Notices
from app.page.theme import GRID, heading, set_type
from app.page.typed_slider import TypedSlider
from app.page.widgets import FULL, Widget
from app.tab.controls import ComputeControls, Controls, Transport, accordion, column
from app.tab.curve_plots import CurvePlot
from app.tab.lab_view import LabView, Parts, Size
from app.tab.lean_plots import lighten
from app.tab.plots import RasterPlots, around
from app.tab.raster_view import fixed_pane
from app.tab.session import Session
from app.upstream.plot_pane import PlotPane
from compute.lab.frames import Extent, Frame

PALETTE = "Viridis"
CURVE_HEIGHT, HEADING = 168, 36  # px
SMALLEST, SCANTIEST = 128, 16  # px of a picture: below the first curves are hidden; the second is its minimum
MACHINE = ("backend", "device_index", "variant")
SLIDER_STEPS = 200  # of a slider over real numbers
WRAPPED = {"flex-wrap": "wrap", "align-content": "flex-start"}
WIDEST_SLIDER = 1000  # larger ranges of integers get a text field, as a slider is too coarse
HELP = """
| **Space** | run or pause |
| **S** | one step |
| **R** | reset |
"""
POINTER = "Drag on a picture to move it, scroll to zoom, double-click to show all of it."
MOST_FACTS = 6  # fit next to the stream's facts on a laptop


class PlainView(LabView):
    """Pictures in a row, with curves in a row below; built from the first frame."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.panel = pn.Column(margin=0, sizing_mode="stretch_both")
        self.pictures: RasterPlots | None = None
        self.curves: dict[str, CurvePlot] = {}
        self._panes: list[PlotPane] = []  # of the pictures
        self._columns: list[Any] = []  # each pane below its heading
        self._lines: list[PlotPane] = []  # of the curves
        self._pictures = self._below = pn.Row()  # the rows of pictures and curves
        self._built = False
        self._extent: Extent = (0.0, 0.0, 1.0, 1.0)  # of the rasters, in the lab's cells
        session.frames.subscribe(self._show)
        session.later(self._begin)

    def _begin(self) -> None:
        """Request the first frame immediately, as no plot exists before it."""
        self.ready.publish(None)

    @property
    def _plots(self) -> Mapping[str, Any]:
        return self.pictures.plots if self.pictures is not None else {}

    def _show(self, frame: Frame) -> None:
        if not self._built:
            self._build(frame)
        if self.pictures is None or not self.drawn:
            self.session.gate.acknowledge(frame.number)
        else:
            self.pictures.show(frame.number, frame.rasters)

    def _build(self, frame: Frame) -> None:
        extent = next((raster.extent for raster in frame.rasters.values()), self._extent)
        self._make(list(frame.rasters), list(frame.curves), extent)

    def _make(self, names: list[str], curves: list[str], extent: Extent) -> None:
        """Make the plots of these rasters and curves. extent: of the rasters."""
        self._built = True
        if names:
            self.pictures = pictures = RasterPlots(names, dict.fromkeys(names, PALETTE), unzoomed=self._show_whole)
            pictures.frames.serve(self.session)
            pictures.place("horizontal", nan, (nan, nan))
            pictures.show_section(False)
            self._fit_ranges(pictures, extent)
        self.curves = {name: CurvePlot("x", name, (name,)) for name in curves}
        plots = [plot.figure for plot in (*self._plots.values(), *self.curves.values())]
        lighten(plots)
        self.wait_for(*plots)
        self._lay_out()

    def _show_whole(self) -> None:
        """Show the whole raster of the latest frame."""
        if self.pictures is not None and self.session.latest is not None:
            self._fit_ranges(self.pictures, _extent_of(self.session.latest))

    def _fit_ranges(self, pictures: RasterPlots, extent: Extent) -> None:
        x0, y0, x1, y1 = self._extent = extent
        pictures.x_range.update(start=x0, end=x1)
        pictures.y_range.update(start=y0, end=y1)

    def _lay_out(self) -> None:
        self._panes = [fixed_pane(plot.figure) for plot in self._plots.values()]
        self._columns = [
            pn.Column(heading(name.capitalize()), pane, margin=0, sizing_mode="fixed")
            for name, pane in zip(self._plots, self._panes, strict=True)
        ]
        self._lines = [fixed_pane(curve.figure) for curve in self.curves.values()]
        self._pictures = pn.Row(*self._columns, margin=0, sizing_mode="fixed", styles=WRAPPED)
        self._below = pn.Row(*self._lines, margin=0, sizing_mode="fixed", styles=WRAPPED)
        self.panel.objects = [self._pictures, self._below]

    def arrange(self) -> None:
        """Give the pictures equal shares of the space above the curves, in as many rows as make them largest.

        In a small window the curves are hidden, then the colour bars, then titles and all pictures but the first, until
        a picture has SMALLEST px.
        """
        width, height = self.size
        x0, y0, x1, y1 = self._extent
        every = 1 if self.alone else len(self._panes)
        stages = (True, True, every, HEADING), (False, True, every, HEADING), (False, False, every, HEADING)
        for with_curves, bar, count, title in (*stages, (False, False, 1, 0)):
            room = width, height - (CURVE_HEIGHT if self.curves and with_curves else 0)
            wider, higher = around(self.presenter, bar)
            margins = (wider + GRID, higher + GRID + title)
            scale = largest_scale(count, room, (x1 - x0, y1 - y0), margins) if self._panes else 0.0
            if scale * max(x1 - x0, y1 - y0) >= SMALLEST:
                break
        with_curves = with_curves or not self._panes
        self._below.visible = with_curves and bool(self.curves)
        self._arrange_curves(width)
        size = max(SCANTIEST, int((x1 - x0) * scale)), max(SCANTIEST, int((y1 - y0) * scale))
        for number, plot in enumerate(self._plots.values()):
            pane, titled = self._panes[number], self._columns[number]
            titled.visible, titled[0].visible = number < count, title > 0
            plot.resize(*size, self.presenter, bar)
            outer = plot.figure.width, plot.figure.height
            pane.param.update(width=outer[0], height=outer[1])
            titled.param.update(width=outer[0] + GRID, height=outer[1] + GRID + title)
        self._pictures.param.update(width=width, height=max(room[1], 0), visible=bool(self._panes))
        if self._panes:
            self.session.set_view(None, (size[1], size[0]))

    def _arrange_curves(self, width: int) -> None:
        """Set the curves side by side."""
        for curve, line in zip(self.curves.values(), self._lines, strict=True):
            curve.figure.update(width=max(SMALLEST, width // len(self._lines)), height=CURVE_HEIGHT)
            line.param.update(width=curve.figure.width, height=CURVE_HEIGHT)
        self._below.param.update(width=width, height=CURVE_HEIGHT)

    def apply_theme(self) -> None:
        """Apply colours to the curves, and fonts to all plots."""
        for curve in self.curves.values():
            curve.set_theme(self.dark)
        for plot in (*self.curves.values(), *self._plots.values()):
            set_type(plot.figure, self.presenter)

    def tick(self) -> None:
        """Update curves and colour bars from the latest frame; fit the ranges if its size has changed."""
        frame = self.session.latest
        if frame is None or not self.drawn:
            return
        if self.pictures is not None:
            if _extent_of(frame) != self._extent:
                self._fit_ranges(self.pictures, _extent_of(frame))
                self.arrange()
            self.pictures.scale(frame.rasters)
        for name, plot in self.curves.items():
            curve = frame.curves.get(name)
            plot.show([(curve.x, curve.y) if curve is not None else None])


def _extent_of(frame: Frame) -> Extent:
    """Return the extent of the first raster."""
    return next(iter(frame.rasters.values())).extent


def largest_scale(pictures: int, room: tuple[int, int], cells: tuple[float, float], around: tuple[int, int]) -> float:
    """Return the px per cell at which `pictures` equal pictures fit into `room`, maximised over the number of rows.

    room: width and height in px; cells: width and height of a picture in cells; around: px next to and below a picture
    for its axes and heading. The result is 0 or negative if they do not fit.
    """

    def scale(columns: int) -> float:
        """Return the px per cell for this number of columns."""
        rows = -(-pictures // columns)
        sides = (room[0] // columns - around[0], room[1] // rows - around[1])
        return min(side / length for side, length in zip(sides, cells, strict=True))

    return max(map(scale, range(1, pictures + 1)))


class PlainControls(Controls):
    """One widget per parameter: Field contains those for the initial state, Compute those that rebuild the lab."""

    def __init__(self, session: Session, lab_view: object, notices: Notices) -> None:
        super().__init__(session)
        self.transport = transport = Transport(session)
        self.use_speed(transport.typed_speed)
        self.keys = transport.keys
        self.compute = ComputeControls(session)
        groups: dict[str, list[Any]] = {"Field": [], "Physics": [], "Compute": self.compute.items, "Display": []}
        for name in session.values:
            if name not in MACHINE:
                dtype = self.compute.dtype if name == "dtype" else None
                groups[self._group(name)].append(dtype or self._widget(name))
        filled = {title: column(*items) for title, items in groups.items() if items}
        self.panel = column(transport.panel, accordion(filled, opened=(0, 1)))

    def _group(self, name: str) -> str:
        lab = self.session.lab
        if name in lab.STRUCTURAL:
            return "Compute"
        if name in lab.INITIAL:
            return "Field"
        return "Display" if isinstance(self.parameter(name), param.Range) else "Physics"

    def _widget(self, name: str) -> Widget:
        parameter: Any = self.parameter(name)
        if isinstance(parameter, param.Selector):
            return self.choice(name)
        if isinstance(parameter, param.Boolean):
            return self.switch(name)
        step = step_of(parameter) if isinstance(parameter, param.Number) else 0
        return TypedSlider(self.slider(name, step)).panel if step else self._typed(name)

    def _typed(self, name: str) -> Widget:
        parameter, value = self.parameter(name), self.session.values[name]
        options = {"label": parameter.label, "value": value, "size": "small", **FULL}
        kind = pmui.TextInput if isinstance(parameter, param.String) else pmui.LiteralInput
        return self.add(name, kind(**options))

    def show_values(self, values: Any) -> None:
        """Show `values`, which were changed without these widgets."""
        super().show_values(values)
        self.compute.show_values(values)


def step_of(parameter: Any) -> float:
    """Return the step of a slider: the parameter's own, or a fraction of its bounds; 0 if a slider is unsuitable."""
    low, high = parameter.bounds or (None, None)
    if low is None or high is None:
        return 0
    own = parameter.step or 0
    if isinstance(parameter, param.Integer):
        return (own or 1) if high - low <= WIDEST_SLIDER * (own or 1) else 0
    return own or (high - low) / SLIDER_STEPS


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """Return the status bar's facts: (name, value with four digits, "") of the first MOST_FACTS numbers of `frame`."""
    return [(name.replace("_", " "), f"{value:.4g}", "") for name, value in list(frame.facts.items())[:MOST_FACTS]]


PARTS = Parts(PlainView, PlainControls, facts, HELP, POINTER)
