"""One picture: a lasting Bokeh figure that draws one column of a shared source through a palette.

Levels are bytes; the browser turns them into colours, so a palette change mutates the mapper and costs no kernel. The
colour bar has a mapper of its own that knows the true values of level 0 and level 254.
"""

from __future__ import annotations

from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    CustomJSHover,
    CustomJSTickFormatter,
    HoverTool,
    LinearColorMapper,
    NumeralTickFormatter,
    PanTool,
    Range1d,
    Scatter,
    Span,
    WheelZoomTool,
)
from bokeh.plotting import figure

from app.palettes import line_colour, palette
from app.plot_type import SHORT_NUMBER, keep_type
from app.theme import LIGHT, NOT_FINITE_COLOUR
from compute.frames import TOP_LEVEL, Raster

BAR_SLACK = 0.01  # the colour bar follows once its limits moved by this part of their span
BAR_HEIGHT = 12  # px
BORDERS = {"min_border_left": 56, "min_border_right": 16, "min_border_top": 8, "min_border_bottom": 80}  # px
AROUND = (72, 88)  # px that a figure is wider and higher than its picture

LEVEL_TO_VALUE = """
if (value > 254) return 'not finite';
const low = source.data[name + '_low'][0], high = source.data[name + '_high'][0];
return (low + value / 254 * (high - low)).toPrecision(5);
"""


class RasterPlot:
    """A figure for the column `name` of `source`, with linked ranges, colour bar, hover, section line and probe."""

    def __init__(self, name: str, source: ColumnDataSource, x_range: Range1d, y_range: Range1d, colours: str) -> None:
        self.name, self.source = name, source
        self.mapper = LinearColorMapper(
            palette=palette(colours), low=0, high=TOP_LEVEL, high_color=NOT_FINITE_COLOUR, nan_color=NOT_FINITE_COLOUR
        )
        self.values = LinearColorMapper(palette=palette(colours), low=0.0, high=1.0)
        self.pan, self.zoom = PanTool(), WheelZoomTool(zoom_on_axis=False)
        self.figure = figure(
            x_range=x_range,
            y_range=y_range,
            name=f"picture {name}",
            toolbar_location=None,
            tools=[self.pan, self.zoom],
            active_drag=self.pan,
            active_scroll=self.zoom,
            output_backend="canvas",
            lod_threshold=None,
            sizing_mode="fixed",
            **BORDERS,
        )
        self.figure.toolbar.logo = None
        self._dress()
        self.section = self._add_section()
        self._add_image()

    def _dress(self) -> None:
        plot = self.figure
        plot.grid.visible = False
        plot.outline_line_color = None
        for axis in (plot.xaxis, plot.yaxis):
            axis.ticker = BasicTicker(desired_num_ticks=4)
            axis.formatter = NumeralTickFormatter(format="0a")
            axis.minor_tick_line_color = None
        plot.yaxis.major_label_orientation = "vertical"
        bar = ColorBar(
            color_mapper=self.values,
            height=BAR_HEIGHT,
            orientation="horizontal",
            padding=4,
            ticker=BasicTicker(desired_num_ticks=4),
            bar_line_color=None,
            formatter=CustomJSTickFormatter(code=SHORT_NUMBER),
        )
        plot.add_layout(bar, "below")
        keep_type(plot)

    def _add_image(self) -> None:
        plot, name = self.figure, self.name
        image = plot.image(
            image=name, x="x", y="y", dw="dw", dh="dh", source=self.source, color_mapper=self.mapper, level="image"
        )
        formatter = CustomJSHover(args={"source": self.source, "name": name}, code=LEVEL_TO_VALUE)
        plot.add_tools(
            HoverTool(
                renderers=[image],
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

    def resize(self, width: int, height: int) -> None:
        """Set the size of the picture itself, without axes and bar, in px."""
        outer = {"width": width + AROUND[0], "height": height + AROUND[1]}
        self.figure.update(frame_width=width, frame_height=height, **outer)

    def colour(self, name: str, reverse: bool) -> None:
        """Show the palette `name`, reversed or not."""
        colours = palette(name, reverse)
        self.mapper.palette = colours
        self.values.palette = colours
        self.section.line_color = self._mark.line_color = line_colour(colours)

    def scale(self, raster: Raster) -> None:
        """Let the colour bar show the raster's limits, if they moved enough to be read."""
        span = abs(raster.high - raster.low)
        moved = max(abs(self.values.low - raster.low), abs(self.values.high - raster.high))
        if moved > BAR_SLACK * span or (moved > 0 and span == 0):
            self.values.update(low=raster.low, high=raster.high if span else raster.low + 1.0)
