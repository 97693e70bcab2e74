"""Requests of a page: none to another machine in any tab, each module once."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import Page

from tests.browser.lab_page import LabPage
from tests.browser.serving import Server


def test_a_page_uses_its_own_server_only_and_loads_its_components_once(page: Page, server: Server):
    """The components' module is requested with the page and run from its URL, not from a copy compiled again."""
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("websocket", lambda socket: requested.append(socket.url))
    lab = LabPage(page, server)
    modules = [url for url in requested if "panel-material-ui.bundle.js" in url]
    assert len(modules) == 1
    first = next(
        index for index, url in enumerate(requested) if url.startswith("blob:")
    )  # Panel's modules, once it draws
    assert requested.index(modules[0]) < first
    for tab in page.get_by_role("tab").all()[1:]:
        lab.show_lab(tab.inner_text())
        lab.still(lambda: len(requested), 1.0)  # s: requests after the switch
    own = f"localhost:{server.port}"
    places = {
        (parts.scheme, parts.netloc) for parts in map(urlsplit, requested) if parts.scheme not in {"data", "blob"}
    }
    assert places == {("http", own), ("ws", own)}


LINK = """() => {
  const { ImportedStyleSheet } = Bokeh.require('models/dom/stylesheets');
  const sheet = new ImportedStyleSheet({ url: 'https://cdn.holoviz.org/panel/1.9.4/dist/css/loading.css' });
  return sheet.underlying().el.href;
}"""


def test_a_style_sheet_of_a_cdn_is_loaded_from_this_server(page: Page, server: Server):
    LabPage(page, server)
    assert page.evaluate(LINK) == f"http://localhost:{server.port}/static/extensions/panel/css/loading.css"
