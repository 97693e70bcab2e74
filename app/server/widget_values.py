"""Bounds for the values that a browser sends to widgets, enforced before Panel parses them.

A selection widget accepts only its options, and a text field only texts of at most MOST_TEXT characters. A refused
value is dropped with one line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui
from panel.widgets.select import SingleSelectBase

from app.upstream.internals import PropertyChange, wrap_property_change

log = logging.getLogger(__name__)

MOST_TEXT = 5000  # characters of a text field: Panel's default of max_length, which a message could raise


def install() -> None:
    """Bound the values of all selection widgets and text fields of this process."""
    # Panel looks up a received option without a check: an unknown or unhashable value raises an exception, and the log
    # gets its traceback.
    for kind, key in (SingleSelectBase, str), (pmui.DiscreteSlider, int):
        wrap_property_change(kind, _options_only(key))
    # The browser's fields send only strings. Panel parses a number as Python code in the event loop: 4 MB of text took
    # half a minute and gigabytes of memory. None passes Panel's check and then fails in the parser of the text.
    for kind in pmui.TextInput, pmui.TextAreaInput, pmui.LiteralInput:
        wrap_property_change(kind, _texts_only)


def _texts_only(given: PropertyChange) -> PropertyChange:
    """Return a replacement of `given` that drops values other than short strings from messages."""

    def change(widget: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Pass on the accepted part of a message."""
        sent = {name: message[name] for name in ("value", "value_input") if name in message}
        refused = [name for name, text in sent.items() if not isinstance(text, str) or len(text) > MOST_TEXT]
        if refused:
            log.warning(
                "refused a value of a %s: not a text of at most %d characters", type(widget).__name__, MOST_TEXT
            )
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
                log.warning(
                    "refused a value of a %s: not one of its %d options: %.99r", type(widget).__name__, count, value
                )
                message = {name: its for name, its in message.items() if name != "value"}
            return given(widget, message)

        return change

    return wrap
