"""Marks over a picture: visible on every colour; the pointer mode decides whether a drag moves them."""

from __future__ import annotations

import numpy as np
import pytest
from bokeh.models import GlyphRenderer, Scatter, Span

from app.page.theme import NOT_FINITE_COLOUR, letter
from app.tab.plots import PALETTES, RasterPlots, palette

SEEN = 3.0  # minimum contrast of graphics (WCAG 2.2, 1.4.11)


def luminance(colours):
    """Return the relative luminances of #rrggbb colours as WCAG defines them, float64 (n,)."""
    rgb = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in colours]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def contrast(one, others):
    """Return the contrast of a colour with each of the others, from 1 to 21."""
    first, second = luminance([one]), luminance(others)
    return (np.maximum(first, second) + 0.05) / (np.minimum(first, second) + 0.05)


def lines_of(plot):
    """Return (colour, px) of each stroke of the section line and of the probe, in drawing order."""
    spans = [(one.line_color, one.line_width) for one in plot.figure.center if isinstance(one, Span)]
    marks = []
    for renderer in plot.figure.renderers:
        if isinstance(renderer, GlyphRenderer) and isinstance(renderer.glyph, Scatter):
            data, glyph = renderer.data_source.data, renderer.glyph
            colours = data.get(glyph.line_color, [glyph.line_color])
            widths = data.get(glyph.line_width, [glyph.line_width])
            marks += list(zip(colours, widths, strict=True))
    return {"section": spans, "probe": marks}


def test_the_text_of_a_new_plot_has_the_size_of_the_pages_small_text():
    (axis, *_) = RasterPlots(("field",), {"field": "Inferno"}).plots["field"].figure.axis
    assert (axis.axis_label_text_font_size, axis.major_label_text_font_size) == ("14px", "14px")


@pytest.mark.parametrize("reverse", [False, True], ids=["", "reversed"])
@pytest.mark.parametrize("name", PALETTES)
def test_section_line_and_probe_show_on_every_colour_of_every_palette(name, reverse):
    """On each colour the line or its halo has enough contrast; so has the halo with the line, and it is wider."""
    plots = RasterPlots(("field",), {"field": name})
    plot = plots.plots["field"]
    plot.colour(name, reverse)
    plots.place("horizontal", 3.0, (2.0, 3.0))
    colours = [*palette(name, reverse), NOT_FINITE_COLOUR]
    for what, strokes in lines_of(plot).items():
        least = np.max([contrast(colour, colours) for colour, _ in strokes], axis=0).min()
        assert least >= SEEN, f"{what}: a contrast of {least:.2f}"
        (under, wide), (over, narrow) = strokes
        assert contrast(under, [over]) >= SEEN
        assert wide >= narrow + 2


def test_section_line_and_probe_lie_on_their_halos():
    plots = RasterPlots(("field",), {"field": "Inferno"})
    plot = plots.plots["field"]
    plots.place("vertical", 7.0, (2.0, 3.0))
    for span in (plot.section, plot.halo):
        assert (span.dimension, span.location) == ("height", 7.0)
    assert plots.probe.data["x"] == [2.0, 2.0]
    assert plots.probe.data["y"] == [3.0, 3.0]
    (link,) = plot.section.js_property_callbacks["change:location"]
    assert link.args["other"] is plot.halo  # it follows a drag in the browser


def test_a_section_line_is_dragged_only_while_dragging_does_not_paint():
    plots = RasterPlots(("field", "laplacian"), {"field": "Inferno", "laplacian": "Grey"})
    drawn = plots.plots.values()
    assert all(plot.section.editable for plot in drawn)
    plots.use_pointer_for(True)
    assert not any(plot.section.editable or plot.figure.toolbar.active_drag for plot in drawn)
    plots.use_pointer_for(False)
    assert all(plot.section.editable and plot.figure.toolbar.active_drag is plot.pan for plot in drawn)


def ticks_apart(high, desired):
    """Return the tick distance of Bokeh's BasicTicker on (0, high), computed as AdaptiveTicker's source does."""
    magnitude = 10.0 ** np.floor(np.log10(high / desired))
    return min((abs(desired - high / (m * magnitude)), m * magnitude) for m in (0.5, 1, 2, 5, 10))[1]


@pytest.mark.parametrize("presenter", [False, True])
@pytest.mark.parametrize("cells", [64, 512, 1024, 8192])
def test_the_labels_of_an_axis_stand_apart_however_small_the_picture_is(cells, presenter):
    plot = RasterPlots(("field",), {"field": "Inferno"}).plots["field"]
    for side in range(110, 1000, 10):
        plot.resize(side, side, presenter)
        for axis in (plot.figure.xaxis[0], plot.figure.yaxis[0]):
            step = ticks_apart(cells, axis.ticker.desired_num_ticks)
            labels = [f"{place:.0f}" for place in np.arange(0, cells, step)]
            widest = max(map(len, labels)) * letter(presenter)
            assert len(labels) == 1 or widest + letter(presenter) / 2 <= side * step / cells, (side, labels)
