"""Workarounds for behaviour of Panel and Bokeh, apart from those in the modules of a single topic."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from bokeh.document import Document
from panel.io.resources import LOCAL_DIST
from panel.models.browser import BrowserInfo
from panel.util import edit_readonly
from panel.widgets.select import SingleSelectBase
from tornado.ioloop import IOLoop

from app.upstream.internals import PropertyChange, set_loaded, wrap_property_change

log = logging.getLogger(__name__)

HOUR = 3_600_000  # ms; longer than any callback runs


def begin_housekeeping() -> None:
    """Start Panel's process-wide housekeeping task for busy widgets now, before the first page.

    The task never ends. Panel starts it at the first event of any widget, and a task keeps a reference to the context
    in which it was created: the whole page of the first visitor would stay in memory.

    This function causes an event by a callback that Panel calls once and then cancels. Panel cancels it while it waits
    for its next period. A callback that runs for longer than its period never waits, and blocks the loop (a period of
    1 ms did so on a slow computer), so the period is an HOUR.
    """
    IOLoop.current().add_callback(pn.state.add_periodic_callback, _nothing, period=HOUR, count=1)


def load_early(document: Document) -> None:
    """Mark the page of `document` as loaded and run `pn.state.onload` once its browser receives changes.

    Without this, Panel marks the page as loaded when the last component is drawn, 1 to 2 s later. Until then it treats
    the page as not yet sent, and drops changes made under a hold, which include all changes of layouts and components
    (`panel.io.document._drain_unconnected_events`). A browser however receives every change as soon as each root has
    its views. It creates the views one root after the other; Panel's BrowserInfo model, which is a root after the page,
    sends the browser's properties as soon as it has a view. An earlier change could reach views that do not listen yet.
    """

    def load(attr: str, old: object, new: object) -> None:
        """Mark the page as loaded; the document's "ready" event does so again, without effect."""
        set_loaded(document)

    for browser in document.select({"type": BrowserInfo}):
        browser.on_change("device_pixel_ratio", load)


def _nothing() -> None:
    """Do nothing: the event itself is enough."""


class NeverBusy(param.Parameterized):
    """A busy flag of one page. The process-wide flag's watchers would keep every closed page alive."""

    busy = param.Boolean(default=False)


def never_busy(page: Any) -> None:
    """Replace the busy flag of a page template by a separate one that never changes."""
    with edit_readonly(page):
        page.busy = NeverBusy().param.busy


def serve_own_files(document: Document) -> None:
    """Load the style sheets of `document` from this server from the start; Panel does so once it writes the HTML."""
    folder = pn.state.rel_path
    document.template_variables["dist_url"] = f"{folder}/{LOCAL_DIST}" if folder else LOCAL_DIST


MOST_TEXT = 5000  # characters of a text field: Panel's default of max_length, which a message could raise


def font_files() -> list[str]:
    """Return the addresses, below static/extensions/, of the fonts that every page needs: regular and bold."""
    folder = Path(str(pmui.__file__)).parent / "dist"
    found = [next(iter(sorted(folder.glob(f"roboto-latin-{weight}-normal-*.woff2"))), None) for weight in (400, 700)]
    return [f"panel-material-ui/{path.name}" for path in found if path is not None]


def refuse_what_is_no_option() -> None:
    """Make selection widgets refuse messages with a value other than their options, with one line in the log.

    Panel looks up the received value without a check: an unknown or unhashable value raises an exception, and the log
    gets its traceback.
    """
    for kind, key in (SingleSelectBase, str), (pmui.DiscreteSlider, int):
        wrap_property_change(kind, _options_only(key))


def refuse_what_no_field_sends() -> None:
    """Make text fields refuse values other than strings of at most MOST_TEXT characters, with one line in the log.

    The browser's field sends only such strings. Panel parses a number as Python code in the event loop: 4 MB of text
    took half a minute and gigabytes of memory. None passes Panel's check and then fails in the parser of the text.
    """
    for kind in pmui.TextInput, pmui.LiteralInput:
        wrap_property_change(kind, _texts_only)


def _texts_only(given: PropertyChange) -> PropertyChange:
    """Return a replacement of `given` that drops values other than short strings from messages."""

    def change(widget: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Pass on the accepted part of a message."""
        sent = {name: message[name] for name in ("value", "value_input") if name in message}
        refused = [name for name, text in sent.items() if not isinstance(text, str) or len(text) > MOST_TEXT]
        if refused:
            log.warning("a %s was sent no text of at most %d characters", type(widget).__name__, MOST_TEXT)
            message = {name: its for name, its in message.items() if name not in refused}
        return given(widget, message)

    return change


def _options_only(key: type) -> Callable[[PropertyChange], PropertyChange]:
    """Return a wrapper for a widget's message reader that drops values other than the widget's options.

    key: str for messages with the name of an option, int for messages with its index.
    """

    def wrap(given: PropertyChange) -> PropertyChange:
        """Return the replacement of `given`."""

        def change(widget: Any, message: dict[str, Any]) -> dict[str, Any]:
            """Pass on the accepted part of a message."""
            options = range(len(widget.labels)) if key is int else [*widget.unicode_values, *widget.labels]
            value = message.get("value")
            if options and "value" in message and (type(value) is not key or value not in options):
                count = len(widget.labels)
                log.warning("a %s of %d options was sent another: %.99r", type(widget).__name__, count, value)
                message = {name: its for name, its in message.items() if name != "value"}
            return given(widget, message)

        return change

    return wrap
