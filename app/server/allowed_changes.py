"""The properties that a browser may change, and the events that it may send, by name.

The tables list the changes and events that pages send, recorded while all browser tests ran (tests/browser/recorded.py
repeats the recording and prints every difference). A server under test fails at shutdown if it discarded anything
else. Properties with code or markup (code, esm, text, html, stylesheets, tags, args …) are never listed.
"""

from __future__ import annotations

from collections.abc import Mapping

CHOICE = frozenset({"value", "active"})
SLIDER = frozenset({"value", "value_throttled"})
TEXT = frozenset({"value", "value_input"})
LOCATION = frozenset({"hash", "hash_", "hostname", "href", "pathname", "port", "protocol", "search"})
SIZES = frozenset({"inner_width", "inner_height", "outer_width", "outer_height"})

ALLOWED: Mapping[str, frozenset[str]] = {  # class of a model, or component of a data model -> properties
    "Accordion": frozenset({"active"}),
    "Alert": frozenset({"closed"}),
    "CheckButtonGroup": CHOICE,
    "Dialog": frozenset({"open"}),
    "DiscreteSlider": SLIDER,
    "Figure": SIZES,
    "FloatSlider": SLIDER,
    "FoldHead": frozenset({"unfolded"}),
    "IntSlider": SLIDER,
    "LiteralInput": TEXT,
    "Page": frozenset({"contextbar_open", "dark_theme", "sidebar_open"}),
    "RadioButtonGroup": CHOICE,
    "Range1d": frozenset({"start", "end"}),
    "Select": frozenset({"value"}),
    "Selection": frozenset({"indices"}),
    "Span": frozenset({"location"}),
    "Switch": frozenset({"value"}),
    "TabMenu": frozenset({"active"}),
    "TextAreaInput": TEXT,
    "TextInput": TEXT,
    "app.labs.mandelbrot.pan_zoom_view.PointerState": frozenset({"pointer", "seen"}),
    "app.tab.stream.Acknowledgement": frozenset({"value", "transport"}),
    "panel.models.browser.BrowserInfo": frozenset({"dark_mode", "device_pixel_ratio"}),
}

# Properties of ALLOWED that take finite numbers, though Bokeh allows dates, factors of a category and NaN, too.
NUMBERS: Mapping[str, frozenset[str]] = {"Range1d": frozenset({"start", "end"}), "Span": frozenset({"location"})}

EVENTS = frozenset({
    "client_reconnected", "connection_lost", "data_event", "document_ready", "dom_event", "doubletap", "pan", "panend",
    "panstart", "rangesupdate", "tap",
})  # fmt: skip

# Changes that the libraries of a page send as well and that the server has no use for; discarded without a log line.
UNUSED: Mapping[str, frozenset[str]] = {
    "BoxAnnotation": frozenset({"left", "right", "bottom", "top", "visible"}),  # of the tool that zooms to a box
    "FileDownload": frozenset({"disabled", "label"}),
    "Figure": frozenset({"background_fill_color", "border_fill_color", "outline_line_color", "outline_line_alpha"}),
    "Select": frozenset({"dropdown_open"}),
    "Selection": frozenset({"multiline_indices"}),
    "Toolbar": frozenset({"stylesheets"}),
    "panel.models.browser.BrowserInfo": frozenset({"language", "timezone", "timezone_offset", "webdriver", "webgl"}),
    "panel.models.esm.ReactComponent": frozenset({"tags"}),
    "panel.models.layout.Column": frozenset({"scroll_position"}),
    "panel.models.location.Location": LOCATION,
}
UNUSED_OF_COMPONENTS = frozenset({"dark_theme"})
