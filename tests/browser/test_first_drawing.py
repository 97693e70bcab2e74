"""A lab starts while its browser still draws the page, and no change made in that time is lost.

In these tests the browser never sends "document_ready", which a busy machine sends after some seconds. The server must
not wait for it, and must send all earlier changes.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab_page import LabPage

# Sends an empty patch in place of the event: it is one part of a message, and each part must be sent.
NEVER_READY = """(() => {
  const { send } = WebSocket.prototype;
  window.held = 0;
  WebSocket.prototype.send = function (data) {
    const ready = typeof data == 'string' && data.includes('"name":"document_ready"');
    window.held += ready;
    return send.call(this, ready ? '{"events":[]}' : data);
  };
})()"""


@pytest.fixture
def page(new_page):
    page = new_page()
    page.add_init_script(NEVER_READY)
    return page


def test_a_lab_runs_saves_and_handles_keys_before_its_page_reports_that_it_is_drawn(page, server):
    lab = LabPage(page, server)  # waits for the first frames
    lab.key("e")
    page.get_by_role("button", name="Timings", exact=True).first.click()
    expect(page.get_by_role("button", name=re.compile("^CSV: "))).to_be_enabled()
    lab.key("e")
    lab.until(lambda: "Running" in lab.status())
    lab.key("Space")
    lab.until(lambda: "Paused" in lab.status())
    lab.until(lambda: page.evaluate("window.held"))  # the event was held back, so the page has been drawn


def test_a_notice_is_shown_before_the_page_is_drawn_completely(page, server):
    page.goto(f"{server.url}?scene=1.damaged")
    page.get_by_text("The link cannot be shown").wait_for()
    page.get_by_text("Running", exact=True).wait_for()
