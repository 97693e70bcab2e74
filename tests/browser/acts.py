"""Acts: an input with the pointer, a key or a file, and the state that it changes.

An act is done when the state returned by `read` has changed and, if it `paints`, the pixels of the main area too. The
acts of each lab are in tests/browser/lab_acts.py, those of every page here.

Buttons and switches are found on the page (`by_control`), so that new ones are tested without a list. Their effect is
that of the key in their name, "One step (S)", or of the act that `presses` them; otherwise the link of the lab or its
picture must change. The test requires an act for every key that the page reports to its server.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from tests.browser.lab_page import ALL_MODELS, SideBar
from tests.browser.layout import plots

FEWEST = 40  # pixels of the main area that an act changes
MOVED = 12  # levels by which a pixel changes
# Locations of controls. Presenter mode hides the side bar and the readout, and has its own bar.
ANYWHERE, MAIN, HEADER, SIDE_BAR, READOUT, BAR = "", "main", "header", "side bar", "readout", "bar"


def nothing(_: Any) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Act:
    """One act.

    do: performs it; read: returns the state that it changes; before: prepares the initial state; back: restores that
    state, which is checked too; key: the key that performs it, as app/page/browser.py writes it; presses: names of
    the buttons that perform it; place: the part of the page that must be open.
    """

    name: str
    do: Callable[[Any], object]
    read: Callable[[Any], object]
    before: Callable[[Any], object] = nothing
    back: Callable[[Any], object] | None = None
    key: str = ""
    presses: tuple[str, ...] = ()
    place: str = ANYWHERE
    paints: bool = True


def pixels(stage: SideBar) -> np.ndarray:
    """Return the main area's pixels on the screen, without tips of the pointer and readings of the system card."""
    stage.page.mouse.move(2, 2)
    stage.transitions()  # tips fade
    boxes = [one.bounding_box() for one in stage.page.locator(".bk-Figure").all() if one.is_visible()]
    found = list(filter(None, boxes))
    clip = max(found, key=lambda one: one["width"] * one["height"]) if found else None
    picture = stage.page.screenshot(clip=clip, mask=[stage.page.locator(".system-card")])
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), int)


def changed(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether two pictures of the main area differ."""
    return before.shape != after.shape or bool((np.abs(before - after).max(axis=2) > MOVED).sum() >= FEWEST)


def perform(stage: SideBar, act: Act) -> None:
    """Perform an act; fail unless the page's state and its pixels change."""
    act.before(stage)
    before = stage.still(lambda: act.read(stage), 0.4)
    picture = pixels(stage) if act.paints else None
    act.do(stage)
    stage.until(lambda: act.read(stage) != before)
    if picture is not None:
        stage.until(lambda: changed(picture, pixels(stage)))
    if act.back is not None:
        act.back(stage)
        stage.until(lambda: act.read(stage) == before)


def press(key: str) -> Callable[[SideBar], None]:
    """Return a function that presses this key, in Playwright's notation."""
    return lambda stage: stage.key(key)


NAMES = {
    "backspace": "Backspace", "shift+backspace": "Shift+Backspace", "ctrl+z": "Control+z", "home": "Home",
    "ctrl+shift+z": "Control+Shift+z", "arrowleft": "ArrowLeft", "arrowright": "ArrowRight", "arrowup": "ArrowUp",
    "arrowdown": "ArrowDown", "shift+n": "Shift+N", "shift+r": "Shift+R",
}  # fmt: skip


def escape(stage: SideBar) -> None:
    """Press Escape in the focused element."""
    stage.page.keyboard.press("Escape")


def by_key(name: str, key: str, read: Callable[[Any], object], *, toggles: bool = False, **more: Any) -> Act:
    """Return the act of a key; `key` as page/browser.py writes it. toggles: a second press brings the state back."""
    pressed = press(NAMES.get(key, key))
    return Act(name, pressed, read, key=key, **{"back": pressed if toggles else None, **more})


def both(*steps: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a function that performs these steps in order."""

    def take(stage: Any) -> None:
        for step in steps:
            step(stage)

    return take


def shown(selector: str, **filters: Any) -> Callable[[SideBar], bool]:
    """Return a function that reports whether an element with this selector is visible."""
    return lambda stage: stage.page.locator(selector).filter(**filters).filter(visible=True).count() > 0


def link(stage: SideBar) -> object:
    """Return the lab's state in its link."""
    return stage.page.evaluate("location.search")


def first_word(stage: SideBar) -> object:
    """Return whether the lab runs, is paused or complete."""
    return stage.status().split()[0]


# -- controls, found on the page

# The buttons and switches in a part of the page, in order. name: for screen readers; number: among those of the same
# name; chosen: the name of the selected option of its group; listed: whether it is an item of a list.
CONTROLS = """(place) => {
  const around = (node) => node ? [...around(node.parentNode ?? node.host), node] : [];
  const placed = (node) => {
    const outer = around(node).filter((one) => one.matches);
    if (outer.some((one) => one.matches('.contextbar'))) return 'readout';
    if (outer.some((one) => one.matches('.bar'))) return 'bar';
    const tag = outer.find((one) => ['HEADER', 'NAV', 'MAIN'].includes(one.tagName))?.tagName;
    return {HEADER: 'header', NAV: 'side bar', MAIN: 'main'}[tag];
  };
  const words = (node) => {
    const copy = node.cloneNode(true);
    for (const icon of copy.querySelectorAll('.material-icons, .MuiIcon-root, style')) icon.remove();
    return copy.textContent;
  };
  const named = (node) => (node.getAttribute('aria-label') || node.title ||
    words(node.closest('label') ?? node)).replace(/\\s+/g, ' ').trim();
  const seen = (node) => node.checkVisibility({visibilityProperty: true}) && node.getBoundingClientRect().width > 0;
  const found = [], count = {};
  const walk = (root) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.shadowRoot) walk(node.shadowRoot);
      if (!node.matches('button:not([role=tab]), input[role=switch]') || node.closest('[role=alert]')) continue;
      if (!seen(node) || placed(node) != place) continue;
      const name = named(node), number = count[name] = (count[name] ?? -1) + 1;
      const group = node.closest('[role=group], ul');
      const chosen = group?.querySelector('[aria-pressed=true]');
      found.push({node, name, number, key: node.dataset.key ?? '', pressed: node.getAttribute('aria-pressed') == 'true',
                  switched: node.tagName == 'INPUT', folds: node.hasAttribute('aria-expanded'),
                  disabled: node.disabled, listed: !!node.closest('li') && !node.hasAttribute('aria-pressed'),
                  chosen: chosen && chosen != node ? named(chosen) : ''});
    }
  };
  walk(document);
  return found;
}"""
LISTED = f"(place) => ({CONTROLS})(place).map(({{node, ...facts}}) => facts)"
FOUND = f"""([place, pattern, number]) =>
  ({CONTROLS})(place).filter(({{name}}) => new RegExp(pattern).test(name))[number]?.node"""
# Whether the content below a heading is unfolded: the next element after it, or after its only parent.
UNFOLDED = """(head) => {
  let node = head;
  while (!node.nextElementSibling || node.nextElementSibling.tagName == 'STYLE')
    node = node.parentElement ?? node.getRootNode().host;
  const below = node.nextElementSibling;
  return below.checkVisibility({visibilityProperty: true}) && below.getBoundingClientRect().height > 4;
}"""
KEY_IN_NAME = re.compile(r"\(([^()]+)\)")
RUN = {"Run": " ", "Pause": " "}  # the key of the large button, by its text


@dataclass(frozen=True)
class Control:
    """A button or switch on the page, found by `pattern`; group: the side bar's group that contains it."""

    place: str
    pattern: str
    number: int = 0
    group: str = ""

    def open(self, stage: SideBar) -> None:
        """Open its group."""
        if self.group:
            stage.group(self.group)

    def node(self, stage: SideBar) -> Any:
        """Return its element."""
        given = [self.place, self.pattern, self.number]
        return stage.until(lambda: stage.page.evaluate_handle(FOUND, given).as_element())

    def click(self, stage: SideBar) -> None:
        """Click it, once it is enabled."""
        self.node(stage).click()

    def unfolded(self, stage: SideBar) -> object:
        """Return whether the content below it is visible."""
        return self.node(stage).evaluate(UNFOLDED)


def controls(stage: SideBar, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (group of the side bar, facts) of each control in a part of the page; opens one group after the other."""
    if place != SIDE_BAR:
        yield from (("", facts) for facts in stage.page.evaluate(LISTED, place))
        return
    known: set[tuple[str, int]] = set()
    for group in [facts["name"] for facts in stage.page.evaluate(LISTED, place) if facts["folds"]]:
        stage.group(group)
        for facts in stage.still(lambda: stage.page.evaluate(LISTED, place), 0.5):
            if (facts["name"], facts["number"], facts["folds"]) not in known:
                known.add((facts["name"], facts["number"], facts["folds"]))
                yield group, facts


def by_control(stage: SideBar, place: str, acts: Sequence[Act]) -> list[Act]:
    """Return the acts of the controls in a part of the page, except controls that one of `acts` presses."""
    keys = {act.key: act for act in acts if act.key}
    pressed = {name: act for act in acts for name in act.presses}
    found = []
    for group, facts in controls(stage, place):
        name = facts["name"]
        in_name = next((key for key in KEY_IN_NAME.findall(name) if key.lower() in keys), "")
        key = facts["key"] or in_name.lower() or RUN.get(name, "")
        known = keys.get(key) or pressed.get(name)
        alone = facts["listed"] or facts["disabled"]  # an item of a list, which the lab's acts test, or disabled
        if facts["pressed"] or (alone and not known) or (known and not key and not known.key):
            continue
        others = RUN if name in RUN else [name]  # the button is named after its next action
        pattern = re.escape(f"({in_name})") if in_name else f"^({'|'.join(map(re.escape, others))})$"
        control = Control(place, pattern, 0 if known else facts["number"], group)
        title = f"{place}: {name}"
        if known:
            steps = both(known.before, control.open)
            found.append(replace(known, name=title, do=control.click, before=steps, key="", presses=(), place=place))
        elif facts["folds"]:
            found.append(Act(title, control.click, control.unfolded, back=control.click, place=place, paints=False))
        else:
            chosen = Control(place, f"^{re.escape(facts['chosen'])}$", 0, group)
            back = chosen.click if facts["chosen"] and place == SIDE_BAR else None
            found.append(Act(title, control.click, outcome, control.open, back, place=place, paints=False))
    return found


# The names of the visible plots.
FIGURES = f"""() => {ALL_MODELS}.filter((model) => model.type == 'Figure')
  .filter((figure) => Bokeh.index.find_one(figure)?.el.checkVisibility({{visibilityProperty: true}}))
  .map(({{name, id}}) => name ?? id).sort()"""


def outcome(stage: SideBar) -> object:
    """Return the lab's link, its plots, and a digest of the largest one's picture."""
    picture = hashlib.sha1(pixels(stage).tobytes(), usedforsecurity=False).hexdigest()
    return link(stage), stage.page.evaluate(FIGURES), picture


# -- what every page has


def pages(stage: SideBar) -> int:
    """Return how many pages the browser has open."""
    return len(stage.page.context.pages)


def open_window(stage: SideBar) -> None:
    """Open the lecturer's second window."""
    with stage.page.context.expect_page():
        stage.key("w")


def close_window(stage: SideBar) -> None:
    """Close it."""
    stage.page.context.pages[-1].close()
    stage.page.bring_to_front()


def widths(stage: SideBar) -> object:
    """Return the widths of the plots; their heights also depend on the text of the bar below them."""
    return [width for width, _ in plots(stage.page)]


def clicks(place: str, *names: str) -> Callable[[SideBar], None]:
    """Return a function that clicks the control with one of these names."""
    return Control(place, f"^({'|'.join(map(re.escape, names))})$").click


def toggled(name: str, read: Callable[[Any], object], *names: str, **more: Any) -> Act:
    """Return the act of a button in the header that alternates between these names."""
    click = clicks(HEADER, *names)
    return Act(name, click, read, back=click, presses=names, **more)


PAGE = (
    by_key("key H", "h", shown("[role=dialog]", has_text="Keys and pointer"), toggles=True, paints=False),
    by_key("key Shift+N", "shift+n", shown("[role=dialog]", has_text="Numbers"), toggles=True, paints=False),
    by_key("key U", "u", shown(".system-card"), toggles=True, paints=False),
    by_key("key E", "e", shown(".export-card"), toggles=True, paints=False),
    by_key("key K", "k", shown(".code-card pre"), toggles=True, paints=False),
    by_key("key T", "t", shown(".story"), toggles=True, paints=False),
    by_key("key Q", "q", shown(".audience"), toggles=True, paints=False),
    by_key("key Shift+R", "shift+r", shown(".race"), toggles=True, paints=False),
    by_key("key P", "p", shown("[role=toolbar]"), toggles=True),
    Act("key W", open_window, pages, back=close_window, key="w", paints=False),
    Act("about", clicks(HEADER, "About this lab"), shown("[role=dialog]", has_text="About"),
        back=escape, presses=("About this lab",), paints=False),
    toggled("scheme", lambda stage: stage.page.evaluate("document.documentElement.dataset.scheme"), "Toggle theme"),
    toggled("side bar", widths, "Hide controls", "Show controls", paints=False),
    toggled("readout", widths, "Hide results", "Show results", paints=False),
)  # fmt: skip


# -- presenter mode


def layer(name: str) -> Callable[[SideBar], object]:
    """Return a function that reads whether this button of the bar is on."""
    return lambda stage: stage.page.locator(f".bar [aria-label='{name}']").get_attribute("aria-pressed")


def strokes(stage: SideBar) -> object:
    """Return how many strokes the pen has drawn."""
    return int(stage.page.locator("canvas.paper").get_attribute("data-strokes") or 0)


def stroke(stage: SideBar) -> None:
    """Draw a stroke with the pen, then switch the pen off."""
    stage.key("d")
    stage.until(lambda: layer("Pen")(stage) == "true")
    stage.page.mouse.move(300, 300)
    stage.page.mouse.down()
    stage.page.mouse.move(400, 340, steps=5)
    stage.page.mouse.up()
    stage.until(lambda: strokes(stage))
    stage.key("d")
    stage.until(lambda: layer("Pen")(stage) == "false")


def said(stage: SideBar) -> object:
    """Return the value of the bar's slider in the server's notation."""
    return stage.page.locator(".bar .dial output").inner_text()


def turn(stage: SideBar) -> None:
    """Move the bar's slider by a step."""
    slider = stage.page.locator(".bar .dial input")
    slider.focus()
    at_the_end = slider.evaluate("(slider) => slider.value == slider.min")
    stage.page.keyboard.press("ArrowRight" if at_the_end else "ArrowLeft")


def dials(stage: SideBar) -> list[Act]:
    """Return the acts of the sliders that the bar offers."""
    chooser = stage.page.locator(".bar .dial select")

    def choose(number: int) -> Callable[[SideBar], None]:
        """Return a function that selects this slider if there are several."""
        return lambda stage: chooser.select_option(index=number) if chooser.is_visible() else None

    labels = chooser.locator("option").all_text_contents()
    return [Act(f"{BAR}: {label}", turn, said, choose(number), place=BAR, paints=False)
            for number, label in enumerate(labels)]  # fmt: skip


PRESENTER = (
    by_key("key Z", "z", shown(".ice canvas"), toggles=True, paints=False),
    by_key("key V", "v", shown(".veil"), toggles=True, paints=False),
    by_key("key D", "d", layer("Pen"), toggles=True, paints=False),
    by_key("key X", "x", strokes, before=stroke, paints=False),
    by_key("key .", ".", shown("[role=toolbar]"), toggles=True),
)
