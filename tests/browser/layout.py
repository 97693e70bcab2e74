"""What is wrong with how a page is laid out: measured in its DOM by layout.js, with the shadow trees of its parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

LAYOUT = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
WRONG = ("small", "cut", "covered", "over")
SETTLED = 1200  # ms after a change of size: the browser waits 150, then the server answers and plots are drawn
FOLLOWED = 6.0  # s after which the plots are those that the window has room for, though they are as before
PATIENCE = 120.0  # s that a machine that runs other tests beside may take for it


def resize(page: Page, width: int, height: int) -> None:
    """Give the window another size, and wait until the page has followed: its plots have another size, and keep it."""
    size = {"width": width, "height": height}
    before = last = plots(page)
    other = page.viewport_size != size
    page.set_viewport_size(size)
    page.mouse.move(1, 1)  # where nothing has a tip
    page.wait_for_timeout(SETTLED)
    end = time.monotonic() + FOLLOWED
    while other and time.monotonic() < end and ((now := plots(page)) == before or now != last):
        last = now
        page.wait_for_timeout(SETTLED / 4)


def faults(page: Page) -> list[str]:
    """What stays too small, cut, covered or over something else, in words; [] as soon as all is well."""
    end = time.monotonic() + PATIENCE
    while (found := faults_now(page)) and time.monotonic() < end:
        page.wait_for_timeout(SETTLED)
    return found


def comes(page: Page, condition: Callable[[], bool]) -> bool:
    """Whether it becomes true: a page may be laid out in several steps."""
    end = time.monotonic() + PATIENCE
    while not (true := condition()) and time.monotonic() < end:
        page.wait_for_timeout(SETTLED / 4)
    return true


def faults_now(page: Page) -> list[str]:
    """What is wrong at this moment."""
    found: dict[str, Any] = page.evaluate(LAYOUT)
    told = [f"{kind}: {words}" for kind in WRONG for words in found[kind]]
    told += [f"plot outside: {plot['width']:.0f} x {plot['height']:.0f}" for plot in found["plots"] if plot["out"]]
    return told + ["the page scrolls"] * found["scrolls"]


def unread(page: Page, least: float) -> list[str]:
    """What cannot be read of the large number and the first sentence, in type of at least `least` px; [] if both can.

    A sentence is the readout's, or the finding above the plot of a crossover.
    """
    found = page.evaluate(LAYOUT)["first"]
    read = {one["kind"] for one in found if one["read"] and one["size"] >= least - 0.5 and one["words"]}
    wrong = ["headline"] * ("headline" not in read) + ["sentence"] * (not read & {"first", "says"})
    return [f"{kind}: {found}" for kind in wrong]


def readout_fits(page: Page) -> bool:
    """Whether the right column is there, ends above the line at the bottom, and has nothing to scroll."""
    column = page.evaluate(LAYOUT)["readout"]
    return column["words"] > 0 and column["below"] < 0 and not column["scrolls"]


def plots(page: Page) -> list[tuple[float, float]]:
    """(width, height) in px of each plot that is seen in the main area, in the order of the page."""
    return [(plot["width"], plot["height"]) for plot in page.evaluate(LAYOUT, True)["plots"]]
