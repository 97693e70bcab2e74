"""Screenshots of every page and mode for the documentation: `python -m tests.browser.screenshots`, in a checkout.

The script starts a server and a Chromium like the browser tests, and walks one page through the states of STATES, first
in the light scheme, then in the dark one. It writes each picture to docs/images as a WebP of some ten kilobytes.
`--only`, `--size` and `--scheme` restrict the pictures, `--out` sets another folder.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import ADVICE, find
from tests.browser.lab_page import SideBar
from tests.browser.serving import ROOT, Server, serve

IMAGES = ROOT / "docs" / "images"
SIZE, PHONE, LOW = (1280, 720), (390, 844), (800, 600)
SCHEMES = ("light", "dark")
PATIENCE = 240.0  # s: the first visit compiles all kernels
CALM = 1500  # ms before a picture: theme transitions, growing curves, a headline that becomes more precise
MOST_BYTES = 100_000  # per picture
QUALITIES = (82, 70, 55, 40)  # of WebP; the first one below MOST_BYTES is used
LABS = {"diffusion": "Diffusion", "mandelbrot": "Mandelbrot", "l_curve": "L-curve", "crossover": "Crossover"}


class Walk(SideBar):
    """A page on its way through the states, with its browser and server."""

    def __init__(self, browser: Browser, page: Page, server: Server, scheme: str) -> None:
        self.browser, self.page, self.server, self.scheme = browser, page, server, scheme

    def lab(self, name: str) -> None:
        """Show a lab."""
        self.show_lab(LABS[name])

    def load(self) -> None:
        """Load the page in the scheme."""
        self.page.goto(self.server.url)
        self.page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * PATIENCE)
        if self.page.evaluate("document.documentElement.dataset.scheme") != self.scheme:
            self.toggle_theme()

    def other(self, address: str, size: tuple[int, int]) -> Page:
        """Open another page of the server in a new browser context: a phone, a second window or a frame."""
        page = self.browser.new_page(
            viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if self.scheme == "dark" else "light"
        )
        page.goto(self.server.url.removesuffix("/app") + address)
        return page


State = Callable[[Walk], AbstractContextManager[Page]]


def of_lab(name: str) -> State:
    """Return the state in which the lab `name` is shown."""

    @contextmanager
    def shown(walk: Walk) -> Iterator[Page]:
        walk.lab(name)
        walk.page.wait_for_timeout(4 * CALM)
        yield walk.page

    return shown


def by_key(key: str, seen: str, lab: str = "diffusion") -> State:
    """Return the state that a key opens and closes; seen: a selector that matches while it is open."""

    @contextmanager
    def shown(walk: Walk) -> Iterator[Page]:
        walk.lab(lab)
        walk.key(key)
        walk.page.locator(seen).first.wait_for(timeout=1000 * PATIENCE)
        yield walk.page
        walk.key(key)
        walk.page.locator(seen).first.wait_for(state="hidden")

    return shown


def race(lab: str, work: str = "") -> State:
    """Return the state of a finished race; work: the label of the button for another workload."""

    @contextmanager
    def shown(walk: Walk) -> Iterator[Page]:
        page = walk.page
        walk.lab(lab)
        walk.key("Shift+R")
        if work:
            page.get_by_role("button", name=work).click()
            page.locator(".race article.recorded").wait_for(timeout=1000 * PATIENCE)
        page.locator(".race article").first.wait_for(timeout=1000 * PATIENCE)
        lanes = page.locator(".race article").count()
        walk.until(lambda: page.locator(".race .badge.shown").count() == lanes)
        yield page
        page.keyboard.press("Escape")
        page.locator(".race article").first.wait_for(state="detached")

    return shown


def tell(walk: Walk) -> None:
    """Open the story, from the list of stories if another one is open."""
    page = walk.page
    walk.lab("diffusion")
    walk.key("t")
    page.locator(".story header").wait_for()
    if not page.locator(".story li").count():
        page.get_by_role("button", name="All stories").click()
    page.locator(".story button", has_text="The chequerboard").click()
    page.locator(".story .text").wait_for()


@contextmanager
def story(walk: Walk) -> Iterator[Page]:
    """Show the second step of a story."""
    page = walk.page
    tell(walk)
    page.wait_for_timeout(CALM)
    walk.key("PageDown")
    yield page
    page.get_by_role("button", name="Close the story").click()
    page.locator(".story").wait_for(state="hidden")


@contextmanager
def dialog(walk: Walk) -> Iterator[Page]:
    """Show the dialog "About this lab"."""
    page = walk.page
    page.get_by_role("button", name="About this lab").click()
    page.get_by_role("dialog").wait_for()
    yield page
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


@contextmanager
def room(walk: Walk) -> Iterator[str]:
    """Open a room that follows the page and yield its code."""
    page = walk.page
    walk.lab("diffusion")
    walk.key("q")
    page.get_by_role("button", name="Let the room follow").click()
    code = page.locator(".audience .code").inner_text()
    yield code
    if not page.locator(".audience .code").is_visible():
        walk.key("q")
    page.get_by_role("button", name=re.compile("^End the room")).first.click()
    walk.key("q")


@contextmanager
def audience(walk: Walk) -> Iterator[Page]:
    """Show the card with the room's code."""
    with room(walk):
        yield walk.page


def follower(size: tuple[int, int]) -> State:
    """Return the state of a follower's page."""

    @contextmanager
    def shown(walk: Walk) -> Iterator[Page]:
        with room(walk) as code:
            phone = walk.other(f"/follow/{code}", size)
            phone.locator("#picture").wait_for()
            phone.wait_for_timeout(CALM)
            yield phone
            phone.close()

    return shown


@contextmanager
def lecturer(walk: Walk) -> Iterator[Page]:
    """Show the lecturer's second window, with a story's notes."""
    tell(walk)
    with walk.page.context.expect_page() as opened:
        walk.key("w")
    window = opened.value
    if walk.page.viewport_size:
        window.set_viewport_size(walk.page.viewport_size)
    window.emulate_media(color_scheme="dark" if walk.scheme == "dark" else "light")
    window.wait_for_timeout(CALM)
    yield window
    window.close()
    walk.page.get_by_role("button", name="Close the story").click()
    walk.page.locator(".story").wait_for(state="hidden")


def embedded(level: str, size: tuple[int, int]) -> State:
    """Return the state of a page embedded with `?ui=level`."""

    @contextmanager
    def shown(walk: Walk) -> Iterator[Page]:
        page = walk.other(f"/app?ui={level}", size)
        page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * PATIENCE)
        page.wait_for_timeout(2 * CALM)
        yield page
        page.close()

    return shown


def sized(state: State, size: tuple[int, int]) -> State:
    """Return `state` in a window of another size."""

    @contextmanager
    def shown(walk: Walk) -> Iterator[Page]:
        with state(walk) as page:
            page.set_viewport_size({"width": size[0], "height": size[1]})
            page.wait_for_timeout(CALM)
            yield page
            page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
            page.wait_for_timeout(1000)

    return shown


STATES: dict[str, State] = {
    **{name: of_lab(name) for name in LABS},
    "presenter": by_key("p", ".bar.presenting"),
    "race": race("diffusion"),
    "race_mandelbrot": race("mandelbrot", "the lesson's scene"),
    "race_l_curve": race("l_curve"),
    "stories": by_key("t", ".story li"),
    "story": story,
    "code": by_key("k", ".code article"),
    "export": by_key("e", ".along"),
    "system": by_key("u", ".system"),
    "keys": by_key("h", "[role=dialog]"),
    "about": dialog,
    "audience": audience,
    "follower": follower(PHONE),
    "lecturer": lecturer,
    "ui_minimal": embedded("minimal", (640, 480)),
    "ui_none": embedded("none", (640, 480)),
    "phone": sized(of_lab("diffusion"), PHONE),
    "low": sized(of_lab("l_curve"), LOW),
}


def save(page: Page, path: Path) -> int:
    """Write a picture of the page; return its size in bytes."""
    shot = Image.open(BytesIO(page.screenshot())).convert("RGB")
    for quality in QUALITIES:
        made = BytesIO()
        shot.save(made, "WEBP", quality=quality, method=6)
        if made.tell() <= MOST_BYTES:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.getvalue())
    return made.tell()


def take(
    names: Sequence[str],
    schemes: Sequence[str],
    size: tuple[int, int],
    look: Callable[[str, str, Page], object],
    states: Mapping[str, State] = STATES,
) -> list[str]:
    """Walk one page through `names` in each scheme and call look(name, scheme, page) in each state.

    Returns a description of each state that failed.
    """
    path = find()
    if path is None:
        raise SystemExit(ADVICE)
    problems = []
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(Path(folder)) as server,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"]) as browser,
    ):
        page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        page.set_default_timeout(60_000)
        for scheme in schemes:
            walk = Walk(browser, page, server, scheme)
            walk.load()
            for name in names:
                try:
                    with states[name](walk) as shown:
                        shown.wait_for_timeout(CALM)
                        look(name, scheme, shown)
                except Exception as error:  # noqa: BLE001 - a state that fails must not stop the others
                    problems.append(f"{name}, {scheme}: {type(error).__name__}: {str(error)[:600]}")
                    walk.load()
        page.close()
    return problems


def main() -> int:
    """Write the requested pictures; return 1 if some failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(STATES), default=list(STATES))
    parser.add_argument("--scheme", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--size", type=lambda text: tuple(int(side) for side in text.split("x")), default=SIZE)
    parser.add_argument("--out", type=Path, default=IMAGES)
    chosen = parser.parse_args()

    def look(name: str, scheme: str, page: Page) -> None:
        file = chosen.out / f"{name}{'-dark' * (scheme == 'dark')}.webp"
        sys.stdout.write(f"{file} {save(page, file)}\n")
        sys.stdout.flush()

    problems = take(chosen.only, chosen.scheme, chosen.size, look)
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
