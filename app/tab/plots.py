"""Pictures: persistent Bokeh figures that draw the columns of a shared source through a palette.

Levels are bytes, which the browser converts to colours: a palette change mutates the mapper and needs no kernel. The
colour bar has a separate mapper with the true values of level 0 and level 254. Level 255 marks a non-finite number and
has a separate colour. All pictures of a lab share one source and linked ranges; a frame is one write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from bokeh.events import DoubleTap, Pan, PanEnd, PanStart, RangesUpdate, Tap
from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    CustomJSHover,
    CustomJSTickFormatter,
    HoverTool,
    Label,
    LinearColorMapper,
    PanTool,
    Range1d,
    Scatter,
    Span,
    Ticker,
    WheelZoomTool,
)
from bokeh.plotting import figure

from app.page.theme import LIGHT, NOT_FINITE_COLOUR, SHORT_NUMBER, keep_type, letter
from app.tab.publisher import Publisher
from app.tab.stream import FrameSource, ignore
from compute.display.palettes import PERCEPTUAL, table
from compute.lab.frames import NOT_FINITE, TOP_LEVEL, Raster
from compute.lab.two_runs import SECOND

SIGNED_NAMES = ("Cool–warm", "Deep blue–red", "Dark centre")


def hex_colour(rgb: Iterable[int]) -> str:
    """Return a colour, three numbers from 0 to 255, as the text that browsers read."""
    red, green, blue = rgb
    return f"#{red:02x}{green:02x}{blue:02x}"


def _texts(name: str) -> list[str]:
    return [hex_colour(each) for each in table(name)]


AMOUNTS = {name: _texts(name) for name in (*PERCEPTUAL, "Grey")}
SIGNED = {name: _texts(name) for name in SIGNED_NAMES}
PALETTES = {**AMOUNTS, **SIGNED}


# Marks over a picture have two colours: against any background, one of them has a contrast of at least 4.3.
MARK, AROUND_MARK = "#ffffff", "#111111"
MARK_WIDE, AROUND_WIDE = 2, 5  # px


def palette(name: str, reverse: bool = False) -> list[str]:
    """Return the 255 colours of `name` as #rrggbb, for levels 0 … 254; ValueError lists the palettes."""
    if name not in PALETTES:
        raise ValueError(f"palette {name!r} is not one of {', '.join(PALETTES)}")
    colours = PALETTES[name]
    return colours[::-1] if reverse else list(colours)


BAR_SLACK = 0.01  # the colour bar is updated when its limits move by this share of their span
BAR_HEIGHT = 12  # px
BAR_ROOM = {False: 52, True: 68}  # px of height of the bar with its title and numbers, by presenter mode
BORDERS = {  # px around a picture, for axes with titles and a colour bar with one; by presenter mode
    False: {"min_border_left": 66, "min_border_right": 18, "min_border_top": 8, "min_border_bottom": 112},
    True: {"min_border_left": 84, "min_border_right": 20, "min_border_top": 8, "min_border_bottom": 146},
}
APART: dict[str, Any] = {
    "x": 8, "y": 8, "x_units": "screen", "y_units": "screen", "padding": 6, "border_line_color": LIGHT["ink"],
    "background_fill_alpha": 1.0, "text_color": LIGHT["ink"],
}  # fmt: skip
CELLS = ("x [cells]", "y [cells]")


def borders(presenter: bool, bar: bool = True) -> dict[str, int]:
    """Return a figure's minimum borders in px; bar: whether the colour bar is shown."""
    border = BORDERS[presenter]
    return border if bar else {**border, "min_border_bottom": border["min_border_bottom"] - BAR_ROOM[presenter]}


def around(presenter: bool, bar: bool = True) -> tuple[int, int]:
    """Return the px by which a figure is wider and higher than its picture; bar: whether the colour bar is shown."""
    border = borders(presenter, bar)
    wider = border["min_border_left"] + border["min_border_right"]
    return wider, border["min_border_top"] + border["min_border_bottom"]


MOST_TICKS, APART_BY = 4, 6.5  # desired ticks of an axis at most; width of a tick label with its margin, in letters


def ticks_in(length: int, presenter: bool) -> int:
    """Return the number of ticks that fit on an axis of `length` px; Bokeh makes up to half as many more."""
    return max(1, min(MOST_TICKS, int(length / (APART_BY * letter(presenter)))))


LEVEL_TO_VALUE = """
if (value > 254) return label.text;
const low = source.data[name + '_low'][0], high = source.data[name + '_high'][0];
return (low + value / 254 * (high - low)).toPrecision(5);
"""


class ImagePlot:
    """A figure of `column` of `source`: pixels and axes. Level 255 is drawn in the mapper's `high_color`.

    mapper: from levels to colours; its `palette` may change, but it must never be replaced.
    """

    def __init__(
        self,
        column: str,
        source: ColumnDataSource,
        x_range: Range1d,
        y_range: Range1d,
        mapper: LinearColorMapper,
        **options: Any,
    ) -> None:
        self.name, self.source, self.mapper = column, source, mapper
        self.figure = figure(
            x_range=x_range,
            y_range=y_range,
            toolbar_location=None,
            output_backend="canvas",
            lod_threshold=None,
            sizing_mode="fixed",
            **{"name": f"picture {column}", "tools": [], **BORDERS[False], **options},
        )
        self.bar: ColorBar | None = None
        self.figure.toolbar.logo = None
        self.figure.grid.visible = False
        self.figure.outline_line_color = None
        for axis in (self.figure.xaxis, self.figure.yaxis):
            axis.ticker = BasicTicker(desired_num_ticks=MOST_TICKS)
            axis.update(minor_tick_line_color=None, axis_label_text_font_style="normal", axis_label_standoff=2)
        self.figure.yaxis.major_label_orientation = "vertical"
        self.image = self.figure.image(
            image=column, x="x", y="y", dw="dw", dh="dh", source=source, color_mapper=mapper, level="image"
        )

    def add_bar(self, values: LinearColorMapper, ticker: Ticker, **options: Any) -> ColorBar:
        """Add a colour bar below the picture, and apply the page's font to the figure."""
        style = {
            "orientation": "horizontal", "height": BAR_HEIGHT, "padding": 4, "bar_line_color": None,
            "title_text_font_style": "normal", "title_standoff": 2,
        }  # fmt: skip
        bar = ColorBar(color_mapper=values, ticker=ticker, **style, **options)
        self.figure.add_layout(bar, "below")
        self.bar = bar
        keep_type(self.figure)
        return bar

    def name_axes(self, x: str, y: str) -> None:
        """Set the titles of the axes, with units."""
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = x, y

    def resize(self, width: int, height: int, presenter: bool = False, bar: bool = True) -> None:
        """Set the size of the picture itself, without axes and bar, in px; bar: whether the colour bar is shown."""
        more = around(presenter, bar)
        outer = {"width": width + more[0], "height": height + more[1], **borders(presenter, bar)}
        if self.bar is not None:
            self.bar.visible = bar
        self.figure.update(frame_width=width, frame_height=height, **outer)
        for axis, length in ((self.figure.xaxis[0], width), (self.figure.yaxis[0], height)):
            if isinstance(axis.ticker, BasicTicker):  # a deep view has another kind of ticker
                axis.ticker.desired_num_ticks = ticks_in(length, presenter)


def levels_mapper(colours: str, apart: str = NOT_FINITE_COLOUR, **options: Any) -> LinearColorMapper:
    """Return a mapper from levels to the palette named `colours`; 255 becomes the colour `apart`."""
    return LinearColorMapper(
        palette=palette(colours), low=0, high=TOP_LEVEL, high_color=apart, nan_color=apart, **options
    )


class RasterPlot(ImagePlot):
    """A picture of true values, with linked ranges, colour bar, hover tool, section line and probe."""

    def __init__(
        self,
        name: str,
        source: ColumnDataSource,
        x_range: Range1d,
        y_range: Range1d,
        colours: str,
        unit: str = "",
        apart: str = NOT_FINITE_COLOUR,
    ) -> None:
        """unit: title of the colour bar; apart: colour of cells without a number."""
        self.pan, self.zoom = PanTool(), WheelZoomTool(zoom_on_axis=False)
        tools = {"tools": [self.pan, self.zoom], "active_drag": self.pan, "active_scroll": self.zoom}
        super().__init__(name, source, x_range, y_range, levels_mapper(colours, apart), **tools)
        self.values = LinearColorMapper(palette=self.mapper.palette, low=0.0, high=1.0)
        short = CustomJSTickFormatter(code=SHORT_NUMBER)
        self.figure.axis.formatter = short
        self.apart = self._add_apart()
        self.name_axes(*CELLS)
        self.add_bar(self.values, BasicTicker(desired_num_ticks=4), formatter=short, title=unit or name)
        self.halo = self._add_span("section halo", line_color=AROUND_MARK, line_width=AROUND_WIDE, syncable=False)
        self.section = self._add_section()
        self._add_hover()

    def _add_apart(self) -> Label:
        """Add a label that explains the colour of cells without a number, on that colour; visible while one has it."""
        colour = self.mapper.high_color
        label = Label(
            text="not finite", visible=False, name=f"apart {self.name}", background_fill_color=colour, **APART
        )
        self.figure.add_layout(label)
        return label

    def _add_hover(self) -> None:
        name = self.name
        formatter = CustomJSHover(args={"source": self.source, "name": name, "label": self.apart}, code=LEVEL_TO_VALUE)
        self.hover = HoverTool(
            renderers=[self.image],
            tooltips=[("x, y", "$x{0.0}, $y{0.0}"), ("value", f"@{name}{{custom}}")],
            formatters={f"@{name}": formatter},
            point_policy="follow_mouse",
            visible=False,
        )
        self.figure.add_tools(self.hover)

    def _add_span(self, name: str, **style: Any) -> Span:
        span = Span(dimension="width", location=0, name=f"{name} {self.name}", **style)
        self.figure.add_layout(span)
        return span

    def _add_section(self) -> Span:
        """Add the dashed section line, which can be dragged, over its halo, which follows it in the browser."""
        hover = {"hover_line_color": LIGHT["gpu"], "hover_line_width": 4}
        section = self._add_span(
            "section", editable=True, line_color=MARK, line_width=MARK_WIDE, line_dash="dashed", **hover
        )
        section.js_link("location", self.halo, "location")
        return section

    def place_section(self, dimension: str, location: float) -> None:
        """Move the section line ("width" for a horizontal one) to `location` in cells."""
        for span in (self.halo, self.section):
            span.update(dimension=dimension, location=location)

    def add_probe(self, probe: ColumnDataSource) -> None:
        """Draw the point probe as a ringed cross; each row of `probe` is drawn over the previous one."""
        style = {"marker": "circle_cross", "size": 16, "fill_alpha": 0.0, "line_color": "colour", "line_width": "width"}
        self.figure.add_glyph(probe, Scatter(x="x", y="y", **style))

    def colour(self, name: str, reverse: bool) -> None:
        """Show the palette `name`, reversed or not."""
        colours = palette(name, reverse)
        self.mapper.palette = colours
        self.values.palette = colours

    def scale(self, raster: Raster) -> None:
        """Update the colour bar if the raster's limits moved visibly; label cells without a number."""
        apart = bool((raster.levels == NOT_FINITE).any())
        if self.apart.visible != apart:
            self.apart.visible = apart
        span = abs(raster.high - raster.low)
        moved = max(abs(self.values.low - raster.low), abs(self.values.high - raster.high))
        if moved > BAR_SLACK * span or (moved > 0 and span == 0):
            self.values.update(low=raster.low, high=raster.high if span else raster.low + 1.0)


Position = tuple[float, float]


def probe_rows(at: Position) -> dict[str, list[Any]]:
    """Return the rows of the probe's source: its halo, and the probe over it."""
    colours, widths = [AROUND_MARK, MARK], [AROUND_WIDE, MARK_WIDE]
    return {"x": [at[0]] * 2, "y": [at[1]] * 2, "colour": colours, "width": widths}


@dataclass(frozen=True)
class StrokePoint:
    """A point of the brush in cells, None outside of the plot; end: whether its stroke ends there."""

    x: float | None
    y: float | None
    end: bool


class RasterPlots:
    """The pictures of a frame's rasters `names`, in that order, each with its palette.

    units: titles of the colour bars, for pictures whose name does not suffice. apart: colour of cells without a number;
    the text of `RasterPlot.apart` explains it. Called on the document's loop:
    tapped(x, y) in cells; viewed() after a pan or zoom; unzoomed() after a double click; section_moved(location in
    cells). strokes: the points of the brush. twice: whether the second picture shows the second run (`show_twice`).
    """

    def __init__(
        self,
        names: Sequence[str],
        palettes: Mapping[str, str],
        units: Mapping[str, str] = MappingProxyType({}),
        *,
        apart: str = NOT_FINITE_COLOUR,
        tapped: Callable[[float, float], object] = ignore,
        viewed: Callable[[], object] = ignore,
        unzoomed: Callable[[], object] = ignore,
        section_moved: Callable[[float], object] = ignore,
    ) -> None:
        self.x_range, self.y_range = Range1d(0, 1), Range1d(0, 1)
        blank = np.full((1, 1), 255, np.uint8)
        data: dict[str, Any] = {"x": [0.0], "y": [0.0], "dw": [1.0], "dh": [1.0]}
        for name in names:
            data |= {name: [blank], f"{name}_low": [0.0], f"{name}_high": [1.0]}
        self.frames = FrameSource(data, "frames")
        self.probe = ColumnDataSource(probe_rows((0.0, 0.0)), name="probe point")
        source = self.frames.source
        self.plots = {
            name: RasterPlot(name, source, self.x_range, self.y_range, palettes[name], units.get(name, ""), apart)
            for name in names
        }
        self.frames.draw_in(*(plot.figure for plot in self.plots.values()))
        self.strokes: Publisher[StrokePoint] = Publisher()
        self._tapped, self._viewed = tapped, viewed
        self._unzoomed, self._section_moved = unzoomed, section_moved
        self.painting = self.twice = False
        self._colours = {name: (palettes[name], False) for name in names}
        self._shape = (1, 1)
        self._connect()

    def _connect(self) -> None:
        spans = [plot.section for plot in self.plots.values()]
        for plot in self.plots.values():
            plot.add_probe(self.probe)
            plot.figure.on_event(PanStart, self._stroke)
            plot.figure.on_event(Pan, self._stroke)
            plot.figure.on_event(PanEnd, self._stroke_end)
            plot.figure.on_event(Tap, self._tap)
            plot.figure.on_event(DoubleTap, self._double_tap)
            plot.figure.on_event(RangesUpdate, lambda event: self._viewed())
            plot.section.on_change("location", lambda attr, old, new: self._section_moved(new))
            for other in spans:
                if other is not plot.section:
                    plot.section.js_link("location", other, "location")

    def _stroke(self, event: Pan) -> None:
        if self.painting:
            self.strokes.publish(StrokePoint(event.x, event.y, end=False))

    def _stroke_end(self, event: PanEnd) -> None:
        if self.painting:
            self.strokes.publish(StrokePoint(event.x, event.y, end=True))

    def _tap(self, event: Tap) -> None:
        if self.painting:
            self.strokes.publish(StrokePoint(event.x, event.y, end=True))
        elif event.x is not None and event.y is not None:
            self._tapped(event.x, event.y)

    def _double_tap(self, event: DoubleTap) -> None:
        if not self.painting:
            self._unzoomed()

    def colour(self, name: str, palette: str, reverse: bool) -> None:
        """Set the palette of a picture, reversed or not; the second run has that of the first picture."""
        self._colours[name] = palette, reverse
        self._recolour()

    def show_twice(self, twice: bool) -> None:
        """Colour the second picture as the first one, or by its own palette."""
        self.twice = twice
        self._recolour()

    def _recolour(self) -> None:
        first = next(iter(self.plots))
        for name, plot in self.plots.items():
            plot.colour(*self._colours[first if self.twice else name])

    def shown(self, rasters: Mapping[str, Raster]) -> dict[str, Raster]:
        """Return the raster of each picture by name: in the second one a second run, if there is one."""
        shown = {name: rasters[name] for name in self.plots if name in rasters}
        if SECOND in rasters and SECOND not in shown and len(shown) > 1:
            shown[list(shown)[1]] = rasters[SECOND]
        return shown

    def show(self, number: int, rasters: Mapping[str, Raster]) -> None:
        """Write one frame: every picture and its number in a single message."""
        shown = self.shown(rasters)
        x0, y0, x1, y1 = next(iter(shown.values())).extent
        data: dict[str, Any] = {"x": [x0], "y": [y0], "dw": [x1 - x0], "dh": [y1 - y0]}
        for name, raster in shown.items():
            data |= {name: [raster.levels], f"{name}_low": [raster.low], f"{name}_high": [raster.high]}
        self.frames.write(number, data)

    def scale(self, rasters: Mapping[str, Raster]) -> None:
        """Update the colour bars; a few times a second is enough."""
        for name, raster in self.shown(rasters).items():
            if self.plots[name].figure.visible:
                self.plots[name].scale(raster)

    def whole(self, shape: tuple[int, int] | None = None) -> None:
        """Show the whole field of `shape` (ny, nx), or of the previous shape."""
        self._shape = shape or self._shape
        ny, nx = self._shape
        self.x_range.update(start=0, end=nx)
        self.y_range.update(start=0, end=ny)

    def show_part(self, view: tuple[float, float, float, float] | None) -> None:
        """Show (x0, y0, x1, y1) in cells; None for the whole field."""
        if view is None:
            self.whole()
            return
        self.x_range.update(start=view[0], end=view[2])
        self.y_range.update(start=view[1], end=view[3])

    @property
    def view(self) -> tuple[float, float, float, float] | None:
        """The part that the axes show, (x0, y0, x1, y1) in cells; None for the whole field."""
        ny, nx = self._shape
        x0, x1, y0, y1 = self.x_range.start, self.x_range.end, self.y_range.start, self.y_range.end
        return None if x0 <= 0 and y0 <= 0 and x1 >= nx and y1 >= ny else (x0, y0, x1, y1)

    def use_pointer_for(self, painting: bool) -> None:
        """Make dragging paint, without a hover tip, or else pan the view, or drag the section line."""
        self.painting = painting
        for plot in self.plots.values():
            plot.figure.toolbar.active_drag = None if painting else plot.pan
            plot.section.editable = not painting
            plot.hover.renderers = [] if painting else [plot.image]  # its tip would cover the brush

    def place(self, section: str, location: float, probe: Position) -> None:
        """Move the section line ("horizontal" | "vertical", at `location`) and the probe, in cells."""
        for plot in self.plots.values():
            plot.place_section("width" if section == "horizontal" else "height", location)
        self.place_probe(probe)

    def place_probe(self, probe: Position) -> None:
        """Move the probe, in cells; nan hides it."""
        self.probe.data = probe_rows(probe)

    def show_section(self, shown: bool) -> None:
        """Show or hide the section line."""
        for plot in self.plots.values():
            plot.section.visible = plot.halo.visible = shown
