"""What Panel and Bokeh do otherwise than needed, or offer only in private, and what no other module here is about."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from bokeh.document import Document
from panel.models.browser import BrowserInfo
from panel.util import edit_readonly
from panel.widgets.select import SingleSelectBase
from tornado.ioloop import IOLoop

from app.upstream.inline_stylesheets import EXTENSIONS
from app.upstream.internals import PropertyChange, set_loaded, wrap_property_change

log = logging.getLogger(__name__)

HOUR = 3_600_000  # ms: longer than a turn of any callback


def begin_housekeeping() -> None:
    """Have Panel begin its process-wide housekeeping of busy widgets now, before there is a page.

    It is a task that never ends. Panel begins it with the first event of any widget, and a task keeps the context it
    was begun in: the whole page of the first visitor would stay in memory.

    The event is a callback that Panel calls once and cancels. It is cancelled where it would wait for its next turn: a
    turn that takes longer than its period waits for nothing, and holds the loop (1 ms did so on a slow computer).
    """
    IOLoop.current().add_callback(pn.state.add_periodic_callback, _nothing, period=HOUR, count=1)


def load_early(document: Document) -> None:
    """Have Panel take the page of `document` for loaded, and run `pn.state.onload`, once its browser hears of changes.

    By itself Panel does so when the last component is drawn, one to two seconds later. Until then it takes the page for
    one that is still to be sent, and drops what is changed under a hold, which is all that a layout or a component is
    told (`panel.io.document._drain_unconnected_events`). But a browser hears of every change as soon as each root has
    its views: it makes them one root after the other, and one that Panel adds behind the page says at once what browser
    this is. A change that came sooner could meet views that do not listen yet.
    """

    def load(attr: str, old: object, new: object) -> None:
        """Load; the document's "ready" does it once more, and finds nothing to do."""
        set_loaded(document)

    for browser in document.select({"type": BrowserInfo}):
        browser.on_change("device_pixel_ratio", load)


def _nothing() -> None:
    """An event is enough."""


class NeverBusy(param.Parameterized):
    """Takes the place of the process-wide busy flag, whose watchers would keep every closed page alive."""

    busy = param.Boolean(default=False)


def never_busy(page: Any) -> None:
    """Give a page template a busy flag of its own."""
    with edit_readonly(page):
        page.busy = NeverBusy().param.busy


MOST_TEXT = 5000  # characters of a text field: Panel's max_length, which a message may set, too


def font_files() -> list[str]:
    """The fonts that every page needs, as addresses below static/extensions/: its letters, plain and bold."""
    folder = EXTENSIONS["panel-material-ui"]
    found = [next(iter(sorted(folder.glob(f"roboto-latin-{weight}-normal-*.woff2"))), None) for weight in (400, 700)]
    return [f"panel-material-ui/{path.name}" for path in found if path is not None]


def refuse_what_is_no_option() -> None:
    """Have a widget of options refuse a message whose value is none of them, with one line in the log.

    Panel looks up what came, and what is not there, or cannot be, ends in an exception with its traceback.
    """
    for kind, key in (SingleSelectBase, str), (pmui.DiscreteSlider, int):
        wrap_property_change(kind, _options_only(key))


def refuse_what_no_field_sends() -> None:
    """Have a text field refuse messages of more than MOST_TEXT characters, or without a text, with a line in the log.

    The browser's field sends neither. Panel parses a number as Python code, on the loop: 4 MB took half a minute and
    gigabytes. None passes Panel's own check and then fails in the function that parses the text.
    """
    for kind in pmui.TextInput, pmui.LiteralInput:
        wrap_property_change(kind, _texts_only)


def _texts_only(given: PropertyChange) -> PropertyChange:
    """Return a reader of messages that refuses other values than short texts."""

    def change(widget: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Read the part of a message that is not refused."""
        sent = {name: message[name] for name in ("value", "value_input") if name in message}
        refused = [name for name, text in sent.items() if not isinstance(text, str) or len(text) > MOST_TEXT]
        if refused:
            log.warning("a %s was sent no text of at most %d characters", type(widget).__name__, MOST_TEXT)
            message = {name: its for name, its in message.items() if name not in refused}
        return given(widget, message)

    return change


def _options_only(key: type) -> Callable[[PropertyChange], PropertyChange]:
    """Return what wraps a reader of messages: it then refuses a value that is no option of the widget.

    key: str for messages that name an option, int for those that hold its index.
    """

    def wrap(given: PropertyChange) -> PropertyChange:
        """Return the reader."""

        def change(widget: Any, message: dict[str, Any]) -> dict[str, Any]:
            """Read the part of a message that is not refused."""
            options = range(len(widget.labels)) if key is int else [*widget.unicode_values, *widget.labels]
            value = message.get("value")
            if options and "value" in message and (type(value) is not key or value not in options):
                count = len(widget.labels)
                log.warning("a %s of %d options was sent another: %.99r", type(widget).__name__, count, value)
                message = {name: its for name, its in message.items() if name != "value"}
            return given(widget, message)

        return change

    return wrap
