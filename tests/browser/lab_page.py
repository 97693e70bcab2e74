"""A tab with the diffusion lab in it, as a test uses it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from tests.browser.serving import Server

FRAMES = "Bokeh.documents[0].get_model_by_name('frames')"
FIELD = f"Array.from({FRAMES}.data.{{name}}[0])"
PROJECTED = f"""() => {{
  const {{data}} = {FRAMES}, levels = Array.from(data.field[0]);
  const value = (level) => data.field_low[0] + level / 254 * (data.field_high[0] - data.field_low[0]);
  const values = levels.map(value), mean = values.reduce((a, b) => a + b, 0) / values.length;
  const rough = values.reduce((sum, v, i) => sum + (i ? Math.abs(v - values[i - 1]) : 0), 0) / values.length;
  return {{mean, rough, most: values.reduce((a, b) => Math.max(a, b)), least: values.reduce((a, b) => Math.min(a, b)),
           pixels: values.length, number: data.number[0], right: data.x[0] + data.dw[0]}};
}}"""


class SideBar:
    """What every lab's tab has: groups of controls, drop-downs, keys. A subclass has `page`."""

    page: Page

    def until(self, condition: Callable[[], Any], seconds: float = 20.0) -> Any:
        """The condition's value as soon as it is true; fails after `seconds`, saying what the page says."""
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"not true within {seconds:g} s; the page says: {self.told()}"
            self.page.wait_for_timeout(50)

    def status(self) -> str:
        """The status bar's words, on one line; "" before there is one."""
        bar = self.page.locator(".status")
        return " ".join(bar.first.inner_text().split()) if bar.count() else ""

    def told(self) -> str:
        """What a test that fails shall say of the page."""
        return self.status()

    def group(self, name: str) -> None:
        """Open that group of controls alone, once the lab's own groups are there: a tab brings them a moment later."""
        self.page.locator("nav button[aria-expanded]").filter(has_text=name).first.wait_for()
        changed = False
        for button in self.page.locator("nav button[aria-expanded]").all():
            wanted = button.inner_text().strip() == name
            if (button.get_attribute("aria-expanded") == "true") != wanted:
                button.click()
                changed = True
        if changed:
            self.page.wait_for_timeout(400)  # the accordion's animation

    def choose(self, label: str, option: str) -> None:
        """Pick an option of a drop-down."""
        self.page.get_by_role("combobox", name=label, exact=True).click()
        self.page.get_by_role("menuitem", name=option, exact=True).click()
        self.page.locator("ul[role=listbox]").wait_for(state="detached")  # it fades, and has the same label
        self.page.get_by_role("menuitem").first.wait_for(state="detached")

    def key(self, key: str) -> None:
        """Press a key while nothing has the focus."""
        self.page.evaluate("document.activeElement?.blur?.()")
        self.page.keyboard.press(key)


class LabPage(SideBar):
    """Opens the app in `page` and waits until frames are painted."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        page.goto(server.url)
        self.until(lambda: self.step() > 0, 40)

    def fact(self, name: str) -> float:
        """A number in the status bar; -1 if it is not there."""
        found = re.search(rf"{name} ([-+0-9.e]+(?: \d{{3}})*)", self.status())
        return float(found[1].replace(" ", "")) if found else -1.0

    def step(self) -> float:
        """Steps done."""
        return self.fact("step")

    def field(self) -> dict[str, float]:
        """mean, rough (mean step between neighbours), most, least of the field on the screen; its pixels and number."""
        return self.page.evaluate(PROJECTED)

    def pause(self) -> None:
        """Stop, and wait until it stands still."""
        if "Running" in self.status():
            self.key(" ")
        self.until(lambda: "Paused" in self.status())
        last = -1.0
        while self.step() != last:
            last = self.step()
            self.page.wait_for_timeout(400)
