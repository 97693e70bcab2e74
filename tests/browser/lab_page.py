"""A tab with the diffusion lab in it, as a test uses it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Error, Page

from compute.export.link import NAME, asked_in, unpacked
from tests.browser.layout import plots
from tests.browser.serving import Server

OPENING = 240.0  # s until a lab shows something: the first time all its kernels are compiled, in every server
PATIENCE = 120.0  # s: long, as a machine that runs the other tests beside may take its time
GROUPS = ("Field", "Physics", "Compute", "Display")
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


# What every control holds: [id, label, value], once its group was open. Two may have one label: the code has a kernel.
SETTINGS = """Array.from(Bokeh.documents[0]._all_models.values())
  .filter((m) => m.data?.attributes?.label && m.data.attributes.value !== undefined)
  .map(({id, data: {attributes: {label, value}}}) =>
    [id, label, typeof value == 'number' ? value.toPrecision(6) : value])"""


# As the browser's Back does, to an address of this page.
TRAVEL = "(query) => { history.replaceState(null, '', query); dispatchEvent(new PopStateEvent('popstate')); }"
# By how much the page is wider and higher than its window, and the words of the status bar wider than the bar.
OVERFLOW = """(bar) => { const page = document.documentElement;
  return [page.scrollWidth - innerWidth, page.scrollHeight - innerHeight, bar.scrollWidth - bar.clientWidth]; }"""


class SideBar:
    """What every lab's tab has: groups of controls, drop-downs, keys. A subclass has `page`."""

    page: Page

    def until(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """The condition's value as soon as it is true; fails after `seconds`, saying what the page says."""
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"not true within {seconds:g} s; the page says: {self.told()}"
            self.page.wait_for_timeout(100)

    def still(self, read: Callable[[], Any], seconds: float = 1.5) -> Any:
        """The value of `read`, once it has been the same for `seconds`; fails if it goes on changing."""

        def rested() -> list[Any]:
            before = read()
            self.page.wait_for_timeout(1000 * seconds)
            return [before] if read() == before else []

        return self.until(rested)[0]

    def status(self) -> str:
        """The status bar's words, on one line; "" before there is one."""
        bar = self.page.locator(".status")
        return " ".join(bar.first.inner_text().split()) if bar.count() else ""

    def told(self) -> str:
        """What a test that fails shall say of the page."""
        return self.status()

    def group(self, *names: str) -> None:
        """Open these groups of controls alone, once the lab's own are there: a tab brings them a moment later."""
        self.page.locator("nav button[aria-expanded]").filter(has_text=names[0]).first.wait_for()
        changed = False
        for button in self.page.locator("nav button[aria-expanded]").all():
            wanted = "true" if button.inner_text().strip() in names else "false"
            if button.get_attribute("aria-expanded") != wanted:
                self.until(lambda button=button, wanted=wanted: _turned(button, wanted))
                changed = True
        if changed:
            self.page.wait_for_timeout(400)  # the accordion's animation

    def unfold(self, label: str = "Details") -> None:
        """Open what is folded in the right column below that head, if it is not open."""
        head = self.page.get_by_role("button", name=label, exact=True)
        if head.get_attribute("aria-expanded") == "false":
            head.click()
        self.until(lambda: head.get_attribute("aria-expanded") == "true")

    def show_lab(self, name: str) -> None:
        """Show the lab of that name, and wait until the plots are its own: the tab says so before."""
        self.page.get_by_role("tab", name=name).click()
        self.page.locator(f"[role=tab][aria-selected=true]:has-text('{name}')").wait_for()
        self.until(lambda: name in " ".join(self.page.locator(".plot-words").all_text_contents()), OPENING)

    def fits_the_window(self) -> None:
        """Wait until nothing has to be scrolled: a window that was just resized is laid out in several steps.

        A page that has not followed yet fits a window that grows.
        """
        bar = self.page.locator(".status").first
        self.until(lambda: self.still(lambda: (bar.evaluate(OVERFLOW), plots(self.page)), 0.5)[0] == [0, 0, 0])

    def choose(self, label: str, option: str) -> None:
        """Pick an option of a drop-down."""
        self.page.get_by_role("combobox", name=label, exact=True).click()
        self.page.get_by_role("menuitem", name=option, exact=True).click()
        self.page.locator("ul[role=listbox]").wait_for(state="detached")  # it fades, and has the same label
        self.page.get_by_role("menuitem").first.wait_for(state="detached")

    @contextmanager
    def painting_freely(self) -> Iterator[None]:
        """Have the page paint as often as it can, as it does for people."""
        every = self.page.evaluate("window.paintEvery")
        self.page.evaluate("window.paintEvery = 0")
        try:
            yield
        finally:
            self.page.evaluate("(every) => { window.paintEvery = every; }", every)

    def key(self, key: str) -> None:
        """Press a key while nothing has the focus."""
        self.page.evaluate("document.activeElement?.blur?.()")
        self.page.keyboard.press(key)


class LabPage(SideBar):
    """Opens the app in `page` and waits until frames are painted."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.first: list[tuple[str, str, object]] = []
        self.load()

    def load(self) -> None:
        """Load the page, and wait until it is drawn in whole: the lab runs before that, on a browser that is busy."""
        self.page.goto(self.server.url)
        self.until(lambda: self.step() > 0, OPENING)
        self.page.wait_for_function("Bokeh.documents[0].is_idle")

    def remember(self) -> None:
        """Have `fresh` know what the controls hold now; each is made when its group is opened for the first time."""
        self.group(*GROUPS)
        self.group(*GROUPS[:2])
        self.first = self.page.evaluate(SETTINGS)
        query = self.until(lambda: self.page.evaluate("location.search"))
        self.home = f"?{NAME}={asked_in(query)[0]}"

    def settings(self) -> dict[str, object]:
        """What every control holds, by its label."""
        return {label: value for _, label, value in self.page.evaluate(SETTINGS)}

    def as_at_first(self) -> bool:
        """Whether every control holds what it held when the page was loaded."""
        now = {control: value for control, _, value in self.page.evaluate(SETTINGS)}
        return all(now.get(control, value) == value for control, _, value in self.first)

    def fresh(self) -> None:
        """The initial field, running, without loading the page, which takes ten seconds of a processor.

        If a control is not as it was at first, its address leads back to that, as the browser's Back does; the page is
        loaded if that fails. What no address holds, like the theme, a test puts back by itself. The first call finds
        out what there is to go back to.
        """
        if not self.first:
            self.remember()
        try:
            self.page.mouse.move(0, 0)
            self.page.keyboard.press("Escape")
            try:
                self.until(self.as_at_first, 1)
            except AssertionError:
                self.page.evaluate(TRAVEL, self.home)
                self.until(self.as_at_first, 15)
            self.group(*GROUPS[:2])
            if "Running" in self.status():
                self.key(" ")
            self.until(lambda: "Paused" in self.status())
            self.key("r")
            self.until(lambda: self.step() == 0)
            self.key(" ")
            self.until(lambda: self.step() > 0)
        except (AssertionError, Error) as error:  # of a test that failed, or that did not put back what it changed
            print(f"the page is loaded anew: {error}")
            self.load()
            self.remember()

    def ratio(self, value: float) -> None:
        """Move the slider of r there, key by key; with 0 and 0.25 at once."""
        slider = self.page.get_by_role("slider", name="r = D Δt / Δx²").first
        slider.focus()
        self.page.keyboard.press("Home" if value == 0 else "End")
        while (place := float(slider.input_value())) > value + 1e-9:
            self.page.keyboard.press("ArrowLeft")
            self.until(lambda place=place: float(slider.input_value()) < place)
        self.until(lambda: self.fact("r") == value)

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

    def at_rest(self) -> dict[str, float]:
        """The field of a lab that stands still, once no other frame comes: the status bar may be ahead of it."""
        return self.still(self.field)

    def pause(self) -> None:
        """Stop, and wait until it stands still."""
        if "Running" in self.status():
            self.key(" ")
        self.until(lambda: "Paused" in self.status())
        self.until(self.rests)

    def rests(self) -> bool:
        """Whether it stands and goes on to: an address of an earlier rest may fit a step that is not shown anew yet."""
        return self.stands() and self.still(self.step, 0.5) >= 0 and self.stands()

    def stands(self) -> bool:
        """Whether the lab rests at the step that is shown: the engine, once it has paused, tells it to the address."""
        text, runs = asked_in(self.page.evaluate("location.search"))
        if runs or not text:
            return False
        scene, step = unpacked(text), self.step()
        return scene.steps == step or (bool(scene.missing) and self.still(self.step) >= 0)


def _turned(button: Any, wanted: str) -> bool:
    """Click a head whose group is not as wanted, and return whether it is a moment later.

    A click is lost where the group is drawn at that moment, as all are after a reconnect.
    """
    if button.get_attribute("aria-expanded") != wanted:
        button.click()
        button.page.wait_for_timeout(500)
    return bool(button.get_attribute("aria-expanded") == wanted)
