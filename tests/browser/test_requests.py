"""Requests of a page: none to another machine in any tab, each module and each style sheet once."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import Page

from tests.browser.lab_page import LabPage
from tests.browser.serving import Server


def test_a_page_asks_its_own_server_alone_and_for_its_components_once(page: Page, server: Server):
    """The components' module is requested with the page and run from its URL, not from a copy compiled again."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    lab = LabPage(page, server)
    modules = [url for url in asked if "panel-material-ui.bundle.js" in url]
    assert len(modules) == 1
    first = next(index for index, url in enumerate(asked) if url.startswith("blob:"))  # Panel's modules, once it draws
    assert asked.index(modules[0]) < first
    assert not [url for url in asked if "bokeh-gl" in url]
    for tab in page.get_by_role("tab").all()[1:]:
        lab.show_lab(tab.inner_text())
        page.wait_for_timeout(1000)  # for requests after the switch
    own = f"localhost:{server.port}"
    places = {(parts.scheme, parts.netloc) for parts in map(urlsplit, asked) if parts.scheme not in {"data", "blob"}}
    assert places == {("http", own), ("ws", own)}


LINKED = """() => {
  const walk = (root) => Array.from(root.querySelectorAll('*')).flatMap((node) => node.shadowRoot ?
    [...Array.from(node.shadowRoot.querySelectorAll('link'), (link) => link.href), ...walk(node.shadowRoot)] : []);
  return walk(document);
}"""


def test_a_page_asks_for_the_fonts_of_its_letters_and_no_component_for_its_styles(page: Page, server: Server):
    """Late files cause the page to be drawn and laid out again: there were 256 links and 18 font files."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    lab = LabPage(page, server)
    for tab in page.get_by_role("tab").all()[1:]:
        lab.show_lab(tab.inner_text())
        page.wait_for_timeout(1000)  # for requests after the switch
    assert page.evaluate(LINKED) == []
    sheets = [path for path in asked if path.endswith(".css")]
    assert len(sheets) == len(set(sheets)) < 5
    fonts = [path.rpartition("/")[2] for path in asked if ".woff" in path]
    assert {"latin", "icons"} <= {name.split("-")[1] for name in fonts}
    assert len(fonts) == len(set(fonts)) <= 8
    assert not [name for name in fonts if re.search("vietnamese|cyrillic|greek-ext", name)]
