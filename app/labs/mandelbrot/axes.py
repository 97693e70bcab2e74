"""Ticks that mean something at every depth: coordinates as long as they are short, then distances from the centre."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bokeh.models import ColumnDataSource, CustomJSTicker, CustomJSTickFormatter, Range1d
from bokeh.plotting import figure

CODE = (Path(__file__).parent / "axes.js").read_text(encoding="utf-8")
DECIMALS = 11  # of an absolute label at most; float64 would hold 15, but no axis has the room


def label(plot: figure, source: ColumnDataSource, x_range: Range1d, y_range: Range1d) -> None:
    """Give both axes of `plot` ticks; column "origin" of `source` says where 0 is: [re, im, exponent of the unit]."""
    for axis, along, own in ((plot.xaxis, 0, x_range), (plot.yaxis, 1, y_range)):
        args: dict[str, Any] = {"source": source, "own": own, "along": along, "decimals": DECIMALS, "plot": plot}
        axis.ticker = CustomJSTicker(args=args, major_code=CODE + "return ticks();")
        axis.formatter = CustomJSTickFormatter(args=args, code=CODE + "return words(tick);")


def relative(exponent: int) -> bool:
    """Whether a view whose unit is 10^exponent has distances from the centre on its axes."""
    return -exponent + 1 > DECIMALS
