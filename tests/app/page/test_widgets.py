"""Widgets whose options change."""

from __future__ import annotations

import panel_material_ui as pmui

from app.page.widgets import set_options


def test_a_drop_down_shows_the_new_label_of_the_same_value():
    widget = pmui.Select(options={"several steps per pass": "", "one step per pass": "one-step"}, value="")
    shown, seen = widget.get_root(), []
    widget.param.watch(lambda event: seen.append(event.new), "value")
    set_options(widget, {"one step per pass": ""}, "")
    assert (widget.value, shown.data.value, shown.data.options) == ("", "one step per pass", ["one step per pass"])
    seen.clear()
    set_options(widget, {"one step per pass": "", "two": "two"}, "")  # the same label
    assert (shown.data.value, seen) == ("one step per pass", [])
    set_options(widget, ["a", "b"], "b")
    assert (widget.value, shown.data.value) == ("b", "b")
