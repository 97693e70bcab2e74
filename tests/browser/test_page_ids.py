"""A page belongs to the browser that requested it, which keeps it by a cookie."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.lab_page import LabPage
from tests.browser.serving import Server
from tests.browser.test_reconnect import BREAK, NOISE, SOCKETS, reconnect


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser context with separate cookies."""
    context = browser.new_context(device_scale_factor=1)
    yield context
    context.close()


@pytest.fixture
def other_site(server: Server) -> Iterator[str]:
    """Yield the address of another site, with a link to the app."""

    class Link(BaseHTTPRequestHandler):
        """Answers each GET with the link."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<link rel="icon" href="data:,"><a href="{server.url}">Fieldlab</a>'.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Link) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


def test_a_page_reconnects_after_a_link_of_another_site_was_opened(new_page, server, other_site, allowed_errors):
    """Browsers omit the cookie from a cross-site request, so that this browser receives a second one."""
    allowed_errors += NOISE
    first = new_page()
    first.add_init_script(SOCKETS)
    lab = LabPage(first, server)
    first.evaluate("() => { window.not_reloaded = true; }")
    second = new_page()
    second.goto(other_site)
    second.get_by_role("link", name="Fieldlab").click()
    second.wait_for_url(server.url)
    second.locator("canvas").first.wait_for()
    second.bring_to_front()
    first.bring_to_front()
    reconnect(lab)
    lab.steps_on()
    assert first.evaluate("window.not_reloaded") is True
    names = [one["name"] for one in first.context.cookies() if one["name"].startswith("fieldlab_browser")]
    assert len(names) == 2


def test_a_browser_that_loses_its_cookies_shows_a_notice(new_page, server, allowed_errors):
    allowed_errors += [*NOISE, "stores no cookies"]
    page = new_page()
    page.add_init_script(SOCKETS)
    lab = LabPage(page, server)
    page.context.clear_cookies()
    page.evaluate(BREAK)
    notice = page.get_by_role("alert").filter(has_text="Allow cookies, then reload the page.")
    notice.wait_for()
    assert lab.still(notice.is_visible, 4.0)  # s: longer than the pause before a reload
    page.reload()
    lab.until(lambda: page.locator("canvas").count() > 0)
