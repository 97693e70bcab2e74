"""Pages of other origins: links work; scripts, data, frames and forms do not, except frames allowed by `embed`.

A page belongs to the browser that requested it, which keeps it by a cookie.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from compute.cli import settings
from tests.browser.conftest import WAIT
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.serving import Server, serve
from tests.browser.test_reconnect import BREAK, NOISE, SOCKETS, reconnect

pytestmark = pytest.mark.extended

THIEF = """<!DOCTYPE html><title>thief</title><a href="{app}">a link</a>
<script>
  window.found = {{}};
  const note = (name) => ({{ onload: () => found[name] = true, onerror: () => found[name] = false }});
  const autoload = '{app}/autoload.js?bokeh-autoload-element=x', library = '{base}/static/js/bokeh.min.js';
  const sources = {{ autoload, library, page: '{app}' }};
  for (const [name, src] of Object.entries(sources))
    document.head.append(Object.assign(document.createElement('script'), {{ src }}, note(name)));
  document.head.append(Object.assign(new Image(), {{ src: '{base}/favicon.ico' }}, note('picture')));
  fetch('{app}', {{ credentials: 'include', mode: 'no-cors' }}).then(() => found.data = true, () => found.data = false);
</script>"""
FRAME = """<!DOCTYPE html><title>course</title><iframe src="{app}?ui=minimal" width="960" height="600"
  sandbox="allow-scripts allow-same-origin allow-popups"></iframe>"""  # attributes that learning platforms set
LINK = '<!DOCTYPE html><title>link</title><link rel="icon" href="data:,"><a href="{app}">Fieldlab</a>'
FORM = '<!DOCTYPE html><title>form</title><form action="{base}/logout" method="post"><button>Win</button></form>'


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without logging."""

    def log_message(self, format: str, *given: object) -> None:  # noqa: A002 - the library's name
        pass


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Yield a folder served by another server on this machine, and its port."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with ThreadingHTTPServer(("localhost", 0), partial(Quiet, directory=str(folder))) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield folder, other.server_address[1]
        other.shutdown()


def write(folder: Path, server: Server) -> None:
    base = f"http://localhost:{server.port}"
    for name, text in (("thief", THIEF), ("frame", FRAME), ("form", FORM), ("link", LINK)):
        (folder / f"{name}.html").write_text(text.format(base=base, app=f"{base}/app"))


@pytest.fixture
def stranger(browser: Browser) -> Iterator[Page]:
    """Return a tab whose console errors are ignored."""
    context = browser.new_context()
    context.set_default_timeout(WAIT)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("host", ["localhost", "elsewhere.localhost"])  # same site, other site
def test_another_origin_may_link_and_nothing_else(
    stranger: Page, server: Server, elsewhere: tuple[Path, int], host: str
) -> None:
    folder, port = elsewhere
    write(folder, server)
    stranger.goto(f"http://{host}:{port}/thief.html")
    stranger.wait_for_function("() => Object.keys(found).length == 5")
    found = stranger.evaluate("found")
    assert found == dict.fromkeys(("autoload", "page", "library", "picture", "data"), False)
    assert stranger.evaluate("typeof Bokeh") == "undefined"
    stranger.get_by_role("link", name="a link").click()
    expect(stranger.get_by_role("tab", name="Diffusion")).to_be_visible(timeout=WAIT)

    stranger.goto(f"http://{host}:{port}/frame.html")
    frame = stranger.frames[1]
    assert not frame.locator(".status").count()
    with stranger.expect_response("**/logout") as answer:
        stranger.goto(f"http://{host}:{port}/form.html")
        stranger.get_by_role("button", name="Win").click()
    assert answer.value.status == 403


def test_a_listed_origin_shows_the_page_in_a_frame(stranger: Page, elsewhere: tuple[Path, int], tmp_path: Path) -> None:
    """The lab runs in the frame, from which it opens the lecturer's window."""
    folder, port = elsewhere
    listed = settings.Settings(embed=(f"http://course.localhost:{port}",))
    with serve(tmp_path, environ={settings.VARIABLE: msgspec.json.encode(listed).decode()}) as server:
        write(folder, server)
        stranger.goto(f"http://course.localhost:{port}/frame.html", wait_until="commit")
        framed = LabPage.of(stranger)
        framed.until(lambda: len(stranger.frames) > 1)
        frame = stranger.frames[1]
        expect(frame.locator(".status")).to_contain_text("step", timeout=1000 * OPENING)
        frame.locator("body").click(position={"x": 5, "y": 5})
        with stranger.context.expect_page() as opened:
            stranger.keyboard.press("w")
        expect(opened.value).to_have_title("Fieldlab: lecturer's window", timeout=WAIT)
        framed.until(lambda: "Diffusion" in opened.value.locator("body").inner_text())
        stranger.goto(f"http://other.localhost:{port}/frame.html")  # not a listed origin
        assert not stranger.frames[1].locator(".status").count()
        stranger.goto("about:blank")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser context with separate cookies."""
    context = browser.new_context(device_scale_factor=1)
    yield context
    context.close()


def test_a_page_reconnects_after_a_link_of_another_site_was_opened(new_page, server, elsewhere, allowed_errors):
    """Browsers omit the cookie from a cross-site request, so that this browser receives a second one."""
    allowed_errors += NOISE
    first = new_page()
    first.add_init_script(SOCKETS)
    lab = LabPage(first, server)
    first.evaluate("() => { window.not_reloaded = true; }")
    second = new_page()
    folder, port = elsewhere
    write(folder, server)
    second.goto(f"http://127.0.0.1:{port}/link.html")
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
