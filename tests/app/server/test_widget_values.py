"""Values that a browser sends to widgets are bounded."""

from __future__ import annotations

import logging

import panel_material_ui as pmui
import pytest
from panel.widgets.select import SingleSelectBase

from app.server import widget_values
from app.server.widget_values import MOST_TEXT


@pytest.fixture
def bounded(monkeypatch):
    """The bounds, for one test."""
    for kind in (SingleSelectBase, pmui.DiscreteSlider, pmui.TextInput, pmui.TextAreaInput, pmui.LiteralInput):
        monkeypatch.setattr(kind, "_process_property_change", kind._process_property_change)
    widget_values.install()


@pytest.mark.parametrize(
    ("widget", "hostile", "good", "becomes"),
    [
        (pmui.Select(options=["a", "b"], value="a"), ("z", None, 7, ["b"], {}), "b", "b"),
        (pmui.RadioButtonGroup(options={"one": 1, "two": 2}, value=1), ("z", None, 7.5, ["two"], {}), "two", 2),
        (pmui.DiscreteSlider(options={"low": 10, "high": 20}, value=10), ("z", None, 2, -1, 1.5, True, 1e308), 1, 20),
    ],
)
def test_a_value_that_is_no_option_is_refused(bounded, caplog, widget, hostile, good, becomes) -> None:
    """Found by a fuzz of messages."""
    before = widget.value
    for value in hostile:
        caplog.clear()
        widget._process_events({"value": value})
        assert widget.value == before
        (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert type(widget).__name__ in record.getMessage()
        assert not record.exc_info
    widget._process_events({"value": good})
    assert widget.value == becomes


@pytest.mark.parametrize("kind", [pmui.TextInput, pmui.TextAreaInput, pmui.LiteralInput])
def test_a_text_field_refuses_other_values_and_long_texts(bounded, caplog, kind) -> None:
    """Python's parser used to get any text on the loop: 4 MB took half a minute and 1.8 GB."""
    widget = kind(value=7 if kind is pmui.LiteralInput else "7")
    before = widget.value
    widget._process_events({"max_length": 10**9})
    for name in ("value", "value_input"):
        for hostile in ("8" * (MOST_TEXT + 1), ["8" * MOST_TEXT], None, 8, b"8"):
            caplog.clear()
            widget._process_events({name: hostile})
            assert widget.value == before
            (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
            assert kind.__name__ in record.getMessage()
    widget._process_events({"value": "8"})
    assert str(widget.value) == "8"
