"""What a page asks for: nothing of any other machine, whatever tab is shown."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Page

from tests.browser.lab_page import LabPage
from tests.browser.serving import Server


def test_no_request_leaves_the_machine(page: Page, server: Server):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    LabPage(page, server)
    for tab in page.get_by_role("tab").all()[1:]:
        tab.click()
        page.wait_for_timeout(1500)
    own = f"localhost:{server.port}"
    places = {(parts.scheme, parts.netloc) for parts in map(urlsplit, asked) if parts.scheme not in {"data", "blob"}}
    assert places == {("http", own), ("ws", own)}
