"""The delay between a change of a widget and its callbacks."""

from __future__ import annotations

from types import SimpleNamespace

import panel as pn
from panel.reactive import Syncable

from app.upstream import event_pause


def test_a_press_is_handled_immediately_and_a_drag_twenty_times_a_second(monkeypatch):
    """Milliseconds that Panel waits after a message of a browser: each component has its own delays."""
    monkeypatch.setattr(Syncable, "_debounce", Syncable._debounce)
    now = [100.0]
    monkeypatch.setattr(event_pause, "time", SimpleNamespace(monotonic=lambda: now[0]))
    event_pause.install()
    slider, other = pn.widgets.FloatSlider(), pn.widgets.FloatSlider()

    def waits(seconds, component=slider):
        """Return the delay of a message that arrives `seconds` later."""
        now[0] += seconds
        return component._debounce

    assert waits(0) == 5
    assert [waits(0.016), waits(0.050), waits(0.049)] == [39, 39, 40]  # each is due 50 ms after the previous one
    assert waits(0.001, other) == 5
    assert waits(0.2) == 5
