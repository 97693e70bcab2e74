"""Type and numbers in plots.

Material's theme sets bokeh's type to parts of 13 px; a small callback in the browser puts it right.
"""

from __future__ import annotations

from typing import Any

from bokeh.models import ColorBar, CustomJS, Label, Legend
from bokeh.plotting import figure

from app.theme import FAMILY, PRESENTER_SCALE, SMALL

SIZES = (
    *("major_label_text_font_size", "axis_label_text_font_size", "label_text_font_size", "title_text_font_size"),
    "text_font_size",
)
WITH_TEXT = (ColorBar, Legend, Label)  # beside the axes
DIGIT = 0.58  # of the type's size: the width of a digit
SHORT_NUMBER = "return String(Number(tick.toPrecision(3)));"  # 0.0004, not 4.000e-4
RESTORE = """
if (cb_obj[name].endsWith('em'))
  cb_obj[name] = getComputedStyle(document.documentElement).getPropertyValue('--small').trim() || '14px';
"""


def type_size(presenter: bool) -> int:
    """Of the smallest type, in px."""
    return round(SMALL * PRESENTER_SCALE) if presenter else SMALL


def letter(presenter: bool) -> float:
    """Width of a digit in it, in px."""
    return DIGIT * type_size(presenter)


def set_type(plot: figure, presenter: bool = False) -> None:
    """Give all text of `plot` the small size of the page, or of presenter mode."""
    size = f"{type_size(presenter)}px"
    for part in _with_text(plot):
        for name in SIZES:
            if name in part.properties():
                setattr(part, name, size)


def keep_type(plot: figure) -> None:
    """Set the type of `plot`, and keep it when the page's theme changes it."""
    set_type(plot)
    for part in _with_text(plot):
        for name in SIZES:
            if name in part.properties():
                setattr(part, name.replace("_size", ""), FAMILY)
                part.js_on_change(name, CustomJS(args={"name": name}, code=RESTORE))


def _with_text(plot: figure) -> list[Any]:
    return [*plot.axis, *(part for kind in WITH_TEXT for part in plot.select({"type": kind}))]
