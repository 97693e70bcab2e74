"""A lost connection, for example of a laptop on its way to another room: the page resumes its session at full speed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import serve
from tests.browser.test_transport import PIXELS, TRANSPORT

pytestmark = pytest.mark.extended

# Record the WebSockets of Bokeh and those for frames in order of creation, before any script of the page runs.
SOCKETS = """
  window.sockets = [];
  window.wires = [];
  window.WebSocket = class extends WebSocket {
    constructor(address, ...given) {
      super(address, ...given);
      (new URL(address).pathname.endsWith('/frames') ? window.wires : window.sockets).push(this);
    }
  };
"""
BREAK = "() => window.sockets.at(-1).close()"
BREAK_WITHIN_A_MESSAGE = """() => {
  const socket = window.sockets.at(-1);
  const begins = ({ data }) => typeof data == "string" && data.includes('"PATCH-DOC"');
  socket.addEventListener("message", (event) => { if (begins(event)) socket.close(); });
}"""
BREAK_FRAMES = "() => window.wires.at(-1).close()"
REOPENED = "(before) => window.wires.length > before && window.wires.at(-1).readyState == WebSocket.OPEN"
OPEN = "() => window.sockets.filter((socket) => socket.readyState == WebSocket.OPEN).length"
PARTS = "canvas", "input", "button", "[role=tab]"
NOISE = ["WebSocket is already in CLOSING", "Still in CONNECTING state", "not connected so cannot send"]


def reconnect(lab: LabPage, how: str = BREAK) -> None:
    """Break the connection, and wait for a new one."""
    count = lab.page.evaluate("window.sockets.length")
    lab.page.evaluate(how)
    lab.until(lambda: lab.page.evaluate("window.sockets.length") > count and lab.page.evaluate(OPEN) == 1)


def counted(page: Page) -> list[int]:
    """Return the number of elements of each kind in PARTS, to detect duplicates and losses."""
    return [page.locator(name).count() for name in PARTS]


def test_a_broken_connection_is_restored_without_losses(page, server, allowed_errors):
    """Values, steps and the fast transport survive; the lab is not restarted, so that steps only increase."""
    allowed_errors += NOISE  # the page acknowledges frames and reports sizes without a connection or while connecting
    page.add_init_script(SOCKETS)
    lab = LabPage(page, server)
    lab.until(lambda: page.evaluate(TRANSPORT) == "fast")
    lab.ratio(0.11)
    lab.until(lambda: not page.get_by_text("Measuring").count(), OPENING)  # the readout is complete
    for how in (BREAK, BREAK_WITHIN_A_MESSAGE, BREAK):
        parts = lab.still(lambda: counted(page), 3.0)
        before = lab.step()
        reconnect(lab, how)
        shown, pixels = lab.field()["number"], page.evaluate(PIXELS, "field")
        lab.until(lambda shown=shown: lab.field()["number"] > shown + 10)
        lab.until(lambda pixels=pixels: page.evaluate(PIXELS, "field") != pixels)
        lab.until(lambda before=before: lab.step() > before)
        lab.until(lambda parts=parts: counted(page) == parts)
        lab.until(lambda: lab.fact("r") == 0.11)
    assert page.evaluate(TRANSPORT) == "fast"
    lab.pause()  # messages to the server are received


def test_frames_arrive_without_the_frame_connection_which_is_opened_again(page, server, allowed_errors):
    allowed_errors += NOISE[:1]
    page.add_init_script(SOCKETS)
    lab = LabPage(page, server)
    lab.until(lambda: page.evaluate(TRANSPORT) == "fast")
    for _ in range(2):
        wires = page.evaluate("window.wires.length")
        page.evaluate(BREAK_FRAMES)
        lab.frames_on(10)
        lab.until(lambda wires=wires: page.evaluate(REOPENED, wires))
    page.evaluate("() => { window.wires.at(-1).onclose = null; window.wires.at(-1).close(); }")  # permanently
    lab.frames_on(10)
    assert page.evaluate("window.sockets.length") == 1


SOON = """() => {  // a page's pauses take a twentieth
  const {ClientConnection: {prototype}} = Bokeh.require('client/connection'), {_reconnect_delay} = prototype;
  prototype._reconnect_delay = function () { return _reconnect_delay.call(this) / 20; };
}"""
NO_SERVER = "ERR_CONNECTION_REFUSED", "Failed to connect to Bokeh server"
ASTRAY = """() => {
  window.old = true;
  window.WebSocket = class extends WebSocket { constructor(address, ...more) { super(`${address}&astray`, ...more); } };
}"""


def test_a_page_reconnects_to_a_server_that_was_restarted_later(page, tmp_path, allowed_errors):
    """Bokeh stops after five attempts, and a restarted server does not know the page."""
    allowed_errors += [*NO_SERVER, *NOISE]
    allowed_errors += ["status of 405"]  # logged if the page probes the server at this moment
    page.add_init_script(SOCKETS)
    with serve(tmp_path) as server:
        lab = LabPage(page, server)
        lab.ratio(0.11)
        lab.until(lambda: lab.fact("r") == 0.11)
        lab.pause()
        address = lab.still(lambda: page.url, 3.0)
        page.evaluate(SOON)
    page.wait_for_function("() => window.sockets.length > 8")
    with serve(tmp_path, port=server.port):
        page.wait_for_function("() => window.sockets?.length == 1")  # of the reloaded page
        lab.until(lambda: lab.fact("r") == 0.11)
        assert page.url == address
        page.goto("about:blank")


def test_a_page_that_the_server_refuses_is_reloaded(page, server, allowed_errors):
    """For example after an expired login, where reconnecting without a reload would never succeed."""
    allowed_errors += ["WebSocket", "status of 405", *NO_SERVER, *NOISE]
    page.add_init_script(SOCKETS)
    lab = LabPage(page, server)
    lab.pause()
    page.evaluate(SOON)
    page.route_web_socket(re.compile("astray"), lambda socket: socket.close())
    page.evaluate(ASTRAY)
    page.evaluate(BREAK)
    page.wait_for_function("() => !window.old && window.Bokeh?.documents.length == 1")
    lab.until(lambda: page.evaluate(TRANSPORT) == "fast")
