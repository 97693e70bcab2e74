"""Base class of the crossover lab's plots: logarithmic axes, fonts, size, columns, tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from bokeh.plotting import figure

from app.page.theme import FAMILY, keep_type, set_type, type_size
from app.tab.curve_plots import LogWindow

TIP = f"""
<div style="font: var(--small, 14px) {FAMILY}; line-height: 1.4; max-width: 360px; margin: -8px; padding: 8px 12px;
background: var(--paper); color: var(--ink); border: 1px solid var(--line); border-radius: 4px">
<b>@name</b><br>@words{{safe}}</div>
"""
NAMES = ("x", "y", "text", "hue")  # columns of the labels in a plot, and of their leader lines
LEADERS = ("x", "y", "x1", "y1", "hue")
ABOVE, BESIDE = 8, 16  # px around the axes
Offset = tuple[int, int]  # px in x and y
Columns = dict[str, list[Any]]


def empty_columns(columns: Sequence[str]) -> Columns:
    """Return empty columns with these names."""
    return {column: [] for column in columns}


def append_row(columns: Columns, *values: Any) -> None:
    """Append a row to the columns."""
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)


class LogPlot:
    """One figure. A subclass adds glyphs in `_add_glyphs`, appends text glyphs to `_texts`, and draws in `_redraw`.

    AROUND: px left of and below the axes; TICK: px of each axis per power of ten; both by presenter mode.
    """

    AROUND: ClassVar[dict[bool, Offset]]
    TICK: ClassVar[dict[bool, Offset]]

    def __init__(self, name: str, words: tuple[str, str], ranges: tuple[Any, Any], ticks: Offset, y_words: str) -> None:
        """Create the figure. words: axis labels; ranges: initial; ticks: maximum per axis; y_words: see LogWindow."""
        self._theme = (False, False)
        self._texts: list[Any] = []
        self.figure = figure(
            name=name, x_axis_type="log", y_axis_type="log", x_axis_label=words[0], y_axis_label=words[1], tools=[],
            toolbar_location=None, output_backend="canvas", sizing_mode="fixed", x_range=ranges[0], y_range=ranges[1],
            min_border_right=BESIDE, min_border_top=ABOVE, outline_line_color=None,
        )  # fmt: skip
        self.figure.toolbar.logo = None
        for axis in self.figure.axis:
            axis.update(minor_tick_line_color=None, axis_label_text_font_style="normal")
        self.x = LogWindow(self.figure.x_range, self.figure.xaxis[0], ticks[0])
        self.y = LogWindow(self.figure.y_range, self.figure.yaxis[0], ticks[1], y_words)
        self._add_glyphs()
        keep_type(self.figure)
        self.set_theme(dark=False, presenter=False)

    def _add_glyphs(self) -> None:
        raise NotImplementedError

    def _redraw(self) -> None:
        """Draw the content again after a change of fonts, colours or size."""
        raise NotImplementedError

    def set_theme(self, dark: bool, presenter: bool) -> None:
        """Apply the page's colour scheme and font size."""
        self._theme = (dark, presenter)
        for text in self._texts:
            text.glyph.text_font_size = f"{type_size(presenter)}px"
        left, below = self.AROUND[presenter]
        self.figure.update(min_border_left=left, min_border_bottom=below)
        set_type(self.figure, presenter)
        self._redraw()

    def resize(self, width: int, height: int) -> None:
        """Set the outer size in px; at least 1, as a low window may have no room left."""
        self.figure.update(width=max(1, width), height=max(1, height))
        self._count_ticks()
        self._redraw()

    def _count_ticks(self) -> None:
        for window, length, tick in zip((self.x, self.y), self.inner, self.TICK[self._theme[1]], strict=True):
            window.ticks(max(2, int(length * (1 - window.room) // tick)))

    @property
    def inner(self) -> tuple[float, float]:
        """The size (width, height) in px of the area within the axes."""
        left, below = self.AROUND[self._theme[1]]
        width, height = (self.figure.width or 600) - left - BESIDE, (self.figure.height or 400) - below - ABOVE
        return max(1.0, width), max(1.0, height)
