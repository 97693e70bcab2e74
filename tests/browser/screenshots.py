"""Screenshots of every page and mode for the documentation: `python -m tests.browser.screenshots`, in a checkout.

The script starts a server and a Chromium like the browser tests, and walks one page through the states of STATES, first
in the light scheme, then in the dark one. It writes each picture to docs/images as a WebP of some ten kilobytes. With
`--sheets` it writes a sheet of each state at five sizes to docs/images/sizes. `--only` selects states.
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
SIZE, PROJECTOR, PHONE, FRAME = (1280, 720), (1920, 1080), (390, 844), (640, 480)
SIZES = (SIZE, PROJECTOR, (800, 600), PHONE, (853, 480))  # of sheets; the last is a window of 1280 x 720 at 150 %
HEIGHT, GAP = 270, 6  # px in a sheet: height of a picture, gap between two
SCHEMES = ("light", "dark")
PATIENCE = 240.0  # s: the first visit compiles all kernels
CALM = 1500  # ms before a picture: theme transitions, growing curves, a headline that becomes more precise
MOST_BYTES = 100_000  # per picture
QUALITIES = (82, 70, 55, 40)  # of WebP; the first one below MOST_BYTES is used
MEASURING = re.compile("^measuring", re.IGNORECASE)  # the headline, and a bar without a time
LABS = {
    "diffusion": "Diffusion", "mandelbrot": "Mandelbrot", "l_curve": "L-curve", "crossover": "Crossover",
    "equations": "Equations",
}  # fmt: skip


class Walk(SideBar):
    """A page on its way through the states, with its browser and server. viewer: size of a follower's window in px."""

    def __init__(
        self, browser: Browser, page: Page, server: Server, scheme: str, viewer: tuple[int, int] = PHONE
    ) -> None:
        self.browser, self.page, self.server, self.scheme, self.viewer = browser, page, server, scheme, viewer

    def lab(self, name: str) -> None:
        """Show a lab."""
        self.show_lab(LABS[name])

    def load(self) -> None:
        """Load the page in the scheme."""
        self.page.goto(self.server.url)
        self.page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * PATIENCE)
        if self.page.evaluate("document.documentElement.dataset.scheme") != self.scheme:
            self.toggle_theme()

    def settle(self) -> None:
        """Wait until all times are measured and no note covers the page."""
        self.until(lambda: self.page.get_by_text(MEASURING).count() == 0)
        self.until(lambda: self.page.get_by_role("alert").locator("visible=true").count() == 0)

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
        walk.settle()
        if name == "diffusion":
            walk.key("r")  # the spots fade within seconds
        if name == "l_curve":
            walk.until(lambda: "Complete" in walk.status())
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


@contextmanager
def follower(walk: Walk) -> Iterator[Page]:
    """Show a follower's page on a phone, or in a sheet's size."""
    with room(walk) as code:
        phone = walk.other(f"/follow/{code}", walk.viewer)
        phone.locator("#picture").wait_for()
        phone.wait_for_timeout(CALM)
        yield phone
        phone.close()


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


@contextmanager
def embedded(walk: Walk) -> Iterator[Page]:
    """Show a page embedded with `?ui=minimal`."""
    page = walk.other("/app?ui=minimal", FRAME)
    page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * PATIENCE)
    page.wait_for_timeout(2 * CALM)
    yield page
    page.close()


@contextmanager
def seahorses(walk: Walk) -> Iterator[Page]:
    """Show a deep view of the Mandelbrot set with the orbit and the Julia set of the point under the pointer."""
    walk.lab("mandelbrot")
    walk.group("Place")
    walk.page.get_by_label("Go to Seahorses 3e5", exact=True).click()
    walk.until(lambda: "Complete" in walk.status() and "zoom 3.0e5" in walk.status())
    walk.settle()
    walk.key("o")
    walk.key("j")
    walk.page.mouse.move(700, 500)
    yield walk.page
    walk.key("o")
    walk.key("j")


@contextmanager
def measured(walk: Walk) -> Iterator[Page]:
    """Show the curves of a run of the crossover lab."""
    walk.lab("crossover")
    walk.type("to", "10000000")
    walk.page.get_by_role("button", name="Run", exact=True).click()
    walk.until(lambda: "Complete" in walk.status(), 3 * PATIENCE)
    yield walk.page


@contextmanager
def film(walk: Walk) -> Iterator[Page]:
    """Show the export card while a film is rendered."""
    page = walk.page
    walk.lab("diffusion")
    walk.key("e")
    page.get_by_role("button", name="Film", exact=True).click()
    walk.type("Frames", "30000")
    page.get_by_role("button", name="Make the film").click()
    page.locator(".job.running").get_by_text(re.compile(r"^frame [1-9]")).wait_for()
    walk.key("r")
    yield page
    page.get_by_role("button", name="Cancel", exact=True).click()
    walk.key("e")


STATES: dict[str, State] = {
    "diffusion": of_lab("diffusion"),
    "mandelbrot": seahorses,
    "l_curve": of_lab("l_curve"),
    "crossover": measured,
    "equations": of_lab("equations"),
    "presenter": by_key("p", ".bar.presenting"),
    "race": race("diffusion"),
    "race_mandelbrot": race("mandelbrot", "the lesson's scene"),
    "race_l_curve": race("l_curve"),
    "stories": by_key("t", ".story li"),
    "story": story,
    "code": by_key("k", ".code article"),
    "export": film,
    "system": by_key("u", ".system"),
    "keys": by_key("h", "[role=dialog]"),
    "about": dialog,
    "audience": audience,
    "follower": follower,
    "lecturer": lecturer,
    "ui_minimal": embedded,
}
SHEETS = STATES | {name: of_lab(name) for name in LABS} | {"export": by_key("e", ".along")}  # without a run


def shot(page: Page) -> Image.Image:
    """Return a picture of the page."""
    return Image.open(BytesIO(page.screenshot())).convert("RGB")


def save(picture: Image.Image, path: Path) -> None:
    """Write a picture as WebP of at most MOST_BYTES."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for quality in QUALITIES:
        picture.save(path, "WEBP", quality=quality, method=6)
        if path.stat().st_size <= MOST_BYTES:
            break
    print(path, path.stat().st_size, flush=True)


Look = Callable[[str, str, tuple[int, int], Page], object]


def take(states: Mapping[str, State], sizes: Sequence[tuple[int, int]], look: Look) -> list[str]:
    """Walk a page of each size through `states` in each scheme and call look(name, scheme, size, page) in each state.

    All pages are of one server, which compiles everything once. Returns a description of each state that failed.
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
        for size in sizes:
            page = browser.new_page(viewport={"width": size[0], "height": size[1]})
            page.set_default_timeout(60_000)
            for scheme in SCHEMES:
                walk = Walk(browser, page, server, scheme, PHONE if size == SIZE else size)
                walk.load()
                for name, state in states.items():
                    try:
                        with state(walk) as shown:
                            shown.wait_for_timeout(CALM)
                            look(name, scheme, size, shown)
                    except Exception as error:  # noqa: BLE001 - a state that fails must not stop the others
                        problems.append(f"{name}, {scheme}, {size}: {type(error).__name__}: {str(error)[:600]}")
                        walk.load()
            page.close()
    return problems


def sheet(shots: Mapping[tuple[tuple[int, int], str], Image.Image]) -> Image.Image:
    """Return the pictures of a state, by size and scheme: a row per scheme, a column per size."""
    widths = [round(HEIGHT * width / height) for width, height in SIZES]
    made = Image.new("RGB", (sum(widths) + GAP * (len(SIZES) + 1), HEIGHT * 2 + GAP * 3), (128, 128, 128))
    for (size, scheme), picture in shots.items():
        column = SIZES.index(size)
        left, top = sum(widths[:column]) + GAP * (column + 1), GAP + SCHEMES.index(scheme) * (HEIGHT + GAP)
        made.paste(picture.resize((widths[column], HEIGHT), Image.Resampling.LANCZOS), (left, top))
    return made


def main() -> int:
    """Write the requested pictures; return 1 if some failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="states")
    parser.add_argument("--sheets", action="store_true", help="a sheet of each state at five sizes")
    chosen = parser.parse_args()
    every = SHEETS if chosen.sheets else STATES
    states = {name: state for name, state in every.items() if name in (chosen.only or every)}
    if chosen.sheets:
        states.pop("ui_minimal", None)  # which has a fixed size
        shots: dict[str, dict[tuple[tuple[int, int], str], Image.Image]] = {name: {} for name in states}

        def keep(name: str, scheme: str, size: tuple[int, int], page: Page) -> None:
            shots[name][size, scheme] = shot(page)

        problems = take(states, SIZES, keep)
        for name, found in shots.items():
            save(sheet(found), IMAGES / "sizes" / f"{name}.webp")
    else:

        def look(name: str, scheme: str, size: tuple[int, int], page: Page) -> None:
            save(shot(page), IMAGES / f"{name}{'-dark' * (scheme == 'dark')}.webp")

        problems = take(states, (SIZE,), look)
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
