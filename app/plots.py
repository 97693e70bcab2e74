"""One picture: a lasting Bokeh figure that draws one column of a shared source through a palette.

Levels are bytes; the browser turns them into colours, so a palette change mutates the mapper and costs no kernel. The
colour bar has a mapper of its own that knows the true values of level 0 and level 254.
"""

from __future__ import annotations

from typing import Any

from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    CustomJSHover,
    CustomJSTickFormatter,
    HoverTool,
    Label,
    LinearColorMapper,
    NumeralTickFormatter,
    PanTool,
    Range1d,
    Scatter,
    Span,
    Ticker,
    WheelZoomTool,
)
from bokeh.plotting import figure

from app.palettes import line_colour, palette
from app.plot_type import SHORT_NUMBER, keep_type
from app.theme import LIGHT, NOT_FINITE_COLOUR
from compute.frames import NOT_FINITE, TOP_LEVEL, Raster

BAR_SLACK = 0.01  # the colour bar follows once its limits moved by this part of their span
BAR_HEIGHT = 12  # px
BORDERS = {"min_border_left": 56, "min_border_right": 16, "min_border_top": 8, "min_border_bottom": 80}  # px
APART: dict[str, Any] = {
    "x": 8, "y": 8, "x_units": "screen", "y_units": "screen", "padding": 6, "border_line_color": LIGHT["ink"],
    "background_fill_color": NOT_FINITE_COLOUR, "background_fill_alpha": 1.0, "text_color": LIGHT["ink"],
}  # fmt: skip
AROUND = (72, 88)  # px that a figure is wider and higher than its picture

LEVEL_TO_VALUE = """
if (value > 254) return 'not finite';
const low = source.data[name + '_low'][0], high = source.data[name + '_high'][0];
return (low + value / 254 * (high - low)).toPrecision(5);
"""


class ImagePlot:
    """A figure for `column` of `source`: pixels, axes, nothing else. Value 255 is drawn in the colour `apart`.

    mapper: from levels to colours; its `palette` may be changed, it must never be replaced.
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
            **{"name": f"picture {column}", "tools": [], **BORDERS, **options},
        )
        self.figure.toolbar.logo = None
        self.figure.grid.visible = False
        self.figure.outline_line_color = None
        for axis in (self.figure.xaxis, self.figure.yaxis):
            axis.ticker = BasicTicker(desired_num_ticks=4)
            axis.minor_tick_line_color = None
        self.figure.yaxis.major_label_orientation = "vertical"
        self.image = self.figure.image(
            image=column, x="x", y="y", dw="dw", dh="dh", source=source, color_mapper=mapper, level="image"
        )

    def add_bar(self, values: LinearColorMapper, ticker: Ticker, **options: Any) -> ColorBar:
        """A colour bar below the picture, and everything in the page's type."""
        look = {"orientation": "horizontal", "height": BAR_HEIGHT, "padding": 4, "bar_line_color": None}
        bar = ColorBar(color_mapper=values, ticker=ticker, **look, **options)
        self.figure.add_layout(bar, "below")
        keep_type(self.figure)
        return bar

    def resize(self, width: int, height: int) -> None:
        """Set the size of the picture itself, without axes and bar, in px."""
        outer = {"width": width + AROUND[0], "height": height + AROUND[1]}
        self.figure.update(frame_width=width, frame_height=height, **outer)


def levels_mapper(colours: str, apart: str = NOT_FINITE_COLOUR, **options: Any) -> LinearColorMapper:
    """From levels to the palette named `colours`; 255 becomes the colour `apart`."""
    return LinearColorMapper(
        palette=palette(colours), low=0, high=TOP_LEVEL, high_color=apart, nan_color=apart, **options
    )


class RasterPlot(ImagePlot):
    """A picture of true values: with linked ranges, colour bar, hover, section line and probe."""

    def __init__(self, name: str, source: ColumnDataSource, x_range: Range1d, y_range: Range1d, colours: str) -> None:
        self.pan, self.zoom = PanTool(), WheelZoomTool(zoom_on_axis=False)
        tools = {"tools": [self.pan, self.zoom], "active_drag": self.pan, "active_scroll": self.zoom}
        super().__init__(name, source, x_range, y_range, levels_mapper(colours), **tools)
        self.values = LinearColorMapper(palette=self.mapper.palette, low=0.0, high=1.0)
        for axis in (self.figure.xaxis, self.figure.yaxis):
            axis.formatter = NumeralTickFormatter(format="0a")
        self.apart = self._add_apart()
        short = CustomJSTickFormatter(code=SHORT_NUMBER)
        self.add_bar(self.values, BasicTicker(desired_num_ticks=4), formatter=short)
        self.section = self._add_section()
        self._add_hover()

    def _add_apart(self) -> Label:
        """What the colour that is in no palette means, written on that colour; shown while a cell has it."""
        label = Label(text="not finite", visible=False, name=f"apart {self.name}", **APART)
        self.figure.add_layout(label)
        return label

    def _add_hover(self) -> None:
        name = self.name
        formatter = CustomJSHover(args={"source": self.source, "name": name}, code=LEVEL_TO_VALUE)
        self.figure.add_tools(
            HoverTool(
                renderers=[self.image],
                tooltips=[("x, y", "$x{0.0}, $y{0.0}"), ("value", f"@{name}{{custom}}")],
                formatters={f"@{name}": formatter},
                point_policy="follow_mouse",
                visible=False,
            )
        )

    def _add_section(self) -> Span:
        section = Span(
            dimension="width",
            location=0,
            name=f"section {self.name}",
            editable=True,
            line_color=line_colour(self.mapper.palette),
            line_width=2,
            line_dash="dashed",
            hover_line_color=LIGHT["gpu"],
            hover_line_width=4,
        )
        self.figure.add_layout(section)
        return section

    def add_probe(self, probe: ColumnDataSource) -> None:
        """Draw the point probe, the first row of `probe`'s x and y, as a ringed cross."""
        look = {"marker": "circle_cross", "size": 16, "fill_alpha": 0.0, "line_width": 2, "line_alpha": 0.9}
        self._mark = Scatter(x="x", y="y", line_color=self.section.line_color, **look)
        self.figure.add_glyph(probe, self._mark)

    def colour(self, name: str, reverse: bool) -> None:
        """Show the palette `name`, reversed or not."""
        colours = palette(name, reverse)
        self.mapper.palette = colours
        self.values.palette = colours
        self.section.line_color = self._mark.line_color = line_colour(colours)

    def scale(self, raster: Raster) -> None:
        """Let the colour bar show the raster's limits, if they moved enough to be read, and name what is not finite."""
        apart = bool((raster.levels == NOT_FINITE).any())
        if self.apart.visible != apart:
            self.apart.visible = apart
        span = abs(raster.high - raster.low)
        moved = max(abs(self.values.low - raster.low), abs(self.values.high - raster.high))
        if moved > BAR_SLACK * span or (moved > 0 and span == 0):
            self.values.update(low=raster.low, high=raster.high if span else raster.low + 1.0)
