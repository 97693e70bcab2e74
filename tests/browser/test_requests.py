"""What a page asks for: nothing of any other machine, whatever tab is shown, and each module once."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Page

from tests.browser.lab_page import LabPage
from tests.browser.serving import Server


def test_a_page_asks_its_own_server_alone_and_for_its_components_once(page: Page, server: Server):
    """Their module comes while the page does, and is run as it came, not as a copy that has to be compiled anew."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    LabPage(page, server)
    modules = [url for url in asked if "panel-material-ui.bundle.js" in url]
    assert len(modules) == 1
    first = next(index for index, url in enumerate(asked) if url.startswith("blob:"))  # Panel's own, once it draws
    assert asked.index(modules[0]) < first
    assert not [url for url in asked if "bokeh-gl" in url]
    for tab in page.get_by_role("tab").all()[1:]:
        tab.click()
        page.wait_for_timeout(1500)
    own = f"localhost:{server.port}"
    places = {(parts.scheme, parts.netloc) for parts in map(urlsplit, asked) if parts.scheme not in {"data", "blob"}}
    assert places == {("http", own), ("ws", own)}
