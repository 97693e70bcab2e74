"""The loading text: static, removed once the page is drawn, and replaced by an error if the server fails."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab_page import LabPage

# Running animations of the document, and whether an overlay covers it.
MOVING = "document.getAnimations().map((one) => one.animationName ?? one.transitionProperty)"
COVERED = """() => {
  const over = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
  return over?.id == 'loader' || getComputedStyle(document.body).pointerEvents == 'none';
}"""


@pytest.fixture
def page(new_page):
    return new_page()


def test_a_static_text_is_shown_until_the_page_is_drawn(page, server):
    page.route("**/panel-material-ui.bundle.js*", lambda route: None)  # never answered, so the page is not drawn
    page.goto(server.url, wait_until="commit")
    expect(page.get_by_role("status").filter(has_text="Loading")).to_be_visible()
    page.wait_for_function("window.Bokeh?.documents?.length")
    expect(page.locator("#loader")).to_have_text("Loading")
    assert page.evaluate(MOVING) == []
    assert page.evaluate(COVERED) is False


def test_the_text_is_removed_once_the_page_is_drawn(page, server):
    LabPage(page, server)
    expect(page.locator("#loader")).to_have_count(0)


def test_a_page_without_its_server_shows_an_error(page, server, allowed_errors):
    allowed_errors.append(".*")
    page.route_web_socket("**/ws*", lambda socket: socket.close(code=1011))
    page.goto(server.url, wait_until="commit")
    expect(page.locator("#loader")).to_have_text("The server does not answer.")
