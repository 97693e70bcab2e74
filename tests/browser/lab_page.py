"""Page object of a tab with the diffusion lab, and what the pages of all labs have in common."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from playwright.sync_api import Error, Locator, Page

from compute.export.link import NAME, link_in_query, unpacked
from tests.browser.layout import plots
from tests.browser.serving import Server

OPENING = 240.0  # s until a lab shows its first picture: the first visit of each server compiles all kernels
PATIENCE = 120.0  # s, the timeout of other conditions: the machine also runs other tests
GROUPS = ("Field", "Physics", "Compute", "Display")
# `all`: every node of the page, including shadow trees.
DEEP = """
  const all = [], walk = (root) => { for (const node of root.querySelectorAll('*')) {
    all.push(node); if (node.shadowRoot) walk(node.shadowRoot); } };
  walk(document);
"""
MOVING = f"""() => {{ {DEEP}
  return all.some((node) => node.getAnimations().some((one) => one instanceof CSSTransition)); }}"""
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"  # after two paintings
ALL_MODELS = "Array.from(Bokeh.documents[0]._all_models.values())"
FRAMES = f"{ALL_MODELS}.find((one) => one.name == 'frames' && one.data.laplacian)"  # of Diffusion
FIELD = f"""() => {{
  const {{data}} = {FRAMES}, levels = Array.from(data.field[0]);
  const value = (level) => data.field_low[0] + level / 254 * (data.field_high[0] - data.field_low[0]);
  const values = levels.map(value), mean = values.reduce((a, b) => a + b, 0) / values.length;
  const rough = values.reduce((sum, v, i) => sum + (i ? Math.abs(v - values[i - 1]) : 0), 0) / values.length;
  return {{mean, rough, most: values.reduce((a, b) => Math.max(a, b)), least: values.reduce((a, b) => Math.min(a, b)),
           pixels: values.length, number: data.number[0], right: data.x[0] + data.dw[0]}};
}}"""
# [id, label, value] of every control whose group has been opened. Labels may occur twice: the code card has "Kernel".
SETTINGS = f"""{ALL_MODELS}
  .filter((m) => m.data?.attributes?.label && m.data.attributes.value !== undefined)
  .map(({{id, data: {{attributes: {{label, value}}}}}}) =>
    [id, label, typeof value == 'number' ? value.toPrecision(6) : value])"""
# Go to another query string of this page, as the browser's Back does.
TRAVEL = "(query) => { history.replaceState(null, '', query); dispatchEvent(new PopStateEvent('popstate')); }"
# By how many px the page exceeds its window in width and height, and the status bar's text the bar's width.
OVERFLOW = """(bar) => { const page = document.documentElement;
  return [page.scrollWidth - innerWidth, page.scrollHeight - innerHeight, bar.scrollWidth - bar.clientWidth]; }"""
# Simulates that another tab hides this one, and the way back: headless Chromium shows all of its tabs.
HIDE = """(hidden) => {
  Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


class SideBar:
    """The parts that every lab's tab has: groups of controls, drop-downs, keys. A subclass sets `page`."""

    page: Page

    @classmethod
    def of(cls, page: Page, **attributes: Any) -> Self:
        """Return the page object of a page that is open already; `attributes` are set on it."""
        made = cls.__new__(cls)
        made.page = page
        vars(made).update(attributes)
        return made

    def until(self, condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Return the condition's value as soon as it is true; fail after `seconds` with the page's text."""
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"not true within {seconds:g} s; the page says: {self.description()}"
            self.page.wait_for_timeout(100)

    def still(self, read: Callable[[], Any], seconds: float = 1.5) -> Any:
        """Return the value of `read` once it has not changed for `seconds`; fail if it keeps changing."""

        def unchanged() -> list[Any]:
            before = read()
            self.page.wait_for_timeout(1000 * seconds)
            return [before] if read() == before else []

        return self.until(unchanged)[0]

    def drawn(self) -> None:
        """Wait until the page is drawn, handles keys and has its colour scheme."""
        drawn = "document.documentElement.dataset.scheme && Bokeh.documents[0].is_idle"
        self.page.wait_for_function(drawn, timeout=1000 * OPENING)

    def transitions(self) -> None:
        """Wait for the end of all transitions: fading lists, folding groups, changing colours."""
        self.until(lambda: not self.page.evaluate(MOVING))

    def status(self) -> str:
        """Return the status bar's text on one line; "" before it exists."""
        bar = self.page.locator(".status")
        return " ".join(bar.first.inner_text().split()) if bar.count() else ""

    def description(self) -> str:
        """Return the page's text for failure messages."""
        return self.status()

    def group(self, *names: str) -> None:
        """Open these groups of controls and close the others, once the lab's own groups exist."""
        self.page.locator("nav button[aria-expanded]").filter(has_text=names[0]).first.wait_for()
        changed = False
        for button in self.page.locator("nav button[aria-expanded]").all():
            expanded = "true" if button.inner_text().strip() in names else "false"
            if button.get_attribute("aria-expanded") != expanded:
                button.click()
                # the click is lost if the group is redrawn at that moment, as all are after a reconnection
                self.until(lambda button=button, expanded=expanded: self._expand(button, expanded))
                changed = True
        if changed:
            self.transitions()

    def _expand(self, button: Locator, expanded: str) -> bool:
        """Return whether the button's group is expanded as requested; click it if it stays otherwise."""
        try:
            self.until(lambda: button.get_attribute("aria-expanded") == expanded, 1)
        except AssertionError:
            button.click()
            return False
        return True

    def list_stories(self) -> Locator:
        """Open the card of the stories with its list, also if an earlier test left it in a story; return the card."""
        card = self.page.locator(".story")
        if not card.is_visible():
            self.key("t")
            card.locator("li, .text").first.wait_for()
        if card.locator(".text").count():
            card.get_by_role("button", name="All stories").click()
        card.locator("li").first.wait_for()
        return card

    def unfold(self, label: str = "Details") -> None:
        """Open the folded part of the right column with this heading, unless it is open."""
        head = self.page.get_by_role("button", name=label, exact=True)
        if head.get_attribute("aria-expanded") == "false":
            head.click()
        self.until(lambda: head.get_attribute("aria-expanded") == "true")

    def show_lab(self, name: str) -> None:
        """Show the lab `name`, and wait for its plots, which follow the tab."""
        self.page.get_by_role("tab", name=name).click()
        self.page.locator(f"[role=tab][aria-selected=true]:has-text('{name}')").wait_for()
        self.until(lambda: name in " ".join(self.page.locator(".plot-words").all_text_contents()), OPENING)

    @contextmanager
    def sized(self, size: tuple[int, int]) -> Iterator[None]:
        """Give the window another size in px within the block."""
        before = self.page.viewport_size
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        try:
            yield
        finally:
            self.page.set_viewport_size(before)
        self.still(lambda: plots(self.page), 0.5)  # a click during the new layout may hit another element

    def fits_the_window(self) -> None:
        """Wait until nothing needs scrolling.

        A resized window is laid out in several steps, and the old layout fits a window that grows.
        """
        bar = self.page.locator(".status").first
        self.until(lambda: self.still(lambda: (bar.evaluate(OVERFLOW), plots(self.page)), 0.5)[0] == [0, 0, 0])

    def choose(self, label: str, option: str) -> None:
        """Pick an option of a drop-down."""
        self.page.get_by_role("combobox", name=label, exact=True).click()
        self.page.get_by_role("menuitem", name=option, exact=True).click()
        self.page.locator("ul[role=listbox]").wait_for(state="detached")  # it fades, and has the same label
        self.page.get_by_role("menuitem").first.wait_for(state="detached")

    def choose_file(self, opener: Locator, name: str, data: bytes) -> None:
        """Choose a file in the dialog that `opener` opens."""
        with self.page.expect_file_chooser() as chooser:
            opener.first.click()
        chooser.value.set_files({"name": name, "mimeType": "application/octet-stream", "buffer": data})

    def type(self, label: str, text: str) -> None:
        """Type `text` into a field and press Enter."""
        field = self.page.get_by_label(label, exact=True).first
        field.fill(text)
        field.press("Enter")

    def toggle_theme(self) -> None:
        """Switch between the light and the dark scheme, and wait until the colours have changed."""
        scheme = "document.documentElement.dataset.scheme"
        before = self.page.evaluate(scheme)
        self.page.get_by_role("button", name="Toggle theme").click()
        self.page.wait_for_function(f"{scheme} != '{before}'")
        self.transitions()

    def key(self, key: str) -> None:
        """Press a key without a focused element."""
        self.page.evaluate("document.activeElement?.blur?.()")
        self.page.keyboard.press(key)


class LabPage(SideBar):
    """Opens the app in `page` and waits until frames are painted."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.initial: list[tuple[str, str, object]] = []
        self.load()

    def load(self) -> None:
        """Load the page and wait until it is drawn completely; on a busy machine the lab runs before that."""
        self.page.goto(self.server.url)
        self.until(lambda: self.step() > 0, OPENING)
        self.page.wait_for_function("Bokeh.documents[0].is_idle")

    def remember(self) -> None:
        """Record the controls' values for `fresh`; a control exists once its group was opened."""
        self.group(*GROUPS)
        self.group(*GROUPS[:2])
        self.initial = self.page.evaluate(SETTINGS)
        query = self.until(lambda: self.page.evaluate("location.search"))
        self.home = f"?{NAME}={link_in_query(query)[0]}"

    def settings(self) -> dict[str, object]:
        """Return the value of every control by its label."""
        return {label: value for _, label, value in self.page.evaluate(SETTINGS)}

    def has_initial_settings(self) -> bool:
        """Return whether every control has its initial value."""
        now = {control: value for control, _, value in self.page.evaluate(SETTINGS)}
        return all(now.get(control, value) == value for control, _, value in self.initial)

    def fresh(self) -> None:
        """Restore the initial field, running, without loading the page, which takes ten CPU seconds.

        Changed controls are restored through the address, as by the browser's Back; if that fails the page is loaded.
        A test must restore what no address contains, like the theme. The first call records the initial state.
        """
        if not self.initial:
            self.remember()
        try:
            self.page.mouse.move(0, 0)
            self.page.keyboard.press("Escape")
            try:
                self.until(self.has_initial_settings, 1)
            except AssertionError:
                self.page.evaluate(TRAVEL, self.home)
                self.until(self.has_initial_settings, 15)
            self.group(*GROUPS[:2])
            self.pause_at_start()
            self.key(" ")
            self.until(lambda: self.step() > 0)
        except (AssertionError, Error) as error:  # the state that a failed test left
            print(f"the page is loaded again: {error}")
            self.load()
            self.remember()

    def pause_at_start(self) -> None:
        """Pause the lab and reset it to step 0."""
        if "Running" in self.status():
            self.key(" ")
        self.until(lambda: "Paused" in self.status())
        self.key("r")
        self.until(lambda: self.step() == 0)

    def ratio(self, value: float) -> None:
        """Move the slider of r to `value` with the keyboard; 0 and 0.25 take one key press."""
        slider = self.page.get_by_role("slider", name="r = D Δt / Δx²").first
        slider.focus()
        self.page.keyboard.press("Home" if value == 0 else "End")
        while (place := float(slider.input_value())) > value + 1e-9:
            self.page.keyboard.press("ArrowLeft")
            self.until(lambda place=place: float(slider.input_value()) < place)
        self.until(lambda: self.fact("r") == value)

    def fact(self, name: str) -> float:
        """Return a number of the status bar; -1 if it is absent."""
        found = re.search(rf"{name} ([-+0-9.e]+(?: \d{{3}})*)", self.status())
        return float(found[1].replace(" ", "")) if found else -1.0

    def step(self) -> float:
        """Return the number of the step in the status bar."""
        return self.fact("step")

    def steps_on(self, count: int = 1) -> None:
        """Wait until the lab has advanced by at least `count` steps."""
        before = self.step()
        self.until(lambda: self.step() >= before + count)

    def frames_on(self, count: int = 1) -> None:
        """Wait until at least `count` more frames have been received."""
        before = self.field()["number"]
        self.until(lambda: self.field()["number"] >= before + count)

    def field(self) -> dict[str, float]:
        """Return mean, rough (mean difference of neighbours), most, least, pixels and number of the displayed field."""
        return self.page.evaluate(FIELD)

    def at_rest(self) -> dict[str, float]:
        """Return the field of a paused lab once no more frames arrive: the status bar may be ahead of the picture."""
        return self.still(self.field)

    def pause(self) -> None:
        """Pause the lab, and wait until it is at rest."""
        if "Running" in self.status():
            self.key(" ")
        self.until(lambda: "Paused" in self.status())
        self.until(self._is_at_rest)

    def _is_at_rest(self) -> bool:
        """Return whether the lab stays paused: an address of an earlier rest may match a step that is outdated."""
        return self._address_is_current() and self.still(self.step, 0.5) >= 0 and self._address_is_current()

    def _address_is_current(self) -> bool:
        """Return whether the address contains the displayed step; the engine reports it after a pause."""
        text, runs = link_in_query(self.page.evaluate("location.search"))
        if runs or not text:
            return False
        scene, step = unpacked(text), self.step()
        return scene.steps == step or (bool(scene.missing) and self.still(self.step) >= 0)
