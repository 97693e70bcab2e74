"""A real Chromium against the real `panel serve app`.

Fixtures: `server` (one for the run), `page` (one tab), `new_page` (more tabs), `lasting` (tabs for a whole file, as
opening one takes longer than most tests), `opened` and `lab` (the diffusion lab in such a tab), `resting` (it stands
still), `viewport`, `allowed_errors`, `screenshot`. A test fails when a page it opened logs an error, or when the server
leaves a process behind.
UPDATE_SCREENSHOTS=1 writes screenshots into assets/screenshots/, otherwise they go to the test's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright

from tests.browser.chromium import ADVICE, find
from tests.browser.console import ConsoleErrors
from tests.browser.lab_page import LabPage, SideBar
from tests.browser.serving import Server, running, serve

HERE = Path(__file__).parent
SCREENSHOTS = HERE.parent.parent / "assets" / "screenshots"
DRAWN = 2500 if os.environ.get("UPDATE_SCREENSHOTS") else 300  # ms before a screenshot: themes fade, curves grow
LAPTOP, PROJECTOR = (1280, 720), (1920, 1080)  # pixels: what the page is laid out for
WAIT = 120_000  # ms until a missing element is a failure: kernels compile, and other tests run beside
FIRST = (  # the longest
    "test_acts", "test_l_curve", "test_export", "test_cards", "test_mandelbrot", "test_diffusion", "test_sizes",
    "test_life", "test_hostile_text", "test_engine_faults", "test_race_labs", "test_keys", "test_axe", "test_tabs",
    "test_crossover", "test_ui_level", "test_small_windows", "test_plugins", "test_race", "test_system",
    "test_mandelbrot_stage", "test_transport",
)  # fmt: skip
# A page paints as often as it can. Painted without a GPU that takes a whole processor, for which what a test does would
# wait; most tests look at a picture a few times a second. Where each counts: `with lab.painting_freely():`.
CALM = """(() => {
  const paint = window.requestAnimationFrame.bind(window);
  window.paintEvery = 120;     // ms
  const waiting = new Map();
  let last = -1000, number = 0;
  const run = (now) => {
    last = performance.now();
    const callbacks = [...waiting.values()];
    waiting.clear();
    for (const callback of callbacks) {
      try { callback(now); } catch (error) { reportError(error); }
    }
  };
  window.requestAnimationFrame = (callback) => {
    if (!waiting.size) setTimeout(() => paint(run), Math.max(0, last + window.paintEvery - performance.now()));
    waiting.set(++number, callback);
    return number;
  };
  window.cancelAnimationFrame = (which) => waiting.delete(which);
})()"""
# A browser without windows gets no other size any more once it fills a screen that it does not have.
WINDOWED = "Element.prototype.requestFullscreen = () => Promise.reject(new Error('there is no screen'));"
FLAGS = (
    "--disable-gpu",  # the same software rendering everywhere
    "--disable-dev-shm-usage",  # containers give /dev/shm 64 MB
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",  # Chromium's own errands fail, and are logged, without a network
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=SpareRendererForSitePerProcess",  # one process more a tab, which nobody uses
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here as browser tests and run it last: Playwright keeps an event loop running in this thread."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    ours.sort(key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST))
    for item in ours:
        item.add_marker(pytest.mark.browser)
    items[:] = [item for item in items if item not in ours] + ours


@pytest.fixture(scope="session", autouse=True)
def no_gpu() -> Iterator[None]:
    """Show what a machine without a GPU shows, on every machine: which kernels there are, and who is the faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
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
    """The server that most tests share. One that harms its server starts its own: `with serve(folder) as server:`."""
    with serve(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def viewport(request: pytest.FixtureRequest) -> tuple[int, int]:
    """(width, height) in pixels; another by `@pytest.mark.parametrize("viewport", [PROJECTOR], indirect=True)`."""
    return getattr(request, "param", LAPTOP)


@pytest.fixture
def allowed_errors() -> list[str]:
    """Regular expressions of console errors that this test provokes; a test appends to it."""
    return []


@pytest.fixture(scope="session")
def context(browser: Browser) -> BrowserContext:
    """Of all tabs: what one has loaded of a server no other asks it for, which saves a fifth of what a tab takes."""
    return browser.new_context(device_scale_factor=1)


class Tabs:
    """Opens tabs, and remembers what went wrong in them."""

    def __init__(self, context: BrowserContext, viewport: tuple[int, int]) -> None:
        self.context = context
        self.size = ViewportSize(width=viewport[0], height=viewport[1])
        self.errors = ConsoleErrors()
        self.pages: list[Page] = []

    def __call__(self) -> Page:
        """Another tab."""
        page = self.context.new_page()
        page.set_viewport_size(self.size)
        page.set_default_timeout(WAIT)
        page.add_init_script(CALM)
        page.add_init_script(WINDOWED)
        self.errors.watch(page)
        self.pages.append(page)
        return page

    def complain(self, allowed: list[str]) -> None:
        """Fail if a page has logged an error that is not allowed; each is told once."""
        unexpected = self.errors.unexpected(allowed)
        self.errors.texts.clear()
        assert not unexpected, "the page logged errors:\n" + "\n".join(unexpected)

    def close(self) -> None:
        """Close every tab; harmless if done before."""
        while self.pages:
            self.pages.pop().close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the servers have logged last, and which of their processes are at work, to the report of a failure."""
    report = yield
    if report.failed and item.path.is_relative_to(HERE):
        for server in running:
            report.sections.append((f"the server at {server.port}", f"{server.text()[-3000:]}\n{server.busy()}"))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Function) -> None:
    """Close the tabs before any server: a tab that sees its server go logs an error."""
    if isinstance(tabs := item.funcargs.get("new_page"), Tabs):
        tabs.close()


@pytest.fixture
def new_page(context: BrowserContext, viewport: tuple[int, int], allowed_errors: list[str]) -> Iterator[Tabs]:
    """`new_page()` opens another tab. After the test every tab is closed and its errors are counted."""
    tabs = Tabs(context, viewport)
    yield tabs
    tabs.close()
    tabs.complain(allowed_errors)


@pytest.fixture(scope="module")
def lasting(context: BrowserContext) -> Iterator[Tabs]:
    """Tabs of laptop size that all tests of a file share; a fixture tidies up between them, and calls `complain`."""
    tabs = Tabs(context, LAPTOP)
    yield tabs
    tabs.close()


@pytest.fixture(scope="module")
def opened(lasting: Tabs, server: Server) -> LabPage:
    """The page that all tests of a file share; a file may open another one than the diffusion lab."""
    return LabPage(lasting(), server)


@pytest.fixture
def lab(opened: LabPage, lasting: Tabs, allowed_errors: list[str]) -> Iterator[LabPage]:
    """That page as it was when it was opened."""
    opened.fresh()
    yield opened
    lasting.complain(allowed_errors)


@pytest.fixture
def resting(opened: LabPage, lasting: Tabs, allowed_errors: list[str]) -> Iterator[LabPage]:
    """That page with its lab at rest, for tests of what lies over it: one that runs takes half a processor."""
    opened.page.keyboard.press("Escape")  # what a test that failed has left open
    if "Running" in opened.status():
        opened.key(" ")
    opened.until(lambda: "Running" not in opened.status())
    yield opened
    lasting.complain(allowed_errors)


@pytest.fixture
def freely(lab: SideBar) -> Iterator[None]:
    """That page paints as often as it can, as it does for people."""
    with lab.painting_freely():
        yield


@pytest.fixture
def page(new_page: Tabs) -> Page:
    """An empty tab; `page.goto(server.url)` shows Fieldlab."""
    return new_page()


@pytest.fixture
def screenshot(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """`screenshot("diffusion")` writes diffusion.png of `page`, or of the page that is given, and returns its path."""

    def take(name: str, page: Page | None = None) -> Path:
        page = page or request.getfixturevalue("page")
        folder = SCREENSHOTS if os.environ.get("UPDATE_SCREENSHOTS") else tmp_path
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        page.screenshot(path=path, animations="disabled")
        if os.environ.get("UPDATE_SCREENSHOTS"):  # to be kept: small, which takes seconds
            # not as 256 colours, which are smaller, but draw bands into smooth fields
            Image.open(path).convert("RGB").save(path, optimize=True)
        return path

    return take
