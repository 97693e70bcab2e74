"""Opening a page: its requests and messages, the loading text, and a lab that runs before the page is drawn."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.lab_page import LabPage

# Running animations of the document, and whether an overlay covers it.
MOVING = "document.getAnimations().map((one) => one.animationName ?? one.transitionProperty)"
COVERED = """() => {
  const over = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
  return over?.id == 'loader' || getComputedStyle(document.body).pointerEvents == 'none';
}"""


def test_a_static_text_is_shown_until_the_page_is_drawn(page, server):
    page.route("**/panel-material-ui.bundle.js*", lambda route: None)  # never answered, so the page is not drawn
    page.goto(server.url, wait_until="commit")
    expect(page.get_by_role("status").filter(has_text="Loading")).to_be_visible()
    page.wait_for_function("window.Bokeh?.documents?.length")
    expect(page.locator("#loader")).to_have_text("Loading")
    assert page.evaluate(MOVING) == []
    assert page.evaluate(COVERED) is False


def test_a_page_without_its_server_shows_an_error(page, server, allowed_errors):
    allowed_errors.append(".*")
    page.route_web_socket("**/ws*", lambda socket: socket.close(code=1011))
    page.goto(server.url, wait_until="commit")
    expect(page.locator("#loader")).to_have_text("The server does not answer.")


def test_a_page_uses_its_own_server_only(page, server):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("websocket", lambda socket: requested.append(socket.url))
    lab = LabPage(page, server)
    expect(page.locator("#loader")).to_have_count(0)
    for tab in page.get_by_role("tab").all()[1:]:
        lab.show_lab(tab.inner_text())
        lab.still(lambda: len(requested), 1.0)  # s: requests after the switch
    own = f"localhost:{server.port}"
    parts = [part for part in map(urlsplit, requested) if part.scheme not in {"data", "blob"}]
    assert {(part.scheme, part.netloc) for part in parts} == {("http", own), ("ws", own)}


# A busy machine sends "document_ready" only after some seconds. These pages never send it: an empty patch replaces the
# event, which is one part of a message whose other parts must be sent.
NEVER_READY = """(() => {
  const { send } = WebSocket.prototype;
  window.held = 0;
  WebSocket.prototype.send = function (data) {
    const ready = typeof data == 'string' && data.includes('"name":"document_ready"');
    window.held += ready;
    return send.call(this, ready ? '{"events":[]}' : data);
  };
})()"""


def test_a_lab_runs_saves_and_handles_keys_before_its_page_reports_that_it_is_drawn(page, server):
    page.add_init_script(NEVER_READY)
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
    page.add_init_script(NEVER_READY)
    page.goto(f"{server.url}?scene=1.damaged")
    page.get_by_text("The link cannot be shown").wait_for()
    page.get_by_text("Running", exact=True).wait_for()
