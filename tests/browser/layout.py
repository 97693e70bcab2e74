"""Find layout faults of a page with layout.js, which measures the DOM including shadow trees."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

LAYOUT = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
WRONG = ("small", "cut", "covered", "over")
SETTLED = 1200  # ms after a resize: the browser waits 150, then the server responds and plots are redrawn
FOLLOWED = 6.0  # s after which plots of unchanged size count as resized
PATIENCE = 120.0  # s, the timeout on a machine that runs other tests in parallel


def resize(page: Page, width: int, height: int) -> None:
    """Resize the window, and wait until the plots have changed their size and keep the new one."""
    size = {"width": width, "height": height}
    before = last = plots(page)
    other = page.viewport_size != size
    page.set_viewport_size(size)
    page.mouse.move(1, 1)  # where no tooltip is shown
    page.wait_for_timeout(SETTLED)
    end = time.monotonic() + FOLLOWED
    while other and time.monotonic() < end and ((now := plots(page)) == before or now != last):
        last = now
        page.wait_for_timeout(SETTLED / 4)


def faults(page: Page) -> list[str]:
    """Return descriptions of text that stays too small, cut, covered or overlapping; [] as soon as there are none."""
    end = time.monotonic() + PATIENCE
    while (found := faults_now(page)) and time.monotonic() < end:
        page.wait_for_timeout(SETTLED)
    return found


def comes(page: Page, condition: Callable[[], bool]) -> bool:
    """Return whether `condition` becomes true within PATIENCE: a page may be laid out in several steps."""
    end = time.monotonic() + PATIENCE
    while not (true := condition()) and time.monotonic() < end:
        page.wait_for_timeout(SETTLED / 4)
    return true


def faults_now(page: Page) -> list[str]:
    """Return descriptions of the present faults."""
    found: dict[str, Any] = page.evaluate(LAYOUT)
    lines = [f"{kind}: {words}" for kind in WRONG for words in found[kind]]
    lines += [f"plot outside: {plot['width']:.0f} x {plot['height']:.0f}" for plot in found["plots"] if plot["out"]]
    return lines + ["the page scrolls"] * found["scrolls"]


def unread(page: Page, least: float) -> list[str]:
    """Return which of headline and first sentence is unreadable or smaller than `least` px; [] if both are fine.

    The sentence is the readout's or the one above the crossover plot.
    """
    found = page.evaluate(LAYOUT)["first"]
    read = {one["kind"] for one in found if one["read"] and one["size"] >= least - 0.5 and one["words"]}
    wrong = ["headline"] * ("headline" not in read) + ["sentence"] * (not read & {"first", "says"})
    return [f"{kind}: {found}" for kind in wrong]


def readout_fits(page: Page) -> bool:
    """Return whether the right column has text, ends above the status bar and needs no scrolling."""
    column = page.evaluate(LAYOUT)["readout"]
    return column["words"] > 0 and column["below"] < 0 and not column["scrolls"]


def plots(page: Page) -> list[tuple[float, float]]:
    """Return (width, height) in px of each visible plot in the main area, in page order."""
    return [(plot["width"], plot["height"]) for plot in page.evaluate(LAYOUT, True)["plots"]]
