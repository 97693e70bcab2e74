"""Use Panel's style sheets as shared text in each component, instead of links."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import panel as pn
import panel_material_ui

from app.upstream.fix import BOKEHJS, PANEL_ESM, Code, Fix

EXTENSIONS = {
    "panel": Path(str(pn.__file__)).parent / "dist",
    "panel-material-ui": Path(str(panel_material_ui.__file__)).parent / "dist",
}
SHEETS = (  # sheets to which components link in their shadow roots
    "panel/css/loading.css",
    "panel/css/listpanel.css",
    "panel/css/markdown.css",
    "panel/bundled/theme/material.css",
    "panel/bundled/theme/material_variables.css",
    "panel-material-ui/panel-material-ui.bundle.css",
)
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")  # has no effect in a shadow root


@cache
def stylesheets() -> dict[str, str]:
    """Return the text of each style sheet without its @font-face rules, by address below static/extensions/."""
    found = {}
    for name in SHEETS:
        extension, _, path = name.partition("/")
        found[name] = FONT_FACE.sub("", (EXTENSIONS[extension] / path).read_text(encoding="utf-8"))
    return found


FIX = Fix(
    name="inline_stylesheets",
    package="panel",
    versions="1.9, 1.10",
    kind="gain",
    purpose="256 links, each with a further layout of its component",
    report=(
        "Each component links to loading.css, the theme and its bundle's CSS in its own shadow root: the browser "
        "resolves each link after the component was drawn, then styles and lays it out again. Share constructed style "
        "sheets between components."
    ),
    replaces=(
        Code(f"{BOKEHJS}:ImportedStyleSheet.underlying", ("bf0180009a73",)),
        Code(f"{PANEL_ESM}/reactive_esm.js:ReactiveESMView.stylesheets", ("623c3e32b25a", "2b01d4a9f345")),
    ),
    script=Path(__file__).with_suffix(".js"),
    data=stylesheets,
)
