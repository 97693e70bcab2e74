"""Colours, type and spacing for the light and the dark scheme and for projectors.

There is one font family in four sizes (14, 16, 20 and 40 px; presenter mode scales all of them by 20/14). Spacing
follows an 8 px grid. Text colours reach contrast AA on their background in both schemes. Material's theme sets Bokeh's
text to fractions of 13 px; a small callback in the browser corrects that.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.models import ColorBar, CustomJS, Label, Legend
from bokeh.plotting import figure

_HERE = Path(__file__).resolve().parent.parent
# next to app/ in a checkout, inside it in an installed wheel
ASSETS = next(folder for folder in (_HERE.parent / "assets", _HERE / "_assets") if folder.is_dir())
FAMILY = "Roboto, 'Liberation Sans', Arial, sans-serif"
SMALL, BODY, TITLE, DISPLAY = 14, 16, 20, 40  # px
PRESENTER_SCALE = 20 / 14  # smallest type 20 px
GRID = 8  # px

LIGHT = {
    "ink": "#14202b",
    "muted": "#465665",
    "paper": "#ffffff",
    "ground": "#f4f6f8",
    "line": "#d3dce3",
    "accent": "#0b6a75",
    "on_accent": "#ffffff",
    "cpu": "#2f6db5",
    "gpu": "#c2570c",
    "good": "#1c7443",
    "warn": "#8f5600",
    "bad": "#b3261e",
}
DARK = {
    "ink": "#e9eff3",
    "muted": "#adbcc8",
    "paper": "#111a22",
    "ground": "#0a1117",
    "line": "#2c3c49",
    "accent": "#5ecbd3",
    "on_accent": "#06262a",
    "cpu": "#7fb2ec",
    "gpu": "#f59a4a",
    "good": "#66c691",
    "warn": "#efb45a",
    "bad": "#ff8a80",
}
CARD = {  # over the page, in its upper right corner
    "position": "fixed", "right": "16px", "top": "65px", "z-index": "1240",
    "max-height": "calc(100vh - 81px - max(40px, var(--bar-high, 0px)))",  # above the bar at the bottom
    "overflow-y": "auto", "overflow-x": "hidden", "border-radius": "6px", "width": "calc(29 * var(--small, 14px))",
    "max-width": "calc(100vw - 32px)", "background": "var(--paper)", "border": "1px solid var(--line)",
    "box-shadow": "0 8px 24px rgb(0 0 0 / 25%)",
}  # fmt: skip
NOT_FINITE_COLOUR = "#ff00c8"  # in no palette, so that a NaN cannot be mistaken for a value


# above a field, in the gap of its outline; a list's default is smaller
LABEL = {"transform": "translate(14px, -10px) scale(0.875)", "fontSize": "1rem !important"}

# as wide as its text: the library limits it to the room next to its button
TIP = {"fontSize": "0.875rem", "backgroundColor": "#14202b", "width": "max-content", "maxWidth": "min(300px, 50vw)"}

# no motion if the system requests reduced motion; the library sets its own as element styles
STILL = {
    "@media (prefers-reduced-motion: reduce)": {
        "&, & *": {"transition": "none !important", "animation": "none !important"}
    }
}
MOVING = {"MuiCollapse": "root", "MuiSwitch": "root", "MuiSlider": "root", "MuiTabs": "root"}


def _scheme(colours: dict[str, str]) -> dict[str, Any]:
    return {
        "palette": {
            "primary": {"main": colours["accent"], "contrastText": colours["on_accent"]},
            "error": {"main": colours["bad"]},
            "warning": {"main": colours["warn"]},
            "success": {"main": colours["good"]},
            "text": {"primary": colours["ink"], "secondary": colours["muted"]},
            "background": {"default": colours["ground"], "paper": colours["paper"]},
            "divider": colours["line"],
        },
        "typography": {
            "fontFamily": FAMILY,
            "h3": {"fontSize": "1.25rem"},
            "body2": {"fontSize": "0.875rem"},
            "caption": {"fontSize": "0.875rem"},
            "button": {"fontSize": "0.875rem", "fontWeight": 500, "letterSpacing": 0},
        },
        "shape": {"borderRadius": 6},
        "components": _components(colours),
    }


def _components(colours: dict[str, str]) -> dict[str, Any]:
    bar = {"backgroundColor": colours["paper"], "color": colours["ink"], "boxShadow": "none", "backgroundImage": "none"}
    focus = {"&.Mui-focusVisible": {"outline": f"3px solid {colours['accent']}", "outlineOffset": "-3px"}}
    # The default grey has too little contrast in the dark scheme.
    closing = {"& .MuiIconButton-root": {"color": colours["ink"]}}
    still = {name: {"styleOverrides": {part: STILL}} for name, part in MOVING.items()}
    flat = {"boxShadow": "none", "backgroundImage": "none", "border": "none"}
    return {
        "MuiAppBar": {"styleOverrides": {"root": {**bar, "borderBottom": f"1px solid {colours['line']}"}}},
        "MuiDrawer": {"styleOverrides": {"paper": {"paddingBottom": "48px", **STILL}}},
        **still,
        # in the dark scheme, Material lightens raised surfaces, for which the text colours are not chosen
        "MuiDialog": {"styleOverrides": {"root": STILL, "paper": {"backgroundImage": "none", **closing}}},
        "MuiButtonBase": {"styleOverrides": {"root": {**focus, **STILL}}},
        "MuiDialogContent": {"defaultProps": {"tabIndex": 0}},  # it scrolls, also by the keyboard
        "MuiLinearProgress": {"defaultProps": {"aria-label": "Progress"}},
        "MuiButton": {"styleOverrides": {"sizeSmall": {"fontSize": "0.875rem"}}},
        "MuiToolbar": {"styleOverrides": {"root": {"minHeight": "56px !important"}}},
        "MuiInputLabel": {"styleOverrides": {"shrink": LABEL}},
        "MuiOutlinedInput": {"styleOverrides": {"notchedOutline": {"& legend": {"fontSize": "0.875em"}}}},
        "MuiTooltip": {
            "defaultProps": {"disableInteractive": True},  # a tip may cover the next button: clicks pass through it
            "styleOverrides": {"tooltip": TIP},
        },
        "MuiFormHelperText": {"styleOverrides": {"root": {"fontSize": "0.875rem", "marginLeft": 0}}},
        "MuiAccordion": {"styleOverrides": {"root": {**flat, "backgroundColor": "transparent", **STILL}}},
        "MuiToggleButton": {
            "styleOverrides": {"root": {"textTransform": "none", "fontSize": "0.875rem", "color": colours["ink"]}}
        },
        "MuiTab": {"styleOverrides": {"root": {"textTransform": "none", "fontSize": "1rem", "minHeight": "56px"}}},
    }


def colours(dark: bool) -> dict[str, str]:
    """Return the colours of the dark or the light scheme by name."""
    return DARK if dark else LIGHT


def heading(words: str) -> pn.pane.HTML:
    """Return a title above a plot, in the page's font."""
    return html_pane(f"<h2>{escape(words)}</h2>")


THEME: dict[str, Any] = {"light": _scheme(LIGHT), "dark": _scheme(DARK)}


def html_pane(html: str = "", *sheets: str, **options: Any) -> pn.pane.HTML:
    """Return a pane for trusted HTML in the page's font and colours; sheets: additional CSS."""
    given = {"margin": 0, "sizing_mode": "stretch_width", **options}
    return pn.pane.HTML(html, stylesheets=[stylesheet(), *sheets], **given)


@cache
def stylesheet() -> str:
    """Return assets/style.css, preceded by the colours of both schemes as CSS variables."""
    scales = "".join(f"--{name}: {value};" for name, value in LIGHT.items())
    dark = "".join(f"--{name}: {value};" for name, value in DARK.items())
    head = f":root {{{scales}}}\n:root[data-scheme=dark] {{{dark}}}\n"
    return head + (ASSETS / "style.css").read_text(encoding="utf-8")


SIZES = (
    *("major_label_text_font_size", "axis_label_text_font_size", "label_text_font_size", "title_text_font_size"),
    "text_font_size",
)
WITH_TEXT = (ColorBar, Legend, Label)  # in addition to the axes
DIGIT = 0.58  # width of a digit, relative to the font size
# 0.0004 instead of 4.000e-4, but 4e-5 if all ticks are that small, because long rows of zeros are hard to count. As
# many digits as distinguish neighbouring ticks, three for a single tick.
SHORT_NUMBER = """
const place = (x) => Math.floor(Math.log10(Math.abs(x)));
const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0;
const digits = step && tick ? place(tick) - place(step) + 1 : 3;
const short = Number(tick.toPrecision(Math.min(Math.max(digits, 3), 15)));
const most = Math.max(...ticks.map(Math.abs));
if (!short || (most >= 1e-4 && most < 1e6) || digits > 6) return String(short);
const [number, power] = short.toExponential().split('e');
const raised = String(Number(power)).replace(/./g, (c) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻');
return `${number}×10${raised}`;
"""
RESTORE = f"""
for (const name of {list(SIZES)})
  if (cb_obj[name]?.endsWith?.('em'))
    cb_obj[name] = getComputedStyle(document.documentElement).getPropertyValue('--small').trim() || '14px';
"""


def type_size(presenter: bool) -> int:
    """Return the smallest font size, in px."""
    return round(SMALL * PRESENTER_SCALE) if presenter else SMALL


def letter(presenter: bool) -> float:
    """Return the width of a digit at the smallest size, in px."""
    return DIGIT * type_size(presenter)


def set_type(plot: figure, presenter: bool = False) -> None:
    """Set all text of `plot` to the small size of the page, or of presenter mode."""
    size = f"{type_size(presenter)}px"
    for part in _with_text(plot):
        for name in SIZES:
            if name in part.properties():
                setattr(part, name, size)


def keep_type(plot: figure) -> None:
    """Set the font of `plot`, and restore it when the page's theme changes it."""
    set_type(plot)
    restore = CustomJS(code=RESTORE)
    for part in _with_text(plot):
        for name in SIZES:
            if name in part.properties():
                setattr(part, name.replace("_size", ""), FAMILY)
                part.js_on_change(name, restore)


def _with_text(plot: figure) -> list[Any]:
    around = (*plot.left, *plot.right, *plot.above, *plot.below, *plot.center)
    return [*plot.axis, *(part for part in around if isinstance(part, WITH_TEXT))]
