"""Script in each text from outside (links, files, file names, names inside files) is shown as text.

There are two defences, tested separately: foreign text never becomes markup, and markup inside the page runs no script.
"""

from __future__ import annotations

import base64
import io
import json
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import TimeoutError as TimedOut

from tests.browser.export_page import ExportPage
from tests.browser.lab_page import DEEP, LabPage

pytestmark = pytest.mark.extended

SEEN = "<img src=x onerror='ran=1'>"  # would run as HTML and as Markdown; the page must show it literally
MARKUP = f"{SEEN}<script>window.ran=1</script>"
FOREIGN = f"""() => {{ {DEEP}
  return all.filter((node) => {{
    const address = node.getAttribute('href') ?? node.getAttribute('src') ?? '';
    return node.getAttributeNames().some((name) => name.startsWith('on')) ||
      node.tagName == 'SCRIPT' && node.textContent.includes('window.ran') ||
      address == 'x' || address.startsWith('javascript:');
  }}).map((node) => node.outerHTML.slice(0, 200));
}}"""
TEXT = """() => {
  const words = [];
  const walk = (node) => {
    if (node.nodeType == 3) words.push(node.textContent);
    for (const child of node.childNodes) if (!['STYLE', 'SCRIPT'].includes(child.tagName)) walk(child);
    if (node.shadowRoot) walk(node.shadowRoot);
  };
  walk(document.body);
  return words.join(' ');
}"""
DOCUMENT = {"lab": "diffusion", "values": {"nx": 512, "ny": 512}}
FILE = {"schema": "fieldlab-scene/1", "size": [720, 720], **DOCUMENT}


class Hostile(LabPage, ExportPage):
    """The page under test, with its export card."""

    def __init__(self, page, server, folder):
        LabPage.__init__(self, page, server)
        self.folder, self.server = folder, server

    def shows(self, words: str = SEEN) -> None:
        """Wait until the page shows `words` as text; fail if a part of it has become markup or has run."""
        self.until(lambda: words in self.page.evaluate(TEXT))
        self.runs_nothing()

    def runs_nothing(self) -> None:
        """Fail if foreign text has become markup or has run; broken images report their error a moment later."""
        assert self.still(lambda: (self.page.evaluate(FOREIGN), self.page.evaluate("window.ran")), 0.3) == ([], None)

    def close_notes(self) -> None:
        """Close the notices one by one, as a user does; some may expire in between."""
        buttons = self.page.locator("[role=alert] button")
        while buttons.count():
            with suppress(TimedOut):  # it may move during the click
                buttons.first.click(timeout=1000)
            self.transitions()


@pytest.fixture(scope="module")
def opened(lasting, server, tmp_path_factory):
    lab = Hostile(lasting(), server, tmp_path_factory.mktemp("hostile"))
    lab.pause()  # a paused lab needs no CPU time
    return lab


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    opened.close_notes()
    lasting.complain(allowed_errors)


def address(document: dict[str, Any] | str) -> str:
    """Return the query string of a link to `document`, packed as any third party could."""
    from compute.export.link import CHECK, WORDS

    text = (document if isinstance(document, str) else json.dumps(document)).encode()
    press = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=WORDS)
    packed = zlib.crc32(text).to_bytes(4, "big")[-CHECK:] + press.compress(text) + press.flush()
    return "scene=1." + base64.urlsafe_b64encode(packed).decode().rstrip("=")


HOSTILE = {
    "missing": {
        **DOCUMENT,
        "missing": f"{MARKUP} [a](javascript:window.ran=1) &lt;img src=x onerror='ran=1'&gt; `{MARKUP}`",
    },
    "an entry": {**DOCUMENT, MARKUP: 1},
    "the lab": {**DOCUMENT, "lab": MARKUP},
    "a value's name": {**DOCUMENT, "values": {MARKUP: 1}},
    "a value": {"lab": "mandelbrot", "values": {"center": [MARKUP, "0"]}},
    "the look": {**DOCUMENT, "look": {"palette": MARKUP}},
    "an entry of the history": {**DOCUMENT, "history": [{"step": MARKUP, "set": {}}]},
}


def test_a_link(page, server):
    linked = Hostile.of(page)
    for where in ("missing", "the lab", "a value"):  # files take the same code path from there
        page.goto(f"{server.url}?{address(HOSTILE[where])}")
        linked.shows()


@pytest.mark.parametrize("where", HOSTILE)
def test_a_dropped_json(lab, where, tmp_path):
    path = tmp_path / "scene.json"
    path.write_text(json.dumps(FILE | HOSTILE[where]), encoding="utf-8")
    lab.drop(path, "application/json")
    lab.shows()


def test_names_and_metadata_of_dropped_files(lab, tmp_path):
    path = tmp_path / f"{MARKUP.replace('/', ' ')}.json"  # a slash is not possible in a name here
    path.write_text("[]", encoding="utf-8")
    lab.drop(path, "application/json")
    lab.shows()
    lab.close_notes()
    path, about = tmp_path / "picture.png", PngInfo()
    about.add_itxt("fieldlab", json.dumps(FILE | {"missing": MARKUP}))
    Image.new("RGB", (8, 8)).save(path, pnginfo=about)
    lab.drop(path, "image/png")
    lab.shows()


def test_text_typed_into_a_field(lab):
    """The error message is below the field."""
    lab.show("Numbers")
    field = lab.page.get_by_label("Values", exact=True).first
    field.fill(MARKUP)
    field.press("Tab")
    lab.page.get_by_role("button", name="Make the table", exact=True).click()
    lab.shows("was not made")
    lab.shows()


def test_files_of_an_own_problem(lab):
    """Names of the files and of their arrays, which an error message of the engine quotes."""
    page = lab.page
    card = page.get_by_text("Export").first
    if card.is_visible():  # open since the previous test
        lab.key("e")
        card.wait_for(state="hidden")
    page.get_by_role("tab", name="L-curve").click()
    page.locator(".chosen").wait_for()
    lab.group("Problem")
    lab.choose("Problem", "Own A and b")
    held = io.BytesIO()
    np.savez(held, **{MARKUP.replace("/", " "): np.eye(3)})
    name = f"{SEEN}.npz"
    field = page.locator("nav input[type=file]").first
    field.set_input_files({"name": name, "mimeType": "", "buffer": held.getvalue()})
    lab.shows(f"it holds {SEEN}")
    lab.until(lambda: name in page.evaluate(TEXT))


def test_markup_inside_the_page_runs_no_script(lab, allowed_errors):
    """The second defence alone: the page's Content-Security-Policy."""
    allowed_errors += ["Content Security Policy", "404"]
    page = lab.page
    place = page.evaluate_handle(
        """(markup) => {
          const place = document.body.appendChild(document.createElement('div'));
          place.innerHTML = markup;
          const script = document.createElement('script');
          script.textContent = 'window.ran = 2';
          place.append(script);
          const link = place.appendChild(document.createElement('a'));
          link.href = 'javascript:window.ran=3';
          link.click();
          const other = document.createElement('script');
          other.src = 'https://127.0.0.1:1/evil.js';
          place.append(other);
          return place;
        }""",
        MARKUP,
    )
    loaded = "(place) => [...place.querySelectorAll('img')].every((image) => image.complete)"
    lab.until(lambda: place.evaluate(loaded))  # loading or failing would run a handler
    assert lab.still(lambda: page.evaluate("window.ran"), 0.5) is None
    place.evaluate("(place) => place.remove()")
