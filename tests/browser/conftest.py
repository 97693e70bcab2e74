"""Fixtures that run a real Chromium against a real `panel serve app`.

Fixtures: `server` (one per run), `page` (one tab), `new_page` (more tabs), `lasting` (tabs shared by all tests of a
file, because opening a tab takes longer than most tests), `opened` and `lab` (the diffusion lab in such a tab),
`resting` (the same with the lab paused), `allowed_errors`. A test fails if a page that it opened logs an error or if
the server leaves a process behind.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from compute.devices.webgpu import SOFTWARE
from tests.browser.chromium import ADVICE, find
from tests.browser.console import ConsoleErrors
from tests.browser.lab_page import LabPage
from tests.browser.serving import Server, running, serve

HERE = Path(__file__).parent
LAPTOP = (1280, 720)  # pixels, the size of every tab
WAIT = 120_000  # ms until a missing element is a failure: kernels compile, and other tests run in parallel
FIRST = (  # the longest test files
    "test_l_curve", "test_export", "test_cards", "test_mandelbrot", "test_diffusion", "test_sizes",
    "test_life", "test_hostile_text", "test_engine_faults", "test_keys", "test_axe", "test_tabs",
    "test_crossover", "test_ui_level", "test_plugins", "test_race", "test_system",
    "test_mandelbrot_stage", "test_transport",
)  # fmt: skip
# Limit the frame rate of pages. Without a GPU, painting at full rate occupies one core and delays the tests, most of
# which check the picture a few times per second. Tests that need the full rate set paintEvery to 0.
CALM = """(() => {
  const paint = window.requestAnimationFrame.bind(window);
  window.paintEvery = 120;     // ms
  const requested = new Map();
  let last = -1000, number = 0;
  const run = (now) => {
    last = performance.now();
    const callbacks = [...requested.values()];
    requested.clear();
    for (const callback of callbacks) {
      try { callback(now); } catch (error) { reportError(error); }
    }
  };
  window.requestAnimationFrame = (callback) => {
    if (!requested.size) setTimeout(() => paint(run), Math.max(0, last + window.paintEvery - performance.now()));
    requested.set(++number, callback);
    return number;
  };
  window.cancelAnimationFrame = (which) => requested.delete(which);
})()"""
TIMEOUT = "Failed: Timeout"  # of pytest-timeout
# A headless browser that has entered full screen can no longer be resized.
WINDOWED = "Element.prototype.requestFullscreen = () => Promise.reject(new Error('there is no screen'));"
FLAGS = (
    "--disable-gpu",  # the same software rendering on every machine
    "--disable-dev-shm-usage",  # containers give /dev/shm 64 MB
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",  # without a network Chromium's background requests fail and are logged
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=SpareRendererForSitePerProcess",  # would start an unused process per tab
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests as browser tests and run them last: Playwright keeps an event loop in this thread."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    ours.sort(key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST))
    for item in ours:
        item.add_marker(pytest.mark.browser)
    items[:] = [item for item in items if item not in ours] + ours


@pytest.fixture(scope="session", autouse=True)
def no_gpu() -> Iterator[None]:
    """Hide GPUs from the servers, so that kernels and the fastest backend are the same on every machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.setenv(SOFTWARE, "off")
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find()
    if path is None:
        pytest.fail(ADVICE, pytrace=False)
    expect.set_options(timeout=WAIT)  # 5 s otherwise
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox refuses to run as root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *sandbox])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return the server shared by most tests; a test that damages a server uses `with serve(folder) as server:`."""
    with serve(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def allowed_errors() -> list[str]:
    """Return a list to which a test appends regular expressions of the console errors that it provokes."""
    return []


@pytest.fixture(scope="session")
def context(browser: Browser) -> BrowserContext:
    """Return the context of all tabs: they share one cache, which saves a fifth of a tab's loading time."""
    return browser.new_context(device_scale_factor=1)


class Tabs:
    """Opens tabs and collects their errors."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.errors = ConsoleErrors()
        self.pages: list[Page] = []

    def __call__(self) -> Page:
        """Open a tab."""
        page = self.context.new_page()
        page.set_viewport_size({"width": LAPTOP[0], "height": LAPTOP[1]})
        page.set_default_timeout(WAIT)
        page.add_init_script(CALM)
        page.add_init_script(WINDOWED)
        self.errors.watch(page)
        self.pages.append(page)
        return page

    def complain(self, allowed: list[str]) -> None:
        """Fail if a page has logged an error that is not allowed, then clear the errors."""
        unexpected = self.errors.unexpected(allowed)
        self.errors.texts.clear()
        assert not unexpected, "the page logged errors:\n" + "\n".join(unexpected)

    def close(self) -> None:
        """Close every tab; does nothing if all are closed."""
        while self.pages:
            self.pages.pop().close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append the last log lines and the processes of each running server to the report of a failed test.

    Stop after a timeout: it interrupts Playwright's event loop, and each later test would wait for its own timeout.
    """
    report = yield
    if report.failed and item.path.is_relative_to(HERE):
        for server in running:
            report.sections.append((f"the server at {server.port}", f"{server.text()[-3000:]}\n{server.busy()}"))
        if TIMEOUT in report.longreprtext:
            item.session.shouldstop = f"{item.nodeid}: timeout"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Function) -> None:
    """Close the tabs before any server stops: a tab that loses its server logs an error."""
    if isinstance(tabs := item.funcargs.get("new_page"), Tabs):
        tabs.close()


@pytest.fixture
def new_page(context: BrowserContext, allowed_errors: list[str]) -> Iterator[Tabs]:
    """Return `new_page`, whose calls open tabs; at teardown close them and fail on errors that are not allowed."""
    tabs = Tabs(context)
    yield tabs
    tabs.close()
    tabs.complain(allowed_errors)


@pytest.fixture(scope="module")
def lasting(context: BrowserContext) -> Iterator[Tabs]:
    """Return laptop-sized tabs for all tests of a file; other fixtures reset them between tests and call `complain`."""
    tabs = Tabs(context)
    yield tabs
    tabs.close()


@pytest.fixture(scope="module")
def opened(lasting: Tabs, server: Server) -> LabPage:
    """Return the page that all tests of a file share, by default with the diffusion lab; a file may override it."""
    return LabPage(lasting(), server)


@pytest.fixture
def lab(opened: LabPage, lasting: Tabs, allowed_errors: list[str]) -> Iterator[LabPage]:
    """Return the shared page, reset to its initial state."""
    opened.fresh()
    yield opened
    lasting.complain(allowed_errors)


@pytest.fixture
def resting(opened: LabPage, lasting: Tabs, allowed_errors: list[str]) -> Iterator[LabPage]:
    """Return the shared page with its lab paused, for tests of overlays: a running lab needs half a core."""
    opened.page.keyboard.press("Escape")  # an overlay that a failed test left open
    if "Running" in opened.status():
        opened.key(" ")
    opened.until(lambda: "Running" not in opened.status())
    yield opened
    lasting.complain(allowed_errors)


@pytest.fixture
def page(new_page: Tabs) -> Page:
    """Return an empty tab; `page.goto(server.url)` loads Fieldlab."""
    return new_page()
