"""Messages that a browser sends unprompted when a lab is opened; each of them blocks the event loop of all tabs."""

from __future__ import annotations

import json

import pytest

from tests.browser.lab_page import LabPage

pytestmark = pytest.mark.extended

# Set properties of plot parts as a theme does, and read them; then set tags, which the server does receive, after all
# earlier messages.
SET = """() => {
  const document = Bokeh.documents[0], kinds = /(Axis|ColorBar|Grid)$/, set = [];
  for (const part of document.roots().flatMap((root) => [...root.references()])) {
    if (!kinds.test(part.type)) continue;
    const name = part.type.endsWith('Grid') ? 'grid_line_alpha' : 'major_tick_line_alpha';
    part.setv({ [name]: 0.125 });
    part[name] = 0.25;
    set.push(part[name]);
  }
  document.roots()[0].tags = ['said'];
  return set;
}"""
THEMED = ("_alpha", "_color", "_font", "_font_size", "_font_style", "_standoff")  # suffixes of themed properties


@pytest.fixture
def traffic(new_page, server):
    """Return the lab, and a list of the properties that the browser sends to the server."""
    page, traffic = new_page(), []

    def hear(text):
        if isinstance(text, str) and text.startswith('{"events"'):
            traffic.extend(event["attr"] for event in json.loads(text)["events"] if event["kind"] == "ModelChanged")

    page.on("websocket", lambda socket: socket.on("framesent", hear))
    return LabPage(page, server), traffic


def test_changes_of_plots_by_a_theme_are_not_sent(traffic):
    lab, names = traffic
    lab.page.locator("button", has_text="Measure again").wait_for()
    lab.until(lambda: "inner_width" in names)  # a plot was drawn
    values = lab.page.evaluate(SET)
    assert len(values) > 5
    assert set(values) == {0.25}
    lab.until(lambda: "tags" in names)
    assert [name for name in names if name.endswith(THEMED)] == []
